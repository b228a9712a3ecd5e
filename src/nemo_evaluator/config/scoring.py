"""How answers are scored: metrics of a benchmark beside or instead of its own scorer."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from nemo_evaluator.config._base import Above0, Count, Model, Name, Number, Options, Positive, Temperature
from nemo_evaluator.config.solvers import ServiceName


class ScorerMetric(Model):
    """A built-in scorer, or one registered by a plugin."""

    type: Literal["scorer"]
    name: Name = Field(description="Name of the scorer, such as `exact_match` or `numeric_match`.")


class RubricMetric(Model):
    """What all judges share."""

    name: Name = Field(description="Name of the metric.")
    rubric: str | None = Field(None, description="What the judge looks for.")
    rubric_file: str | None = Field(None, description="File with the rubric.")
    max_score: Positive = Field(5, description="Highest grade; grades start at 1.")
    temperature: Temperature = Field(0.0, description="Temperature of the judge.")
    timeout: Above0 = Field(120.0, description="Seconds for one judgement.")
    max_retries: Count = Field(2, description="Tries after the first one.")
    canaries: bool = Field(True, description="Check first that the judge tells a right answer from a wrong one.")

    @model_validator(mode="after")
    def _one_rubric(self) -> RubricMetric:
        if self.rubric is not None and self.rubric_file is not None:
            raise PydanticCustomError("two_rubrics", "give rubric or rubric_file, not both")
        return self


class JudgeMetric(RubricMetric):
    """A model that grades the answer."""

    type: Literal["judge"]
    service: ServiceName = Field(description="The judge.")
    system_prompt: str | None = Field(None, description="System prompt of the judge.")
    swap_check: bool = Field(False, description="Judge twice with the order of the texts swapped.")
    reference_free: bool = Field(False, description="Do not show the expected answer.")
    allow_self_judge: bool = Field(False, description="Let a model judge its own answers.")


class PairwiseJudgeMetric(RubricMetric):
    """A model that prefers one of two answers: the solver's or the baseline's."""

    type: Literal["pairwise_judge"]
    judge_service: ServiceName = Field(description="The judge.")
    baseline_service: ServiceName = Field(description="The model that gives the other answer.")
    swap_check: bool = Field(True, description="Judge twice with the order of the answers swapped.")
    allow_self_judge: bool = Field(False, description="Let a model judge its own answers.")


class EnsembleJudgeMetric(RubricMetric):
    """Several judges and how their grades are put together."""

    type: Literal["ensemble_judge"]
    services: list[ServiceName] = Field(min_length=2, description="The judges.")
    aggregation: Literal["mean", "median", "majority_vote"] = Field("mean", description="How grades are put together.")
    allow_self_judge: bool = Field(False, description="Let a model judge its own answers.")


class SandboxMetric(Model):
    """A command in the sandbox; exit code 0 means right."""

    type: Literal["sandbox"]
    name: Name = Field(description="Name of the metric.")
    command: str | None = Field(None, description="The command; null: the problem's own.")
    verify_timeout: Above0 = Field(600.0, description="Seconds for the command.")


class RewardModelMetric(Model):
    """A reward model that scores the answer."""

    type: Literal["reward_model"]
    name: Name = Field(description="Name of the metric.")
    service: ServiceName = Field(description="The reward model.")
    mode: Literal["single", "multi_aspect", "pairwise"] = Field("single", description="How the model is asked.")
    aspect: str | None = Field(None, description="Aspect to read, with `multi_aspect`.")
    score_range: tuple[Number, Number] = Field((0.0, 1.0), description="Lowest and highest score of the model.")
    threshold: Number = Field(0.5, description="Score from which an answer counts as right.")
    timeout: Above0 = Field(120.0, description="Seconds for one score.")
    max_retries: Count = Field(2, description="Tries after the first one.")
    canaries: bool = Field(True, description="Check first that the model tells a right answer from a wrong one.")

    @model_validator(mode="after")
    def _range(self) -> RewardModelMetric:
        if not self.score_range[0] < self.score_range[1]:
            raise PydanticCustomError("score_range", "score_range must go from low to high")
        return self


class CustomMetric(Model):
    """A metric of your own."""

    type: Literal["custom"]
    name: Name = Field(description="Name of the metric.")
    class_path: Name = Field(description="The class or function, as `package.module:Name`.")
    config: Options = Field(default_factory=dict, description="Its settings.")


MetricConfig: TypeAlias = Annotated[
    ScorerMetric
    | JudgeMetric
    | PairwiseJudgeMetric
    | EnsembleJudgeMetric
    | SandboxMetric
    | RewardModelMetric
    | CustomMetric,
    Field(discriminator="type"),
]


class ScoringConfig(Model):
    """The metrics of a benchmark."""

    include_defaults: bool = Field(True, description="Keep the benchmark's own scorer.")
    metrics: list[MetricConfig] = Field(default_factory=list, description="Further metrics.")
    allow_fallback: bool = Field(
        False, description="Let a benchmark that needs a judge run without one, where it has a simpler stand-in."
    )
    primary: str | None = Field(None, description="Metric whose value is the reward; needed with several metrics.")

    @model_validator(mode="after")
    def _names(self) -> ScoringConfig:
        names = [metric.name for metric in self.metrics]
        if len(set(names)) != len(names):
            raise PydanticCustomError("metric_names", "the names of metrics must differ")
        if self.primary is not None and self.primary not in names:
            known = ", ".join(names) or "none"
            raise PydanticCustomError(
                "unknown_primary",
                "primary {primary} names no metric; metrics: {known}",
                {"primary": repr(self.primary), "known": known},
            )
        if len(names) > 1 and self.primary is None:
            raise PydanticCustomError("no_primary", "with several metrics, primary must name the one that counts")
        return self
