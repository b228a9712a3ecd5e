"""``type: reward_model``: a reward model that scores the answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Literal

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from nemo_evaluator.config.fields import Above0, Count, Number, ServiceName
from nemo_evaluator.config.scoring import MetricBase
from nemo_evaluator.core.kinds import Kind
from nemo_evaluator.scoring._ask import JudgeSettings
from nemo_evaluator.scoring.metric import Metric
from nemo_evaluator.scoring.metrics._parts import client_of
from nemo_evaluator.scoring.reward_model import RewardModel

if TYPE_CHECKING:
    from nemo_evaluator.models import Client


class RewardModelMetric(MetricBase):
    """A reward model that scores the answer."""

    type: Literal["reward_model"] = "reward_model"
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


def build(config: RewardModelMetric, clients: Mapping[str, Client], environment: object = None) -> Metric:
    """The reward model and how its score is read."""
    return RewardModel(
        config.name,
        client_of(clients, config.service),
        JudgeSettings(0.0, config.timeout, config.max_retries),
        mode=config.mode,
        aspect=config.aspect,
        score_range=config.score_range,
        threshold=config.threshold,
        canaries=config.canaries,
    )


KIND: Final = Kind(RewardModelMetric, build)
