"""The difference of two runs within each category of problems."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from nemo_evaluator.decisions.pairing import Pairing
from nemo_evaluator.runs.row_table import RowTable
from nemo_evaluator.statistics import Spending

if TYPE_CHECKING:
    from nemo_evaluator.decisions.compare.comparison_document import CategoryDelta

# More categories than this are labels of problems, not groups.
MOST_CATEGORIES: Final = 1000


def category_deltas(
    baseline_rows: RowTable, pairing: Pairing, spending: Spending, *, confidence: float
) -> dict[str, CategoryDelta]:
    """The difference within each category of the baseline's problems, as reports store it.

    Args:
        baseline_rows: The baseline's rows.
        pairing: The paired problems.
        spending: How the error is divided.
        confidence: Confidence level of the intervals.

    Returns:
        The entries by category; none without categories, or with too many of them.
    """
    if not baseline_rows.has_categories or not len(pairing):
        return {}
    if len(baseline_rows.categories) > MOST_CATEGORIES:
        return {}
    codes = baseline_rows.category[pairing.baseline.first]
    order = np.argsort(codes, kind="stable")
    present, starts = np.unique(codes[order], return_index=True)
    problems_by_category = np.split(order, starts[1:])
    entries: dict[str, CategoryDelta] = {}
    for code, problems in zip(present.tolist(), problems_by_category, strict=True):
        of_category = pairing.at(problems)
        baseline_rewards = of_category.baseline.rewards
        candidate_rewards = of_category.candidate.rewards
        reading = of_category.reading(of_category.differences, spending)
        interval = reading.interval(confidence)
        entries[baseline_rows.categories[code]] = {
            "baseline": round(float(baseline_rewards.mean()), 6),
            "candidate": round(float(candidate_rewards.mean()), 6),
            "delta": round(interval.value, 6),
            "ci_lower": interval.lower,
            "ci_upper": interval.upper,
            "n": interval.n,
        }
    return entries
