"""Where a model is and how it is spoken to: everything a client needs to know of a service."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import urlsplit

from nemo_evaluator.config import ModelService
from nemo_evaluator.config.fields import FOR_FINGERPRINT
from nemo_evaluator.config.traffic import ModelTrafficConfig
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.secrets import Secret
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.core.values import dataclass, field
from nemo_evaluator.models.retry import RetryConfig

PATHS: Final = {
    "chat_completions": "/chat/completions",
    "completions": "/completions",
    "responses": "/responses",
}
_ENDINGS: Final = ("/chat/completions", "/completions", "/responses", "/embeddings", "/messages")

# Settings of a service that cannot change what the model says.
_OPERATIONAL: Final = {
    *(
        "url",
        "port",
        "api_key",
        "timeouts",
        "retry",
        "price",
        "max_concurrent",
        "startup_timeout",
        "health_path",
    ),
    *(
        "depends_on",
        "node_pool",
        "gpus",
        "num_nodes",
        "replicas",
        "restarts",
        "stop_grace",
        "balancer",
    ),
    *("balancer_port", "setup_commands", "container_mounts", "ray_binary", "slots", "threads"),
    *("proxy", "interceptors", "proxy_verbose", "generation", "batch"),
}
# Stages that only look on.
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
    """The longest waits of one request, in seconds, and of all for a server that is gone."""

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
    """How requests go through a vendor's batches; without a folder for their ledger they do not."""

    provider: str
    max_wait: float
    max_requests: int
    finish_synchronously: bool
    folder: Path | None = None
    # Whether whoever waits for a batch that is under way is told to leave.
    detach: bool = False


@dataclass(frozen=True, slots=True)
class StageSpec:
    """One interceptor by name, with its settings."""

    name: str
    config: JsonDict = field(default_factory=dict)


@dataclass(slots=True)
class Endpoint:
    """A model behind a URL. ``url`` may end in the path of a protocol; that ending is cut off."""

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
    # None: calls are not logged, whoever asks.
    traffic: ModelTrafficConfig | None = None
    # Folder of the config file: interceptors may be given as files beside it.
    base_dir: Path | None = None
    identity: JsonDict = field(default_factory=dict)
    # Base URLs of all servers of the service, when there are several.
    replicas: Sequence[str] = ()
    batch: BatchSettings | None = None
    # Says why the service is gone for good; None while it is there, or may come back.
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
        """True when nothing stands between the client and the transport."""
        return not (
            self.stages
            or self.verbose
            or self.finish_reason_fixup
            or self.cache_mode != "off"
            or self.traffic
        )

    def describe(self) -> JsonDict:
        """What may change an answer, free of ports, keys and places: the service's part of a fingerprint."""
        parts = urlsplit(self.url)
        stages = [[s.name, s.config] for s in self.stages if s.name not in OBSERVERS]
        return {
            "protocol": self.protocol,
            "model": self.model,
            "service": self.identity or {"host": parts.hostname, "path": parts.path},
            "generation": self.generation,
            "extra_body": self.extra_body,
            "reasoning_pattern": self.reasoning_pattern,
            "interceptors": stages,
            # They run as listed; answers from before that was so may have been asked otherwise.
            **({"interceptor_order": "as listed"} if len(stages) > 1 else {}),
        }


def base_url(url: str) -> str:
    """The versioned base of a URL: slashes and the path of a protocol at its end are cut off, a query stays."""
    url, mark, query = url.partition("?")
    url = url.rstrip("/")
    ending = next((one for one in _ENDINGS if url.endswith(one)), "")
    return url[: len(url) - len(ending)] + mark + query


def endpoint_of(
    name: str, service: Any, url: str | None = None, *, base_dir: Path | None = None
) -> Endpoint:
    """The endpoint of a service of the config; ``url`` is where it answers, for services that we start."""
    if not isinstance(service, ModelService):
        raise UsageError(
            f"service {name!r} is not a model", hint="name a service that has a protocol"
        )
    where = url or getattr(service, "url", None)
    if where is None:
        port = getattr(service, "port", None)
        if port is None:
            raise UsageError(f"service {name!r} has no URL yet", hint="it must be started first")
        where = f"http://127.0.0.1:{port}/v1"
    external = getattr(service, "url", None) is not None
    model = getattr(service, "served_model_name", None)
    if not model:
        if external:
            model = getattr(service, "model", None) or name
        else:
            model = name
    proxy = service.proxy
    retry = service.retry
    return Endpoint(
        name=name,
        url=where,
        protocol=service.protocol,
        model=model,
        api_key=getattr(service, "api_key", None),
        generation=service.generation.model_dump(exclude_none=True),
        timeouts=Timeouts(**service.timeouts.model_dump()),
        retry=RetryConfig(
            retry.max_retries, retry.base_delay, retry.max_delay, retry_on_status=retry.on_status
        ),
        extra_body=dict(proxy.extra_body) if proxy else {},
        extra_headers=dict(proxy.extra_headers) if proxy else {},
        reasoning_pattern=service.reasoning_pattern,
        max_concurrent=service.max_concurrent,
        max_input_tokens=service.max_input_tokens,
        max_output_tokens=service.max_output_tokens,
        price=Price(**service.price.model_dump()) if service.price else None,
        stages=[StageSpec(item.name, item.config) for item in proxy.interceptors] if proxy else [],
        verbose=proxy.verbose if proxy else False,
        finish_reason_fixup=proxy.finish_reason_fixup if proxy else True,
        cache_mode=proxy.cache.mode if proxy else "off",
        cache_dir=proxy.cache.dir if proxy else None,
        allowed_models=tuple(proxy.allowed_models) if proxy else (),
        traffic=proxy.model_traffic if proxy else ModelTrafficConfig(),
        base_dir=base_dir,
        identity=_identity(service),
        batch=BatchSettings(**service.batch.model_dump()) if service.batch else None,
    )


def _identity(service: ModelService) -> JsonDict:
    dumped = service.model_dump(
        mode="json", exclude_none=True, exclude=_OPERATIONAL, context=FOR_FINGERPRINT
    )
    url = getattr(service, "url", None)
    if url is not None:
        parts = urlsplit(base_url(url))
        dumped["host"] = parts.hostname
        dumped["path"] = parts.path
    if service.batch is not None and service.batch.provider == "anthropic":
        # Its batches speak another protocol than the URL does.
        dumped["messages"] = True
    return dumped
