"""Limits on what a run, a benchmark or one step may spend, and rules for stopping early."""

from typing import Annotated, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from nemo_evaluator.config.fields import Above0, Confidence, Model, NonNegative, NotBool, Positive


class BudgetConfig(Model):
    """What a run or a benchmark may spend; reaching a limit ends it gracefully, and it can be resumed."""

    usd: Above0 | None = Field(None, description="Money, by the `price` of the services.")
    tokens: Positive | None = Field(None, description="Prompt and completion tokens together.")
    requests: Positive | None = Field(None, description="Requests to models and judges.")
    minutes: Above0 | None = Field(None, description="Wall-clock minutes.")


class StepLimits(Model):
    """What one step (one problem, one repeat) may spend; the answer is then verified as it stands."""

    tokens: Positive | None = Field(None, description="Prompt and completion tokens of all calls of the step.")
    turns: Positive | None = Field(None, description="Model calls.")
    seconds: Above0 | None = Field(None, description="Wall-clock seconds of solving.")
    usd: Above0 | None = Field(None, description="Money, by the `price` of the service.")


class StopWhen(Model):
    """Stop a benchmark as soon as its question is answered; not for shards, nor with `shuffle_seed: null`."""

    interval_width: Annotated[float, Field(gt=0, le=1), NotBool] | None = Field(
        None, description="Stop when the interval of the headline score, at `confidence`, is at most this wide."
    )
    decided_against: str | None = Field(
        None, description="Folder of a valid baseline run; stop when it is settled if the drop is within `max_drop`."
    )
    max_drop: NonNegative = Field(0.015, description="Largest acceptable drop, for `decided_against`.")
    confidence: Confidence = Field(0.95, description="Confidence of what the rule says, whether it stops or not.")
    min_problems: Positive = Field(30, description="Never stop before this many problems are scored whole.")

    @model_validator(mode="after")
    def _one_rule(self) -> Self:
        if self.interval_width is None and self.decided_against is None:
            raise PydanticCustomError("no_rule", "give interval_width, decided_against, or both")
        return self
