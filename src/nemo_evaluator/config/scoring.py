"""The scoring of answers: metrics in addition to a benchmark's own scorer, or instead of it.

Each kind of metric declares its settings in its own file under ``scoring/metrics/``.
"""

from typing import Annotated, Self, TypeAlias

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from nemo_evaluator.config.fields import (
    Above0,
    Count,
    Model,
    Name,
    Positive,
    Refers,
    Temperature,
    no_items,
)
from nemo_evaluator.config.groups import METRICS
from nemo_evaluator.config.kinds import KindOf, marks


class MetricBase(Model):
    """One measurement of an answer."""

    type: str
    name: Name = Field(description="Name of the metric.")

    def asked(self, *, judges: bool = False) -> list[str]:
        """The services that it asks; with ``judges`` those that judge."""
        names: list[str] = []
        for field, mark in marks(type(self), Refers):
            if judges and not mark.judges:
                continue
            value = getattr(self, field)
            if isinstance(value, list):
                names += value
            else:
                names.append(value)
        return names


class RubricMetric(MetricBase):
    """What all judges share."""

    rubric: str | None = Field(None, description="Criteria for the judge.")
    rubric_file: str | None = Field(None, description="File with the rubric.")
    max_score: Positive = Field(5, description="Highest grade; grades start at 1.")
    temperature: Temperature = Field(0.0, description="Temperature of the judge.")
    timeout: Above0 = Field(120.0, description="Timeout of one judgement, in seconds.")
    max_retries: Count = Field(2, description="Maximum number of retries.")
    canaries: bool = Field(
        True, description="Check first that the judge tells a right answer from a wrong one."
    )

    @model_validator(mode="after")
    def _one_rubric(self) -> Self:
        if self.rubric is not None and self.rubric_file is not None:
            raise PydanticCustomError("two_rubrics", "give rubric or rubric_file, not both")
        return self


MetricConfig: TypeAlias = Annotated[MetricBase, KindOf(METRICS)]


class ScoringConfig(Model):
    """The metrics of a benchmark."""

    include_defaults: bool = Field(True, description="Keep the benchmark's own scorer.")
    metrics: list[MetricConfig] = Field(default_factory=no_items, description="Additional metrics.")
    allow_fallback: bool = Field(
        False,
        description="If a benchmark needs a judge and none is set, use its built-in fallback scorer.",
    )
    primary: str | None = Field(
        None, description="Metric whose value is the reward; required with several metrics."
    )

    @model_validator(mode="after")
    def _names(self) -> Self:
        names = [metric.name for metric in self.metrics]
        if len(set(names)) != len(names):
            raise PydanticCustomError("metric_names", "the names of metrics must differ")
        if self.primary is not None and self.primary not in names:
            context = {"primary": repr(self.primary), "known": ", ".join(names) or "none"}
            raise PydanticCustomError(
                "unknown_primary",
                "there is no metric {primary} for primary; metrics: {known}",
                context,
            )
        if len(names) > 1 and self.primary is None:
            raise PydanticCustomError(
                "no_primary", "with several metrics, primary must name the one that counts"
            )
        return self
