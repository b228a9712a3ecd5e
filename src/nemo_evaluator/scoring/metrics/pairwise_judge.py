"""``type: pairwise_judge``: a model that prefers one of two answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Literal

from pydantic import Field

from nemo_evaluator.config.fields import JudgeName, ServiceName
from nemo_evaluator.config.scoring import RubricMetric
from nemo_evaluator.core.kinds import Kind
from nemo_evaluator.scoring.metric import Metric
from nemo_evaluator.scoring.metrics._parts import client_of, rubric_of, settings_of
from nemo_evaluator.scoring.pairwise import PairwiseJudge

if TYPE_CHECKING:
    from nemo_evaluator.models import Client


class PairwiseJudgeMetric(RubricMetric):
    """A model that prefers one of two answers: the solver's or the baseline's."""

    type: Literal["pairwise_judge"] = "pairwise_judge"
    judge_service: JudgeName = Field(description="The judge.")
    baseline_service: ServiceName = Field(description="The model that gives the other answer.")
    swap_check: bool = Field(True, description="Judge twice with the order of the answers swapped.")
    allow_self_judge: bool = Field(False, description="Let a model judge its own answers.")


def build(config: PairwiseJudgeMetric, clients: Mapping[str, Client], environment: object = None) -> Metric:
    """A judge and the model it compares with."""
    judge, baseline = client_of(clients, config.judge_service), client_of(clients, config.baseline_service)
    return PairwiseJudge(
        config.name,
        judge,
        baseline,
        rubric_of(config),
        settings_of(config),
        swap_check=config.swap_check,
        canaries=config.canaries,
    )


KIND: Final = Kind(PairwiseJudgeMetric, build)
