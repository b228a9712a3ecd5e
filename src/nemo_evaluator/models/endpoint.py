"""Everything a client needs to know about a service: where the model is, its protocol, and its settings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal
from urllib.parse import urlsplit

from nemo_evaluator.config import ModelService
from nemo_evaluator.config.fields import FOR_FINGERPRINT
from nemo_evaluator.config.shared_service import SharedService
from nemo_evaluator.config.traffic import ModelTrafficConfig, ProxyConfig
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.secrets import Secret
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.core.values import dataclass, field
from nemo_evaluator.models.retry import RetryConfig

if TYPE_CHECKING:
    from nemo_evaluator.models.endpoint_description import EndpointDescription

PATHS: Final = {
    "chat_completions": "/chat/completions",
    "completions": "/completions",
    "responses": "/responses",
}
_ENDINGS: Final = ("/chat/completions", "/completions", "/responses", "/embeddings", "/messages")

# Settings of a service that cannot change an answer.
_OPERATIONAL: Final = {
    "url",
    "port",
    "api_key",
    "timeouts",
    "retry",
    "price",
    "max_concurrent",
    "startup_timeout",
    "health_path",
    "depends_on",
    "node_pool",
    "gpus",
    "num_nodes",
    "replicas",
    "restarts",
    "stop_grace",
    "balancer",
    "balancer_port",
    "setup_commands",
    "container_mounts",
    "ray_binary",
    "slots",
    "threads",
    "proxy",
    "interceptors",
    "proxy_verbose",
    "generation",
    "batch",
}
# Stages that only observe.
OBSERVERS: Final = frozenset(
    {
        "caching",
        "log_tokens",
        "response_stats",
        "progress_tracking",
        "logging",
        "http_pairs_dump",
        "endpoint",
    }
)


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Time limits of one request, in seconds; ``outage`` is for a server that stopped responding."""

    connect: float = 10.0
    first_byte: float = 600.0
    idle: float = 120.0
    total: float = 1800.0
    outage: float = 600.0


@dataclass(frozen=True, slots=True)
class Price:
    """USD per million tokens."""

    input: float = 0.0
    output: float = 0.0
    cached_input: float | None = None


@dataclass(frozen=True, slots=True)
class BatchSettings:
    """How requests go through a vendor's batches.

    Attributes:
        provider: The vendor.
        max_wait: Seconds until a batch is cancelled.
        max_requests: The largest number of requests in a batch.
        finish_synchronously: Send requests that a batch did not answer directly.
        folder: The folder of the ledger; None to use no batches.
        detach: Stop waiting once all batches are running.
    """

    provider: str
    max_wait: float
    max_requests: int
    finish_synchronously: bool
    folder: Path | None = None
    detach: bool = False


@dataclass(frozen=True, slots=True)
class StageSpec:
    """The name and the settings of an interceptor."""

    name: str
    config: JsonDict = field(default_factory=dict)


@dataclass(slots=True)
class Endpoint:
    """A model behind a URL. ``url`` may end in the path of a protocol, which is removed."""

    name: str
    url: str
    protocol: str = "chat_completions"
    model: str = ""
    api_key: Secret | None = None
    generation: JsonDict = field(default_factory=dict)
    timeouts: Timeouts = field(default_factory=Timeouts)
    retry: RetryConfig = field(default_factory=lambda: RetryConfig(6, 0.5, 30.0))
    extra_body: JsonDict = field(default_factory=dict)
    extra_headers: dict[str, str] = field(default_factory=dict, repr=False)
    reasoning_pattern: str | None = None
    max_concurrent: int | None = None
    max_input_tokens: int | None = None
    max_output_tokens: int | None = None
    price: Price | None = None
    stages: Sequence[StageSpec] = ()
    verbose: bool = False
    finish_reason_fixup: bool = False
    cache_mode: Literal["read", "write", "off"] = "off"
    cache_dir: str | None = None
    # Further models that agents behind the proxy may name.
    allowed_models: Sequence[str] = ()
    # None: no call is recorded.
    traffic: ModelTrafficConfig | None = None
    # The folder of the config file, for interceptors in files.
    base_dir: Path | None = None
    identity: JsonDict = field(default_factory=dict)
    # The base URLs of all servers of the service, if there are several.
    replicas: Sequence[str] = ()
    batch: BatchSettings | None = None
    # Returns why the service has stopped for good; None while it runs or may come back.
    lost: Callable[[], str | None] | None = None

    def __post_init__(self) -> None:
        self.url = base_url(self.url)
        if self.protocol not in PATHS:
            raise UsageError(
                f"unknown protocol {self.protocol!r}", hint=f"known: {', '.join(PATHS)}"
            )
        self.model = self.model or self.name

    @property
    def urls(self) -> Sequence[str]:
        """The base URLs of all servers."""
        return self.replicas or (self.url,)

    @property
    def path(self) -> str:
        """The path of the protocol under the base URL."""
        return PATHS[self.protocol]

    @property
    def bare(self) -> bool:
        """Whether the endpoint needs no pipeline between client and transport."""
        return not (
            self.stages
            or self.verbose
            or self.finish_reason_fixup
            or self.cache_mode != "off"
            or self.traffic
        )

    def describe(self) -> EndpointDescription:
        """The settings that may change an answer: the service's part of a fingerprint, without ports and keys."""
        parts = urlsplit(self.url)
        stages: list[list[str | JsonDict]] = [
            [stage.name, stage.config] for stage in self.stages if stage.name not in OBSERVERS
        ]
        description: EndpointDescription = {
            "protocol": self.protocol,
            "model": self.model,
            "service": self.identity or {"host": parts.hostname, "path": parts.path},
            "generation": self.generation,
            "extra_body": self.extra_body,
            "reasoning_pattern": self.reasoning_pattern,
            "interceptors": stages,
        }
        if len(stages) > 1:
            # Earlier versions ran them in another order; answers of those versions must not be reused.
            description["interceptor_order"] = "as listed"
        return description


