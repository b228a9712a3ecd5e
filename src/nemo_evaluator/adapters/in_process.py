"""The pipeline of a service in process, for nel's own solvers and judges."""

from collections.abc import Sequence
from dataclasses import replace

from nemo_evaluator.adapters.base import Interceptor, make_audible
from nemo_evaluator.adapters.pipeline import Pipeline
from nemo_evaluator.adapters.registry import build_stage
from nemo_evaluator.adapters.traffic import Traffic
from nemo_evaluator.core.secrets import Secret
from nemo_evaluator.models.client import Client
from nemo_evaluator.models.endpoint import Endpoint
from nemo_evaluator.models.open_transport import open_transport


class ServicePipeline(Pipeline):
    """The pipeline of an endpoint, and the transport at its end."""

    def __init__(self, endpoint: Endpoint, stages: Sequence[Interceptor] = ()) -> None:
        """Build the stages of an endpoint.

        Args:
            endpoint: The endpoint, with the names and settings of its stages.
            stages: Further stages.
        """
        self.endpoint = with_endpoint_settings(endpoint)
        self.transport = open_transport(self.endpoint)
        super().__init__(stages_of(self.endpoint, stages), self.transport)

    def client(self) -> Client:
        """A client that sends through this pipeline; closing it closes the pipeline."""
        return Client(self.endpoint, self, transport=self.transport)

    async def close(self) -> None:
        """Close the stages and the transport."""
        await super().close()
        await self.transport.close()


def open_client(endpoint: Endpoint) -> Client:
    """A client of an endpoint, through the interceptors of its service if it has any. Close it when done."""
    if endpoint.bare:
        return Client(endpoint)
    return ServicePipeline(endpoint).client()


def stages_of(endpoint: Endpoint, further: Sequence[Interceptor] = ()) -> list[Interceptor]:
    """Return the stages of an endpoint: those of its service, those that its settings imply, and further ones."""
    specs = [spec for spec in endpoint.stages if spec.name != "endpoint"]
    stages = [build_stage(spec, endpoint.base_dir) for spec in specs]
    names = {spec.name for spec in specs}
    # Each is imported only where an endpoint needs it, to start faster.
    if endpoint.finish_reason_fixup and "finish_reason" not in names:
        from nemo_evaluator.adapters.interceptors import finish_reason  # noqa: PLC0415

        stages.append(finish_reason.Interceptor())
    if endpoint.verbose and "logging" not in names:
        from nemo_evaluator.adapters.interceptors import logging  # noqa: PLC0415

        stages.append(logging.Interceptor(preview_chars=0))
    if endpoint.cache_mode != "off" and "caching" not in names:
        from nemo_evaluator.adapters.interceptors import caching  # noqa: PLC0415

        stages.append(caching.Interceptor(cache_dir=endpoint.cache_dir, mode=endpoint.cache_mode))
    if endpoint.traffic is not None:
        stages.append(Traffic(endpoint.traffic))
    stages += further
    for stage in stages:
        stage.bind(endpoint)
    if any(stage.talks for stage in stages):
        make_audible()
    return stages


def with_endpoint_settings(endpoint: Endpoint) -> Endpoint:
    """Apply the settings of the ``endpoint`` interceptor, if the service has it; they override the endpoint's own.

    Raises:
        UsageError: The interceptor has an unknown or a wrong setting.
    """
    spec = next((item for item in endpoint.stages if item.name == "endpoint"), None)
    if spec is None:
        return endpoint
    # Building the stage checks its settings.
    build_stage(spec, endpoint.base_dir)
    settings = spec.config
    api_key = endpoint.api_key
    if settings.get("api_key"):
        api_key = Secret(settings["api_key"])
    timeouts = replace(
        endpoint.timeouts, total=settings.get("request_timeout", endpoint.timeouts.total)
    )
    retry = replace(
        endpoint.retry,
        max_retries=settings.get("max_retries", endpoint.retry.max_retries),
        retry_on_status=settings.get("retry_on_status") or endpoint.retry.retry_on_status,
    )
    return replace(
        endpoint,
        api_key=api_key,
        url=settings.get("upstream_url", endpoint.url),
        replicas=() if "upstream_url" in settings else endpoint.replicas,
        extra_body={**endpoint.extra_body, **settings.get("extra_body", {})},
        extra_headers={**endpoint.extra_headers, **settings.get("extra_headers", {})},
        timeouts=timeouts,
        max_concurrent=settings.get("max_concurrent", endpoint.max_concurrent),
        retry=retry,
    )
