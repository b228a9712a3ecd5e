"""``endpoint``: settings of the last stage, the one that sends. It is always there; naming it only sets it."""

from typing import Any

from nemo_evaluator.adapters import base


class Interceptor(base.Interceptor):
    """Takes the settings; the transport obeys them."""

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
        """The transport reads these from the spec; building the stage checks their names."""
