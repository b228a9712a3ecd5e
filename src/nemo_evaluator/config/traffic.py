"""Requests to a model service: generation, interceptors, cache, timeouts, retries, price."""

from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, GetJsonSchemaHandler, field_validator, model_validator
from pydantic_core import CoreSchema, PydanticCustomError

from nemo_evaluator.config.fields import (
    Above0,
    Count,
    HeaderMap,
    Int,
    Model,
    Name,
    NonNegative,
    Options,
    Penalty,
    Positive,
    Share,
    Temperature,
    no_items,
)
from nemo_evaluator.config.groups import INTERCEPTORS
from nemo_evaluator.config.kind_settings import check_settings
from nemo_evaluator.config.kinds import check_name, with_settings


class GenerationConfig(Model):
    """Generation settings of a service or a solver; the solver's win, field by field."""

    temperature: Temperature | None = Field(None, description="Sampling temperature.")
    top_p: Share | None = Field(
        None, description="Nucleus sampling: share of probability mass to keep."
    )
    max_tokens: Positive | None = Field(None, description="Longest answer, in tokens.")
    seed: Int | None = Field(
        None, description="Sampling seed of the first repeat; others derive theirs."
    )
    stop: list[str] | None = Field(None, description="Strings that end the answer.")
    frequency_penalty: Penalty | None = Field(None, description="Penalty on frequent tokens.")
    presence_penalty: Penalty | None = Field(None, description="Penalty on tokens already present.")


CacheMode = Literal["off", "read", "write"]


class InterceptorConfig(Model):
    """One stage of the pipeline."""

    name: Name = Field(
        description="A built-in interceptor, `module:Class`, or `file.py:Class` beside the config."
    )
    config: Options = Field(default_factory=dict, description="Settings of the interceptor.")

    @field_validator("name")
    @classmethod
    def _known(cls, name: str) -> str:
        if not _is_path(name):
            check_name(INTERCEPTORS, name)
        return name

    @model_validator(mode="after")
    def _takes_settings(self) -> Self:
        if not _is_path(self.name):
            check_settings(INTERCEPTORS, self.name, self.config, "config")
        return self

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return with_settings(handler, schema, INTERCEPTORS, word="name", settings="config")


def _is_path(name: str) -> bool:
    """Whether an interceptor is given as ``module:Class`` or ``file.py``, to be imported when it is built."""
    return ":" in name or name.endswith(".py")


class ModelTrafficConfig(Model):
    """What a captured model call keeps."""

    capture_tool_calls: bool = Field(True, description="Keep tool calls.")
    capture_reasoning: bool = Field(True, description="Keep reasoning text.")
    capture_messages: bool = Field(True, description="Keep request messages.")
    capture_request_body: bool = Field(False, description="Keep the whole request body.")
    max_content_chars: Count = Field(
        0, description="Maximum length of a stored text, in characters; 0: no limit."
    )


class CacheConfig(Model):
    """A response cache, keyed by everything that affects the answer, and by the repeat."""

    mode: CacheMode = Field(
        "write",
        description="`off`; `read` uses cached answers; `write` also stores new ones.",
    )
    dir: str | None = Field(None, description="Folder of the cache; null: the user's cache folder.")


def _cache(value: Any) -> Any:
    # YAML reads a bare `off` as false.
    if value is False:
        return {"mode": "off"}
    if isinstance(value, str):
        return {"mode": value}
    return value


def _statuses(value: Any) -> Any:
    if isinstance(value, int) and not isinstance(value, bool):
        return [value]
    return value


Status = Annotated[int, Field(ge=100, le=599)]


class ProxyConfig(Model):
    """The pipeline of a service. It is the same in process and behind the HTTP proxy for outside agents."""

    interceptors: list[InterceptorConfig] = Field(
        default_factory=no_items, description="Stages of the pipeline."
    )
    verbose: bool = Field(False, description="Log one line per request.")
    extra_body: dict[str, Any] = Field(
        default_factory=dict, description="Fields merged into every request body."
    )
    extra_headers: HeaderMap = Field(
        default_factory=dict, description="Headers sent with every request."
    )
    request_timeout: Above0 | None = Field(
        None,
        description="Total timeout per request, in seconds; the same as `timeouts.total` of the service.",
    )
    max_retries: Count | None = Field(
        None, description="The same as `retry.max_retries` of the service."
    )
    retry_on_status: Annotated[list[Status], BeforeValidator(_statuses)] | None = Field(
        None, description="HTTP statuses to retry; null means 408, 429 and 5xx."
    )
    max_concurrent_upstream: Positive | None = Field(
        None, description="The same as `max_concurrent` of the service."
    )
    allowed_models: list[Name] = Field(
        default_factory=no_items,
        description="Model names that agents may use besides the service's own.",
    )
    model_traffic: ModelTrafficConfig = Field(
        default_factory=ModelTrafficConfig, description="What a captured call keeps."
    )
    finish_reason_fixup: bool = Field(
        True, description="Correct finish reasons that contradict the message."
    )
    cache: Annotated[
        CacheConfig, BeforeValidator(_cache, json_schema_input_type=CacheMode | CacheConfig)
    ] = Field(
        default_factory=lambda: CacheConfig(mode="off"),
        description="Answer cache: `off`, `read`, `write`, or a block.",
    )


class TimeoutsConfig(Model):
    """Timeouts, in seconds."""

    connect: Above0 = Field(10.0, description="Timeout for connecting.")
    first_byte: Above0 = Field(600.0, description="Timeout for the first byte of the response.")
    idle: Above0 = Field(120.0, description="Timeout between two chunks of the response.")
    total: Above0 = Field(1800.0, description="Total timeout of one request.")
    outage: Above0 = Field(
        600.0,
        description="How long to wait for a server that stopped responding before stopping the run (resumable).",
    )


class RetryConfig(Model):
    """How often and after which delay nel retries a failed request."""

    max_retries: Count = Field(6, description="Maximum number of retries.")
    base_delay: NonNegative = Field(
        0.5, description="Delay before the first retry, in seconds; doubles with each retry."
    )
    max_delay: NonNegative = Field(
        30.0,
        description="Longest delay between retries, in seconds, unless the server asks for more.",
    )
    on_status: list[Status] | None = Field(
        None, description="HTTP statuses to retry; null means 408, 429 and 5xx."
    )

    @model_validator(mode="after")
    def _delays_in_order(self) -> Self:
        if self.base_delay > self.max_delay:
            raise PydanticCustomError("delays", "base_delay must not be larger than max_delay")
        return self


class BatchConfig(Model):
    """Requests through the vendor's batch API: slower, and at the batch price."""

    provider: Literal["openai", "anthropic"] = Field(
        description="Vendor whose batch API the service offers."
    )
    max_wait: Above0 = Field(
        86_400.0,
        description="Seconds after which nel cancels an unfinished batch and collects its finished answers.",
    )
    max_requests: Annotated[Positive, Field(le=100_000)] = Field(
        10_000, description="Maximum number of requests in one batch."
    )
    finish_synchronously: bool = Field(
        False,
        description="Send requests that a batch left unfinished directly, at the full price; false: in another batch.",
    )


class PriceConfig(Model):
    """What the model costs, in USD per million tokens."""

    input: NonNegative = Field(0.0, description="Prompt tokens.")
    output: NonNegative = Field(0.0, description="Completion tokens.")
    cached_input: NonNegative | None = Field(
        None, description="Prompt tokens read from the cache; null: as `input`."
    )
