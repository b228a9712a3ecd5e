"""What a budget buys when a judge's scores are corrected by labels: more problems, or more labels."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.json_coerce import as_dict, as_number
from nemo_evaluator.decisions.calibrate.judged_rows import USUAL_JUDGE
from nemo_evaluator.decisions.power.plan import PowerPlan, PowerQuestion
from nemo_evaluator.runs.find import find_runs
from nemo_evaluator.statistics.intervals import z_quantile
from nemo_evaluator.statistics.ppi import expected_half_width

_SPLITS = (0.02, 0.05, *(part / 10 for part in range(1, 10)), 0.95, 0.98)


@dataclass(frozen=True, slots=True)
class LabelSplit:
    """One way to spend a budget on one side: the half-width of the corrected score, and the drop that it finds."""

    problems: int
    labels: int
    half_width: float
    detectable_drop: float


@dataclass(frozen=True, slots=True)
class LabelPlan:
    """The splits of a budget, the best first."""

    budget_usd: float
    usd_per_label: float
    usd_per_answer: float
    sensitivity: float
    specificity: float
    assumed: bool
    splits: list[LabelSplit]
    # How many problems the benchmark has, where that is known; whether the best split finds the drop in question.
    available: int | None = None
    settles: bool = True


def problems_of(run: Path, benchmark: str) -> int | None:
    """How many problems a benchmark of a run has, asked or not."""
    return next(
        (bundle.dataset_size for bundle in find_runs(run) if bundle.name == benchmark), None
    )


def judge_rates(run: Path | None) -> tuple[float, float] | None:
    """Sensitivity and specificity as the labels of a run measured them."""
    for bundle in find_runs(run) if run is not None else []:
        found = bundle.calibration
        if found is not None and not found.stale:
            judges = found.document.get("judges")
        else:
            judges = None
        if isinstance(judges, list) and judges:
            told = as_dict(as_dict(judges[0]).get("agreement"))
        else:
            told = {}
        rates: list[float | None] = []
        for name in ("sensitivity", "specificity"):
            rates.append(as_number(as_dict(told.get(name)).get("value")))
        if rates[0] is not None and rates[1] is not None:
            return rates[0], rates[1]
    return None


def plan_labels(
    plan: PowerPlan,
    question: PowerQuestion,
    budget: float,
    label: float,
    answer: float,
    rates: tuple[float, float] | None,
    available: int | None = None,
) -> LabelPlan:
    """Every sensible split of a budget for one side, within the problems there are. Raises UsageError without any."""
    sensitivity, specificity = rates or USUAL_JUDGE
    score = min(max(plan.score, 0.02), 0.98)

    def splits() -> Iterator[LabelSplit]:
        for share in _SPLITS:
            labels = int(share * budget / label)
            problems = int((budget - labels * label) / answer)
            if available is not None and problems > available:
                problems = available
                labels = int((budget - available * answer) / label)
            # A label needs an answer to stand on.
            labels = min(labels, problems)
            if labels >= 10:
                half = expected_half_width(
                    labels, problems, score, sensitivity=sensitivity, specificity=specificity
                )
                z = z_quantile(question.confidence)
                sure = (z + z_quantile(2 * question.power - 1)) / z_quantile(0.95)
                yield LabelSplit(
                    problems,
                    labels,
                    half,
                    detectable_drop=sure * half * math.sqrt(2 * (1 - question.correlation)),
                )

    found = sorted(dict.fromkeys(splits()), key=lambda split: split.half_width)
    if not found:
        raise UsageError(f"${budget:g} does not buy ten labels", hint="raise --budget-usd")
    settles = found[0].detectable_drop <= question.drop
    return LabelPlan(
        budget,
        label,
        answer,
        sensitivity=sensitivity,
        specificity=specificity,
        assumed=rates is None,
        splits=found[:5],
        available=available,
        settles=settles,
    )
