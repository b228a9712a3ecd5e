"""Corrected scores when drawn rows have no label: they hold whatever the missing labels are.

Who leaves out drawn rows chooses the score, on purpose or not: the hard rows are left out first. So the bounds are
those of two completions of the labels: with the lowest and with the highest label for every row without one.
"""

from dataclasses import dataclass

from nemo_evaluator.statistics.corrected_score import (
    Corrected,
    corrected_difference,
    corrected_mean,
    corrected_pair,
)
from nemo_evaluator.statistics.difference import Difference
from nemo_evaluator.statistics.evidence import Centred, Span
from nemo_evaluator.statistics.intervals import Interval
from nemo_evaluator.statistics.ppi import Labelled


@dataclass(frozen=True, slots=True)
class CompletedLabels:
    """The labels of a run, completed in two ways; both are the same when none is missing.

    Attributes:
        lowest: With the lowest label for each drawn row that has none.
        highest: With the highest label.
        missing: Number of drawn rows that have none.
    """

    lowest: Labelled
    highest: Labelled
    missing: int


def bounded_mean(labels: CompletedLabels) -> Corrected:
    """Estimate the mean that people would have given to all rows.

    Returns:
        The corrected score; if labels are missing, the middle of the two completions, with bounds that hold for both.
    """
    lowest = corrected_mean(labels.lowest)
    if not labels.missing:
        return lowest
    highest = corrected_mean(labels.highest)
    given = labels.lowest.labels - labels.missing
    return Corrected(
        interval=_spanning(lowest.interval, highest.interval, given),
        alone=_spanning(lowest.alone, highest.alone, given),
        trust=(lowest.trust + highest.trust) / 2,
        labels=given,
    )


def bounded_difference(
    baseline: CompletedLabels, candidate: CompletedLabels, *, share: float = 1.0
) -> Difference:
    """Candidate minus ``share`` of the baseline, corrected by the labels of both.

    Returns:
        The difference; if labels are missing, the middle of its two extremes, with evidence that holds for both.
    """
    lowest = corrected_difference(baseline.highest, candidate.lowest, share=share)
    if not baseline.missing and not candidate.missing:
        return lowest
    highest = corrected_difference(baseline.lowest, candidate.highest, share=share)
    assert isinstance(lowest.evidence, Centred)
    assert isinstance(highest.evidence, Centred)
    assert lowest.df is not None
    assert highest.df is not None
    return Difference(
        value=(lowest.value + highest.value) / 2,
        evidence=Span(lowest.evidence, highest.evidence),
        df=min(lowest.df, highest.df),
        method="ppi_paired_bounds",
        n=lowest.n,
        scale=1.0,
    )


def bounded_pair(baseline: CompletedLabels, candidate: CompletedLabels) -> tuple[float, float]:
    """The corrected means of baseline and candidate whose difference is that of `bounded_difference`."""
    lowest = corrected_pair(baseline.highest, candidate.lowest)
    if not baseline.missing and not candidate.missing:
        return lowest
    highest = corrected_pair(baseline.lowest, candidate.highest)
    return (lowest[0] + highest[0]) / 2, (lowest[1] + highest[1]) / 2


def _spanning(lowest: Interval, highest: Interval, labels: int) -> Interval:
    """The interval from the lower bound of one to the upper bound of the other."""
    return Interval(
        value=(lowest.value + highest.value) / 2,
        lower=lowest.lower,
        upper=highest.upper,
        method=f"{lowest.method}_bounds",
        n=labels,
    )
