"""``type: ensemble_judge``: several judges and how their grades are put together."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean, median
from typing import TYPE_CHECKING, Any, Final, Literal

from pydantic import Field

from nemo_evaluator.config.fields import JudgeName
from nemo_evaluator.config.scoring import RubricMetric
from nemo_evaluator.core.kinds import Kind
from nemo_evaluator.core.types import JsonDict, SeedResult
from nemo_evaluator.scoring._ask import Judge, client_of
from nemo_evaluator.scoring._rubric import Rubric
from nemo_evaluator.scoring.metric import MetricInput, MetricResult
from nemo_evaluator.scoring.metrics.judge import RubricJudge

if TYPE_CHECKING:
    from nemo_evaluator.models import Client
    from nemo_evaluator.store.journal_record import JudgeCheck


def majority(grades: Sequence[float]) -> float:
    """Return the most frequent grade; the mean of the most frequent ones when there are several."""
    counts = Counter(grades)
    most = max(counts.values())
    return fmean(grade for grade, count in counts.items() if count == most)


AGGREGATIONS: Final[dict[str, Callable[..., float]]] = {
    "mean": fmean,
    "median": median,
    "majority_vote": majority,
}


class EnsembleJudgeMetric(RubricMetric):
    """Several judges and how their grades are put together."""

    type: Literal["ensemble_judge"] = "ensemble_judge"
    services: list[JudgeName] = Field(min_length=2, description="The judges.")
    aggregation: Literal["mean", "median", "majority_vote"] = Field(
        "mean", description="How grades are put together."
    )
    allow_self_judge: bool = Field(False, description="Let a model judge its own answers.")


class EnsembleJudge:
    """``type: ensemble_judge``: combines the grades of several judges. A row fails when any judge fails."""

    def __init__(
        self, config: EnsembleJudgeMetric, clients: Mapping[str, Client], environment: object = None
    ) -> None:
        self.name = config.name
        self._aggregation = config.aggregation
        self._combine = AGGREGATIONS[config.aggregation]
        self._rubric = Rubric.of(config)
        judges: dict[str, RubricJudge] = {}
        for judge_name in config.services:
            judges[judge_name] = RubricJudge(
                config, client_of(clients, judge_name), self._rubric, name=judge_name
            )
        self._judges = judges
        first_client, *other_clients = (clients[judge_name] for judge_name in self._judges)
        rubric = self._rubric.describe()
        self.fingerprint = Judge.of(config, first_client).fingerprint(
            "ensemble", rubric, *other_clients, by=config.aggregation
        )

    async def measure(self, sample: MetricInput) -> MetricResult:
        """Combine the grades of all judges, who are asked at the same time."""
        graded = await asyncio.gather(
            *(judge.grade(sample, swapped=False) for judge in self._judges.values())
        )
        grades = [score for score, _ in graded]
        score = self._combine(grades)
        judges = {
            judge_name: details
            for judge_name, (_, details) in zip(self._judges, graded, strict=True)
        }
        details: JsonDict = {"score": score, "aggregation": self._aggregation, "judges": judges}
        return MetricResult(self._rubric.reward(score), details)

    async def check(self, first: SeedResult) -> JudgeCheck:
        """Check the canaries of each judge."""
        return {judge_name: await judge.check(first) for judge_name, judge in self._judges.items()}

    def aggregate(self, details: Iterable[JsonDict]) -> dict[str, float]:
        """Return Krippendorff's alpha of the grades, on an interval scale."""
        grades_of_rows: list[list[Any]] = []
        for row in details:
            if "judges" in row:
                grades_of_rows.append([judge["score"] for judge in row["judges"].values()])
        alpha = krippendorff_alpha(grades_of_rows)
        return {} if alpha is None else {"krippendorff_alpha": alpha}


def krippendorff_alpha(units: Sequence[Sequence[float | None]]) -> float | None:
    """Compute Krippendorff's alpha for interval data: 1 is perfect agreement, 0 is agreement by chance.

    Args:
        units: The grades of each item; None for a missing grade.

    Returns:
        Alpha; None when no item has two grades, or all grades are equal.
    """
    rated_units: list[list[float]] = []
    for unit in units:
        rated_units.append([grade for grade in unit if grade is not None])
    rated_units = [unit for unit in rated_units if len(unit) > 1]
    values = [grade for unit in rated_units for grade in unit]
    count = len(values)
    if count < 2:
        return None
    expected = _squares(values) / (count - 1)
    if expected == 0:
        return None
    observed = sum(_squares(unit) / (len(unit) - 1) for unit in rated_units)
    return 1.0 - observed / expected


def _squares(values: Sequence[float]) -> float:
    """Return the sum of squared differences over all ordered pairs."""
    count = len(values)
    total = sum(values)
    return 2.0 * (count * sum(value * value for value in values) - total * total)


KIND: Final = Kind(EnsembleJudgeMetric, EnsembleJudge)
