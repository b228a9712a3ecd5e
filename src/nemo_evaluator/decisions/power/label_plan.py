"""Planning labels: whether to spend a budget on more problems or on more labels that correct a judge's scores."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.json_coerce import as_dict, as_number
from nemo_evaluator.decisions.calibrate.label_draw import USUAL_JUDGE
from nemo_evaluator.decisions.power.plan import PowerPlan
from nemo_evaluator.decisions.power.question import PowerQuestion
from nemo_evaluator.runs.find import find_runs
from nemo_evaluator.statistics.intervals import z_quantile
from nemo_evaluator.statistics.judge_error import expected_half_width

_SPLITS = (0.02, 0.05, *(part / 10 for part in range(1, 10)), 0.95, 0.98)


@dataclass(frozen=True, slots=True)
class LabelSplit:
    """One way to spend a budget on one side.

    Attributes:
        problems: Problems that are answered.
        labels: Answers that people label.
        half_width: Half the width of the corrected score's interval.
        detectable_drop: The drop that a comparison of two such sides detects.
    """

    problems: int
    labels: int
    half_width: float
    detectable_drop: float


@dataclass(frozen=True, slots=True)
class LabelPlan:
    """The splits of a budget, the best first.

    Attributes:
        budget_usd: The budget of one side.
        usd_per_label: The cost of a label.
        usd_per_answer: The cost of an answer.
        sensitivity: The share of right answers that the judge accepts.
        specificity: The share of wrong answers that the judge rejects.
        assumed: Whether these rates are assumed rather than measured.
        splits: The best splits, at most five.
        available: How many problems the benchmark has; None when unknown.
        settles: Whether the best split detects the drop in question.
    """

    budget_usd: float
    usd_per_label: float
    usd_per_answer: float
    sensitivity: float
    specificity: float
    assumed: bool
    splits: list[LabelSplit]
    available: int | None = None
    settles: bool = True


def problems_of(run: Path, benchmark: str) -> int | None:
    """How many problems a benchmark of a run has, answered or not; None when unknown."""
    return next(
        (bundle.dataset_size for bundle in find_runs(run) if bundle.name == benchmark), None
    )


def judge_rates(run: Path | None) -> tuple[float, float] | None:
    """The judge's sensitivity and specificity as measured by the labels of a run; None without a valid calibration."""
    for bundle in find_runs(run) if run is not None else []:
        calibration = bundle.calibration
        if calibration is not None and not calibration.stale:
            judges = calibration.document.get("judges")
        else:
            judges = None
        if isinstance(judges, list) and judges:
            agreement = as_dict(as_dict(judges[0]).get("agreement"))
        else:
            agreement = {}
        rates: list[float | None] = []
        for name in ("sensitivity", "specificity"):
            rates.append(as_number(as_dict(agreement.get(name)).get("value")))
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
    """Plan how to divide a budget for one side between answers and labels.

    Args:
        plan: The plan of the benchmark, for its score.
        question: The drop to detect.
        budget: The budget of one side in US dollars.
        label: The cost of a label.
        answer: The cost of an answer.
        rates: The judge's sensitivity and specificity; None for those of a usual judge.
        available: How many problems the benchmark has; no split uses more.

    Raises:
        UsageError: The budget does not buy ten labels.
    """
    sensitivity, specificity = rates or USUAL_JUDGE
    score = min(max(plan.score, 0.02), 0.98)

    def splits() -> Iterator[LabelSplit]:
        """The splits in ``_SPLITS`` that buy at least ten labels."""
        for share in _SPLITS:
            problems, labels = _purchase(budget, share, label, answer=answer, available=available)
            if labels >= 10:
                half_width = expected_half_width(
                    labels, problems, score, sensitivity=sensitivity, specificity=specificity
                )
                detectable_drop = _detectable_drop(half_width, question)
                yield LabelSplit(problems, labels, half_width, detectable_drop=detectable_drop)

    ranked_splits = sorted(dict.fromkeys(splits()), key=lambda split: split.half_width)
    if not ranked_splits:
        raise UsageError(f"${budget:g} does not buy ten labels", hint="raise --budget-usd")
    settles = ranked_splits[0].detectable_drop <= question.drop
    return LabelPlan(
        budget,
        label,
        answer,
        sensitivity=sensitivity,
        specificity=specificity,
        assumed=rates is None,
        splits=ranked_splits[:5],
        available=available,
        settles=settles,
    )


def _purchase(
    budget: float, share: float, label: float, *, answer: float, available: int | None
) -> tuple[int, int]:
    """How many problems and labels a budget buys.

    Args:
        budget: The budget of one side in US dollars.
        share: The share of the budget for labels.
        label: The cost of a label.
        answer: The cost of an answer.
        available: How many problems the benchmark has; what they leave of the budget buys more labels.
    """
    labels = int(share * budget / label)
    problems = int((budget - labels * label) / answer)
    if available is not None and problems > available:
        problems = available
        labels = int((budget - available * answer) / label)
    # Only an answer can be labelled.
    return problems, min(labels, problems)


def _detectable_drop(half_width: float, question: PowerQuestion) -> float:
    """The drop that a comparison of two sides detects, each with this half width of its score."""
    z_of_interval = z_quantile(question.confidence)
    widths_to_detect = (z_of_interval + z_quantile(2 * question.power - 1)) / z_quantile(0.95)
    return widths_to_detect * half_width * math.sqrt(2 * (1 - question.correlation))
