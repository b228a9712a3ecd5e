"""Two runs with human labels: the difference that people would find, for comparisons and gates."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.wording import counted
from nemo_evaluator.decisions.calibrate.judged_rows import read_judged
from nemo_evaluator.decisions.calibrate.label_rules import (
    LEAST,
    check_draw,
    completed,
    drawn_only,
    missing_note,
)
from nemo_evaluator.runs.bundle import Bundle
from nemo_evaluator.runs.calibration import read_draw
from nemo_evaluator.runs.labels import Label, read_labels
from nemo_evaluator.statistics import Difference, Interval, Spending
from nemo_evaluator.statistics.groups import Ints
from nemo_evaluator.statistics.missing_labels import (
    CompletedLabels,
    bounded_difference,
    bounded_pair,
)
from nemo_evaluator.statistics.ppi import Labelled


@dataclass(frozen=True, slots=True)
class LabelledPair:
    """Baseline and candidate with their labels, on the problems that they share."""

    baseline: CompletedLabels
    candidate: CompletedLabels

    def scores(self) -> tuple[Interval, Interval]:
        """The corrected scores of baseline and candidate, whose difference is `difference`."""
        baseline_mean, candidate_mean = bounded_pair(self.baseline, self.candidate)
        return (
            Interval.without_bounds(baseline_mean, method="ppi_paired", n=_given(self.baseline)),
            Interval.without_bounds(candidate_mean, method="ppi_paired", n=_given(self.candidate)),
        )

    def difference(self, better: float = 1.0, share: float = 1.0) -> Difference:
        """The corrected gain of the candidate.

        Args:
            better: 1 for candidate - share x baseline; -1 for share x baseline - candidate.
            share: The factor of the baseline.
        """
        if better > 0:
            return bounded_difference(self.baseline, self.candidate, share=share)
        loss = bounded_difference(self.candidate, self.baseline, share=1 / share)
        return replace(loss, value=loss.value * share, scale=loss.scale * share)


def labelled_pair(
    left: Bundle, right: Bundle, spending: Spending, *, by_index: bool = False
) -> tuple[LabelledPair | None, list[str]]:
    """Both runs with their labels, if both have labels that can be used.

    Args:
        left: The baseline.
        right: The candidate.
        spending: How the error is divided.
        by_index: Pair problems by index instead of content.

    Returns:
        The pair, None when the labels cannot be used; and notes for the reader.
    """
    baseline_labels = _labels_of(left)
    candidate_labels = _labels_of(right)
    if not baseline_labels and not candidate_labels:
        return None, []
    if not baseline_labels or not candidate_labels:
        return None, ["only one run has labels; comparing uncorrected judge scores"]
    if spending.looking:
        return None, [
            "labels are left out: no corrected interval allows for the looks of a stop rule"
        ]
    try:
        baseline_side = _labelled_side(left, baseline_labels, by_index=by_index)
        candidate_side = _labelled_side(right, candidate_labels, by_index=by_index)
    except UsageError as error:
        return None, [f"labels are left out: {error.message}"]
    shared_problems = set(baseline_side.problems) & set(candidate_side.problems)
    codes = _cluster_codes(sorted(shared_problems), baseline_side, candidate_side)
    pair = LabelledPair(_restricted(baseline_side, codes), _restricted(candidate_side, codes))
    if min(_given(pair.baseline), _given(pair.candidate)) < LEAST:
        return None, [
            f"labels are left out: fewer than {LEAST} of a side are on problems that both runs have"
        ]
    return pair, _notes(pair, stray=baseline_side.stray + candidate_side.stray)


def _given(labels: CompletedLabels) -> int:
    """The number of labels that people gave."""
    return labels.lowest.labels - labels.missing


def _notes(pair: LabelledPair, *, stray: int) -> list[str]:
    """What a reader needs to know about a difference that is corrected by labels.

    Args:
        pair: Both runs with their labels.
        stray: Number of labels on rows that were not drawn.
    """
    baseline_count = _given(pair.baseline)
    candidate_count = _given(pair.candidate)
    notes = [
        f"the difference is corrected by labels ({baseline_count:,} of the baseline, {candidate_count:,} of the "
        "candidate): it estimates what people would find, not the judge's scores"
    ]
    if stray:
        notes.append(f"{counted(stray, 'label')} on rows that were not drawn, left out")
    for side, labels in (("baseline", pair.baseline), ("candidate", pair.candidate)):
        if labels.missing:
            notes.append(f"{side}: {missing_note(labels.missing, _given(labels))}")
    labelled_in_both = _labelled_problems(pair.baseline) & _labelled_problems(pair.candidate)
    if len(labelled_in_both) < min(baseline_count, candidate_count) / 2:
        notes.append(
            f"people labelled {counted(len(labelled_in_both), 'problem')} on both sides: "
            "draw the same problems with `nel judge sample --like` for a narrower interval"
        )
    return notes


def _cluster_codes(problems: list[str], *sides: _LabelledSide) -> dict[str, int]:
    """The number of each problem's cluster; a problem without one is a cluster of its own."""
    cluster_of: dict[str, str] = {}
    for side in sides:
        for problem, cluster in zip(side.problems, side.clusters, strict=True):
            if cluster:
                cluster_of[problem] = cluster
    codes: dict[tuple[str, str], int] = {}
    code_of_problem: dict[str, int] = {}
    for problem in problems:
        cluster = cluster_of.get(problem, "")
        group = (cluster, "") if cluster else ("", problem)
        code_of_problem[problem] = codes.setdefault(group, len(codes))
    return code_of_problem


