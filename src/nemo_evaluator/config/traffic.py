"""How a model service is spoken to: waits, retries, price."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from nemo_evaluator.config.fields import Above0, Count, Model, NonNegative, Positive
from nemo_evaluator.config.proxy import Status


class TimeoutsConfig(Model):
    """The longest waits, in seconds. Every wait has a bound."""

    connect: Above0 = Field(10.0, description="Until the connection stands.")
    first_byte: Above0 = Field(600.0, description="Until the first byte of the answer.")
    idle: Above0 = Field(120.0, description="Between two pieces of the answer.")
    total: Above0 = Field(1800.0, description="For the whole request.")
    outage: Above0 = Field(
        600.0, description="For a server that was there and is gone: the run pauses so long, then stops resumably."
    )


class RetryConfig(Model):
    """How often a failed request is tried again, and how long to wait before that."""

    max_retries: Count = Field(6, description="Tries after the first one.")
    base_delay: NonNegative = Field(0.5, description="Wait before the first retry, in seconds; doubles each time.")
    max_delay: NonNegative = Field(30.0, description="Longest wait, unless the server asks for more.")
    on_status: list[Status] | None = Field(None, description="HTTP statuses to retry; null means 408, 429 and 5xx.")

    @model_validator(mode="after")
    def _delays_in_order(self) -> Self:
        if self.base_delay > self.max_delay:
            raise PydanticCustomError("delays", "base_delay must not be larger than max_delay")
        return self


class BatchConfig(Model):
    """Requests through the vendor's batch API: slower, and at the batch price."""

    provider: Literal["openai", "anthropic"] = Field(description="Whose batch protocol the service speaks.")
    max_wait: Above0 = Field(
        86_400.0, description="Seconds until a batch that has not ended is cancelled and what it has done is collected."
    )
    max_requests: Annotated[Positive, Field(le=100_000)] = Field(
        10_000, description="Requests of one batch, and so steps that wait at once."
    )
    finish_synchronously: bool = Field(
        False, description="Ask what a batch left open directly, at the full price; false: in another batch."
    )


class PriceConfig(Model):
    """What the model costs, in USD per million tokens."""

    input: NonNegative = Field(0.0, description="Prompt tokens.")
    output: NonNegative = Field(0.0, description="Completion tokens.")
    cached_input: NonNegative | None = Field(None, description="Prompt tokens read from the cache; null: as `input`.")
