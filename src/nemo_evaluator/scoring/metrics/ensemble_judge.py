"""``type: ensemble_judge``: several judges and how their grades are put together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Literal

from pydantic import Field

from nemo_evaluator.config.fields import JudgeName
from nemo_evaluator.config.scoring import RubricMetric
from nemo_evaluator.core.kinds import Kind
from nemo_evaluator.scoring.ensemble import EnsembleJudge
from nemo_evaluator.scoring.metric import Metric
from nemo_evaluator.scoring.metrics._parts import client_of, rubric_of, settings_of

if TYPE_CHECKING:
    from nemo_evaluator.models import Client


class EnsembleJudgeMetric(RubricMetric):
    """Several judges and how their grades are put together."""

    type: Literal["ensemble_judge"] = "ensemble_judge"
    services: list[JudgeName] = Field(min_length=2, description="The judges.")
    aggregation: Literal["mean", "median", "majority_vote"] = Field("mean", description="How grades are put together.")
    allow_self_judge: bool = Field(False, description="Let a model judge its own answers.")


def build(config: EnsembleJudgeMetric, clients: Mapping[str, Client], environment: object = None) -> Metric:
    """All judges with one rubric."""
    members = {service: client_of(clients, service) for service in config.services}
    return EnsembleJudge(
        config.name, members, rubric_of(config), settings_of(config), config.aggregation, canaries=config.canaries
    )


KIND: Final = Kind(EnsembleJudgeMetric, build)