class _LabelledSide(NamedTuple):
    """One run of a labelled pair."""

    labels: CompletedLabels
    # The problem of each row, by content or index.
    problems: list[str]
    # What the problem of each row shares with others.
    clusters: list[str]
    # Number of labels on rows that were not drawn.
    stray: int


def _labels_of(run: Bundle) -> dict[tuple[int, int], Label]:
    """The labels of a run by row; empty for a run without a bundle."""
    if not run.path.is_file():
        return {}
    return read_labels(run.path.parent)


def _labelled_side(
    run: Bundle, labels: dict[tuple[int, int], Label], *, by_index: bool
) -> _LabelledSide:
    """Read one run with those of its labels that count.

    Raises:
        UsageError: The labels are not about drawn rows or the present answers.
    """
    rows = read_judged(run)
    draw = read_draw(run.path.parent)
    used_labels = drawn_only(labels, draw)
    check_draw(rows, used_labels, draw, convenience=False)
    problems = [str(problem) for problem, _ in rows.keys] if by_index else rows.content
    stray = len(labels) - len(used_labels)
    labels_of_rows = completed(rows, used_labels, draw)
    return _LabelledSide(labels_of_rows, problems, rows.clusters, stray=stray)


def _restricted(side: _LabelledSide, codes: dict[str, int]) -> CompletedLabels:
    """The rows of the problems in ``codes``, with the codes as clusters."""
    clusters = np.array([codes.get(problem, -1) for problem in side.problems], dtype=np.int64)
    lowest = _rows_of(side.labels.lowest, clusters)
    highest = _rows_of(side.labels.highest, clusters)
    # Missing are the rows in which the two completions differ.
    missing = int((highest.filled != lowest.filled).sum())
    return CompletedLabels(lowest, highest, missing)


def _rows_of(data: Labelled, clusters: Ints) -> Labelled:
    """The rows that belong to a cluster, which is at least 0."""
    shared = clusters >= 0
    chance = None if data.chance is None else data.chance[shared]
    return Labelled(data.judge[shared], data.human[shared], chance, clusters=clusters[shared])


def _labelled_problems(labels: CompletedLabels) -> set[int]:
    """The problems with at least one drawn row."""
    data = labels.lowest
    return set(data.problems[data.known > 0].tolist())
