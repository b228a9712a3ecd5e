"""``endpoint``: settings of the transport, which is always the last stage."""

from typing import Any

from nemo_evaluator.adapters import base


class Interceptor(base.Interceptor):
    """Only checks its settings; ``with_endpoint_settings`` gives them to the transport."""

    def __init__(
        self,
        upstream_url: str | None = None,
        api_key: str | None = None,
        extra_body: dict[str, Any] | None = None,
        extra_headers: dict[str, str] | None = None,
        request_timeout: float | None = None,
        max_retries: int | None = None,
        retry_on_status: list[int] | None = None,
        max_concurrent: int | None = None,
    ) -> None:
        """Accept the settings. They are read from the spec; building the stage checks their names and types."""
