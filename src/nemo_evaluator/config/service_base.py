"""Base classes and common settings of the kinds of service."""

from typing import Annotated, Any, ClassVar, Literal, Self, TypeAlias

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from nemo_evaluator.config.fields import (
    Later,
    Model,
    Positive,
    Protocol,
    Regex,
    Role,
    no_items,
)
from nemo_evaluator.config.groups import SERVICES
from nemo_evaluator.config.kinds import KindOf
from nemo_evaluator.config.traffic import (
    BatchConfig,
    GenerationConfig,
    InterceptorConfig,
    PriceConfig,
    ProxyConfig,
    RetryConfig,
    TimeoutsConfig,
)

Balancer: TypeAlias = Literal["nel", "haproxy"]


class ServiceBase(Model):
    """A service reached over HTTP."""

    type: str
    # How other parts may use the service; `any` if only the user knows.
    role: ClassVar[Role] = "any"

    depends_on: list[str] = Field(
        default_factory=no_items,
        description="Services that must be running before this one starts.",
    )

    def base_url(self) -> str | None:
        """The base URL of the service, if the config determines it."""
        port = getattr(self, "port", None)
        return getattr(self, "url", None) or (
            f"http://localhost:{port}/v1" if port is not None else None
        )

    def model_id(self, name: str) -> str:
        """The name of the model in requests, for a service called ``name``."""
        return name


class ModelService(ServiceBase):
    """A service that serves a model."""

    role: ClassVar[Role] = "model"

    protocol: Protocol = Field(
        "chat_completions",
        description="Protocol of requests; an `api` service takes it from the path of its URL.",
    )
    generation: GenerationConfig = Field(
        default_factory=GenerationConfig,
        description="Generation settings; a solver's settings take precedence.",
    )
    max_input_tokens: Later[Positive] = Field(None, description="Maximum number of prompt tokens.")
    max_output_tokens: Later[Positive] = Field(
        None, description="Maximum number of completion tokens."
    )
    tokenizer: Later[str] = Field(
        None, description="Tokenizer for counting tokens; null: the model's own."
    )
    reasoning_pattern: Regex | None = Field(
        None,
        description="Regular expression that matches reasoning text in the content; nel stores the matches separately.",
    )
    timeouts: TimeoutsConfig = Field(
        default_factory=TimeoutsConfig, description="Timeouts of requests."
    )
    retry: RetryConfig = Field(
        default_factory=RetryConfig, description="Retries of failed requests."
    )
    price: PriceConfig | None = Field(
        None, description="Price of the model; null: the packaged price, if known."
    )
    max_concurrent: Positive | None = Field(
        None,
        description="Maximum concurrent requests to this service; null: `max_concurrent` of the benchmark.",
    )
    batch: BatchConfig | None = Field(None, description="Requests through the vendor's batch API.")
    proxy: ProxyConfig | None = Field(
        None, description="Interceptors and other processing of requests and responses."
    )
    interceptors: list[InterceptorConfig] | None = Field(
        None, description="Short for `proxy.interceptors`."
    )
    proxy_verbose: bool | None = Field(None, description="Short for `proxy.verbose`.")

    @model_validator(mode="after")
    def _fold(self) -> Self:
        """Put the two spellings of one setting in one place, so that readers need to know only that place."""
        if self.interceptors is not None or self.proxy_verbose is not None:
            proxy = self.proxy = self.proxy or ProxyConfig()
            if self.interceptors is not None:
                if proxy.interceptors:
                    raise _twice("interceptors", "proxy.interceptors")
                proxy.interceptors = self.interceptors
            if self.proxy_verbose is not None:
                proxy.verbose = proxy.verbose or self.proxy_verbose
            self.interceptors = self.proxy_verbose = None
        for short, target in _PROXY_LIMITS.items():
            value = getattr(self.proxy, short, None)
            if value is not None:
                block, _, name = target.rpartition(".")
                owner = getattr(self, block).model_copy() if block else self
                set_once(owner, name, value, one=target, other=f"proxy.{short}")
                if block:
                    setattr(self, block, owner)
        if self.batch is not None and getattr(self, "url", None) is None:
            message = "a server that nel starts has no batch API; batch is for services of type api"
            raise PydanticCustomError("no_batch_api", message)
        return self


# Limits that may be set in a proxy block, and the settings that store them.
_PROXY_LIMITS = {
    "request_timeout": "timeouts.total",
    "max_retries": "retry.max_retries",
    "retry_on_status": "retry.on_status",
    "max_concurrent_upstream": "max_concurrent",
}


def set_once(owner: Model, name: str, given: Any, one: str, other: str) -> None:
    """Store a value that was given under a second name.

    Raises:
        PydanticCustomError: If both names are set to different values.
    """
    if name in owner.model_fields_set and getattr(owner, name) not in (None, given):
        raise _twice(one, other)
    setattr(owner, name, given)


def _twice(one: str, other: str) -> PydanticCustomError:
    text = "{one} and {other} are the same setting and disagree; keep one"
    return PydanticCustomError("given_twice", text, {"one": one, "other": other})


ServiceConfig: TypeAlias = Annotated[ServiceBase, KindOf(SERVICES)]