def base_url(url: str) -> str:
    """The versioned base of a URL: slashes and the path of a protocol at its end are removed, a query stays."""
    url, mark, query = url.partition("?")
    url = url.rstrip("/")
    for ending in _ENDINGS:
        if url.endswith(ending):
            url = url.removesuffix(ending)
            break
    return url + mark + query


def endpoint_of(
    name: str, service: Any, url: str | None = None, *, base_dir: Path | None = None
) -> Endpoint:
    """The endpoint of a service.

    Args:
        name: The name of the service.
        service: Its config.
        url: Its URL, if nel has started it.
        base_dir: The folder of the config file.

    Raises:
        UsageError: The service is not a model, or has no URL yet.
    """
    if not isinstance(service, ModelService):
        text = f"service {name!r} is not a model"
        raise UsageError(text, hint="name a service that has a protocol")
    server_name = name
    if isinstance(service, SharedService):
        server_name = service.server
        service = service.as_asked()
    timeouts = Timeouts(**service.timeouts.model_dump())
    retry = RetryConfig(
        max_retries=service.retry.max_retries,
        base_delay=service.retry.base_delay,
        max_delay=service.retry.max_delay,
        retry_on_status=service.retry.on_status,
    )
    endpoint = Endpoint(
        name=name,
        url=url or _url_of(server_name, service),
        protocol=service.protocol,
        model=_model_of(server_name, service),
        api_key=getattr(service, "api_key", None),
        generation=service.generation.model_dump(exclude_none=True),
        timeouts=timeouts,
        retry=retry,
        reasoning_pattern=service.reasoning_pattern,
        max_concurrent=service.max_concurrent,
        max_input_tokens=service.max_input_tokens,
        max_output_tokens=service.max_output_tokens,
        finish_reason_fixup=True,
        traffic=ModelTrafficConfig(),
        base_dir=base_dir,
        identity=_identity(service),
    )
    if service.price is not None:
        endpoint.price = Price(**service.price.model_dump())
    if service.batch is not None:
        endpoint.batch = BatchSettings(**service.batch.model_dump())
    if service.proxy is not None:
        _apply_proxy(endpoint, service.proxy)
    return endpoint


def _apply_proxy(endpoint: Endpoint, proxy: ProxyConfig) -> None:
    """Give an endpoint the pipeline settings of its service."""
    endpoint.extra_body = dict(proxy.extra_body)
    endpoint.extra_headers = dict(proxy.extra_headers)
    endpoint.stages = [StageSpec(item.name, item.config) for item in proxy.interceptors]
    endpoint.verbose = proxy.verbose
    endpoint.finish_reason_fixup = proxy.finish_reason_fixup
    endpoint.cache_mode = proxy.cache.mode
    endpoint.cache_dir = proxy.cache.dir
    endpoint.allowed_models = tuple(proxy.allowed_models)
    endpoint.traffic = proxy.model_traffic


def _url_of(name: str, service: ModelService) -> str:
    """The URL in the config of a service, or that of its port on this machine."""
    url: str | None = getattr(service, "url", None)
    if url is not None:
        return url
    port = getattr(service, "port", None)
    if port is None:
        raise UsageError(f"service {name!r} has no URL yet", hint="it must be started first")
    return f"http://127.0.0.1:{port}/v1"


def _model_of(name: str, service: ModelService) -> str:
    """The name of the model in requests: that of the config, or that of the service."""
    model: str | None = getattr(service, "served_model_name", None)
    is_external = getattr(service, "url", None) is not None
    if not model and is_external:
        model = getattr(service, "model", None)
    return model or name


def _identity(service: ModelService) -> JsonDict:
    """The settings of a service that may change an answer."""
    dumped = service.model_dump(
        mode="json", exclude_none=True, exclude=_OPERATIONAL, context=FOR_FINGERPRINT
    )
    url = getattr(service, "url", None)
    if url is not None:
        parts = urlsplit(base_url(url))
        dumped["host"] = parts.hostname
        dumped["path"] = parts.path
    if service.batch is not None and service.batch.provider == "anthropic":
        # The protocol of its batches differs from that of the URL.
        dumped["messages"] = True
    return dumped
