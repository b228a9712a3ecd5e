"""Pairing: the problems that two runs share, their scores on each side, and the bounds for failed rows."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.wording import counted
from nemo_evaluator.decisions.usability import planned_rows
from nemo_evaluator.runs.bundle import Bundle
from nemo_evaluator.runs.row_table import Floats, Ints, RowTable
from nemo_evaluator.statistics import (
    Difference,
    MissingBounds,
    Reading,
    Spending,
    by_problem,
    mean_difference,
    missing_bounds,
)
from nemo_evaluator.statistics.clusters import (
    LEAST_CLUSTERS,
    clusters_like,
    codes_of_clusters,
    usable_clusters,
)
from nemo_evaluator.statistics.groups import is_binary

if TYPE_CHECKING:
    from nemo_evaluator.decisions.missing_range import MissingRange

PairBy: TypeAlias = Literal["auto", "content", "index"]
PairedBy: TypeAlias = Literal["content", "index"]

_ROUNDING: Final = 1e-9
# A comparison on less than half of the smaller side says little about either run.
_LEAST_SHARE: Final = 0.5


@dataclass(frozen=True, slots=True)
class Side:
    """The scored rows of one run, grouped by problem.

    Attributes:
        keys: The key of each problem, sorted.
        rewards: Its mean reward.
        answers: Its number of answers.
        first: The position of its first row.
        cluster: The digest of its cluster, 0 for a problem of its own.
        binary: Whether all rewards are 0 or 1.
        problems: Number of problems, scored or not.
        unscored: Number of problems without a scored answer.
        doubled: Number of problems with several indices; their answers count as repeats of one.
        low: The smallest single reward.
        high: The largest single reward.
    """

    keys: NDArray[Any]
    rewards: Floats
    answers: Ints
    first: Ints
    cluster: Ints
    binary: bool
    problems: int
    unscored: int
    doubled: int = 0
    low: float = 0.0
    high: float = 1.0

    def take(self, positions: Ints) -> Self:
        """The side with only the problems at these positions."""
        return replace(
            self,
            keys=self.keys[positions],
            rewards=self.rewards[positions],
            answers=self.answers[positions],
            first=self.first[positions],
            cluster=self.cluster[positions],
        )


@dataclass(frozen=True, slots=True)
class Pairing:
    """Two sides on the problems that they share, in the same order.

    Attributes:
        by: "content" or "index".
        baseline: The baseline's paired problems.
        candidate: The candidate's paired problems.
        only_baseline: Scored problems of the baseline for which the candidate has no row.
        only_candidate: Scored problems of the candidate for which the baseline has no row.
        warnings: Warnings about the pairing.
    """

    by: PairedBy
    baseline: Side
    candidate: Side
    only_baseline: int
    only_candidate: int
    warnings: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.baseline.keys)

    @property
    def sides(self) -> tuple[Side, Side]:
        """Baseline and candidate."""
        return self.baseline, self.candidate

    @property
    def differences(self) -> Floats:
        """Candidate minus baseline, per problem."""
        return self.candidate.rewards - self.baseline.rewards

    @property
    def clusters(self) -> Ints | None:
        """The cluster of each problem, as either side names it; None when every problem is one of its own."""
        named = np.where(self.baseline.cluster != 0, self.baseline.cluster, self.candidate.cluster)
        return usable_clusters(codes_of_clusters(named, np.arange(len(self))))

    @property
    def cluster_count(self) -> int | None:
        """The number of clusters; None when every problem is one of its own."""
        codes = self.clusters
        return None if codes is None else len(np.unique(codes))

    @property
    def few_clusters(self) -> list[str]:
        """The reason that there are too few clusters for a decision; empty when there are enough, or none."""
        count = self.cluster_count
        if count is None or count >= LEAST_CLUSTERS:
            return []
        problems = counted(len(self), "problem")
        return [
            f"{problems} in {counted(count, 'cluster')}: nel decides on {LEAST_CLUSTERS} clusters or more"
        ]

    @property
    def lattice(self) -> bool:
        """Whether all rewards of both sides are 0 or 1."""
        return self.baseline.binary and self.candidate.binary

    @property
    def bounded(self) -> bool:
        """Whether all rewards of both sides are in [0, 1]; otherwise their true limits are unknown."""
        low = min(self.baseline.low, self.candidate.low)
        high = max(self.baseline.high, self.candidate.high)
        return low >= 0 and high <= 1

    @property
    def scale(self) -> float:
        """The largest difference two rewards can have: 1 for rewards in [0, 1], the observed range otherwise."""
        low = min(self.baseline.low, self.candidate.low)
        high = max(self.baseline.high, self.candidate.high)
        return max(1.0, high, high - low)

    def at(self, positions: Ints) -> Self:
        """The pairing with only the problems at these positions."""
        return replace(
            self, baseline=self.baseline.take(positions), candidate=self.candidate.take(positions)
        )

    def alike(self, values: Floats) -> bool:
        """Whether per-problem values are all equal, apart from rounding errors."""
        return not len(values) or float(np.ptp(values)) <= _ROUNDING * self.scale

    def mean_difference(self, values: Floats) -> Difference:
        """The mean of per-problem ``values`` with the evidence about it.

        Values of another number of problems stand for problems in clusters of the same sizes.
        """
        scale = self.scale
        if self.alike(values):
            mean = values.mean() if len(values) else 0.0
            values = np.full(len(values), mean)
        elif not self.bounded:
            # The observed range does not limit future rewards, so nothing may be clipped to it.
            scale *= 1e6
        # Partial credit flips as well, by less than a whole point. Where flips are rare, Student's t would treat losses
        # that have not occurred yet as impossible.
        clusters = clusters_like(self.clusters, len(values))
        return mean_difference(values, bounded=self.bounded, scale=scale, clusters=clusters)

    def reading(self, values: Floats, spending: Spending) -> Reading:
        """The evidence about the mean of ``values``.

        Args:
            values: A value per problem.
            spending: How the error is divided between looks and the planned end.
        """
        reach = self.scale if self.bounded else math.inf
        return spending.reading(
            values,
            self.mean_difference(values),
            reach=reach,
            clustered=self.clusters is not None,
        )

    @property
    def share(self) -> float:
        """Paired problems as a share of the smaller side."""
        smaller = min(self.baseline.problems, self.candidate.problems)
        return len(self) / smaller if smaller else 0.0

    @property
    def scarce(self) -> list[str]:
        """The warning that too few problems paired; empty when enough did, or none."""
        if not len(self) or self.share >= _LEAST_SHARE:
            return []
        return [
            f"only {counted(len(self), 'problem')} paired ({self.share:.0%} of the smaller side)"
        ]


def pair(baseline: RowTable, candidate: RowTable, by: PairBy = "auto") -> Pairing:
    """Pair the problems of two runs.

    Args:
        baseline: The baseline's rows.
        candidate: The candidate's rows.
        by: "auto" pairs by content, or by index where hashes are missing.

    Raises:
        UsageError: The rows have no hashes and ``by`` is "content".
    """
    # A row that failed before its problem was read has no hash, and no reward to pair either.
    baseline_hashed = bool((baseline.content[baseline.scored] != 0).all())
    candidate_hashed = bool((candidate.content[candidate.scored] != 0).all())
    all_hashed = baseline_hashed and candidate_hashed
    if by == "content" and not all_hashed:
        raise UsageError(
            "rows without problem_hash cannot be paired by content", hint="pair them by index"
        )
    paired_by: PairedBy = "index"
    if by == "content" or (by == "auto" and all_hashed):
        paired_by = "content"
    baseline_side = _side(baseline, paired_by)
    candidate_side = _side(candidate, paired_by)
    _, baseline_positions, candidate_positions = np.intersect1d(
        baseline_side.keys, candidate_side.keys, assume_unique=True, return_indices=True
    )
    pairing = Pairing(
        paired_by,
        baseline_side.take(baseline_positions),
        candidate_side.take(candidate_positions),
        only_baseline=_absent(baseline_side.keys, keys_of(candidate, paired_by)),
        only_candidate=_absent(candidate_side.keys, keys_of(baseline, paired_by)),
        warnings=(),
    )
    warnings = _pairing_warnings(
        pairing,
        baseline,
        candidate,
        hashed=(baseline_hashed, candidate_hashed),
        hashes_missing=by == "auto" and paired_by == "index",
    )
    return replace(pairing, warnings=tuple(warnings))


def _absent(keys: NDArray[Any], other_keys: NDArray[Any]) -> int:
    """How many of ``keys`` the other run has no row for, scored or not."""
    return int(np.count_nonzero(np.isin(keys, other_keys, invert=True)))


def _pairing_warnings(
    pairing: Pairing,
    baseline: RowTable,
    candidate: RowTable,
    *,
    hashed: tuple[bool, bool],
    hashes_missing: bool,
) -> Iterator[str]:
    """Warnings about problems paired by index, different contents, and problems that occur more than once."""
    if not len(baseline) or not len(candidate):
        return
    if hashes_missing:
        if not any(hashed):
            sides = "both sides have"
        elif hashed[0]:
            sides = "the candidate has"
        else:
            sides = "the baseline has"
        yield f"problems are paired by index: {sides} rows without problem_hash"
    elif pairing.by == "index" and all(hashed) and len(pairing):
        baseline_content = baseline.content[pairing.baseline.first]
        candidate_content = candidate.content[pairing.candidate.first]
        different = int(np.count_nonzero(baseline_content != candidate_content))
        if different:
            yield f"of {counted(len(pairing), 'problem')} paired by index, {different:,} with different content"
    elif pairing.by == "content" and not len(pairing):
        yield "no problem has the same content on both sides: other data, or other words (then --pair-by index)"
    for side_name, side in zip(("baseline", "candidate"), pairing.sides, strict=True):
        if side.doubled:
            yield f"{counted(side.doubled, 'problem')} in the {side_name} more than once; the answers are averaged"


def keys_of(rows: RowTable, by: PairedBy) -> NDArray[Any]:
    """The keys that identify the problems of rows.

    Content hashes are viewed as signed numbers: they sort in another order, but in the same one on both sides.
    """
    if by == "content":
        return rows.content.view(np.int64)
    return rows.problem


def _side(rows: RowTable, by: PairedBy) -> Side:
    """Group the rows of one run by problem."""
    keys = keys_of(rows, by)
    problems = len(np.unique(keys))
    if by == "content":
        # Rows without a hash are told apart by their index.
        without_hash = keys == 0
        if bool(without_hash.any()):
            problems += len(np.unique(rows.problem[without_hash])) - 1
    scored = np.flatnonzero(rows.scored)
    reward = rows.reward[scored]
    grouped = by_problem(keys[scored], reward)
    doubled = 0
    if by == "content" and grouped.rows > len(grouped):
        doubled = _doubled(keys[scored], rows.problem[scored])
    return Side(
        keys=grouped.ids,
        rewards=grouped.means,
        answers=grouped.counts.astype(np.int64),
        first=scored[grouped.first],
        cluster=rows.cluster[scored][grouped.first],
        binary=is_binary(reward),
        problems=problems,
        unscored=problems - len(grouped),
        doubled=doubled,
        low=float(reward.min()) if len(reward) else 0.0,
        high=float(reward.max()) if len(reward) else 1.0,
    )


def _doubled(keys: NDArray[Any], problem: Ints) -> int:
    """How many keys have more than one problem index."""
    order = np.lexsort((problem, keys))
    sorted_keys = keys[order]
    sorted_problem = problem[order]
    same_key = sorted_keys[1:] == sorted_keys[:-1]
    other_index = sorted_problem[1:] != sorted_problem[:-1]
    return len(np.unique(sorted_keys[1:][same_key & other_index]))


def missing_range(runs: tuple[Bundle, Bundle], rows: tuple[RowTable, RowTable]) -> MissingRange:
    """The range of each mean and of their difference, whatever the failed rows would have scored.

    Empty when no row failed, or when rewards beyond [0, 1] set no bounds.
    """
    baseline_bounds = _bounds(runs[0], rows[0])
    candidate_bounds = _bounds(runs[1], rows[1])
    if (
        baseline_bounds is None
        or candidate_bounds is None
        or not (baseline_bounds.missing or candidate_bounds.missing)
    ):
        return {}
    return {
        "baseline": {
            "lower": baseline_bounds.lower,
            "upper": baseline_bounds.upper,
            "missing": baseline_bounds.missing,
        },
        "candidate": {
            "lower": candidate_bounds.lower,
            "upper": candidate_bounds.upper,
            "missing": candidate_bounds.missing,
        },
        "difference": {
            "lower": candidate_bounds.lower - baseline_bounds.upper,
            "upper": candidate_bounds.upper - baseline_bounds.lower,
        },
    }


def hidden_loss(missing: MissingRange, max_drop: float, better: float) -> list[str]:
    """The warning that failed rows could hide more than the acceptable drop.

    Args:
        missing: The result of ``missing_range``.
        max_drop: The acceptable drop.
        better: 1 when a higher reward is better, else -1.
    """
    if not missing:
        return []
    difference = missing["difference"]
    worst = difference["lower"] if better > 0 else difference["upper"]
    if better * worst >= -max_drop:
        return []
    baseline_failed = missing["baseline"]["missing"]
    candidate_failed = missing["candidate"]["missing"]
    failed = f"{baseline_failed:,} in the baseline, {candidate_failed:,} in the candidate"
    return [
        f"rows that failed ({failed}) could hide more than the limit: at worst the difference is {worst:+.4f}"
    ]


def missing_rows(runs: tuple[Bundle, Bundle], rows: tuple[RowTable, RowTable]) -> tuple[int, int]:
    """How many planned rows of each side have no score."""
    baseline_missing = planned_rows(runs[0], rows[0]) - int(rows[0].scored.sum())
    candidate_missing = planned_rows(runs[1], rows[1]) - int(rows[1].scored.sum())
    return baseline_missing, candidate_missing


def imagined(
    runs: tuple[Bundle, Bundle], rows: tuple[RowTable, RowTable], pairing: Pairing, better: float
) -> Pairing:
    """The pairing with the missing rows filled in, all against one side. Only for rewards in [0, 1].

    Args:
        runs: Baseline and candidate.
        rows: Their rows.
        pairing: Their pairing without the missing rows.
        better: 1 gives the candidate's missing rows 0 and the baseline's 1; -1 the other way round.
    """
    baseline_fill = 1.0 if better > 0 else 0.0
    candidate_fill = 1.0 - baseline_fill
    identified = list(rows)
    if pairing.by == "content":
        identified = [side.take(side.scored | (side.content != 0)) for side in rows]
    # Rows that are absent, or have neither a hash nor a score, are missing problems that cannot be paired.
    unpaired = 0
    for run, side, known_rows in zip(runs, rows, identified, strict=True):
        repeats = int(side.repeat.max(initial=0)) + 1
        absent_rows = planned_rows(run, side) - len(known_rows)
        unpaired += math.ceil(absent_rows / repeats)
    filled = pair(
        _filled(identified[0], baseline_fill), _filled(identified[1], candidate_fill), pairing.by
    )
    return replace(
        filled,
        baseline=_extended(filled.baseline, unpaired, baseline_fill),
        candidate=_extended(filled.candidate, unpaired, candidate_fill),
    )


def _filled(rows: RowTable, reward: float) -> RowTable:
    """The rows with ``reward`` for those without a score."""
    return replace(rows, reward=np.where(rows.scored, rows.reward, reward))


def _extended(side: Side, count: int, reward: float) -> Side:
    """The side with ``count`` further problems of one reward."""
    zeros = np.zeros(count, dtype=np.int64)
    return replace(
        side,
        keys=np.r_[side.keys, zeros],
        rewards=np.r_[side.rewards, np.full(count, reward)],
        answers=np.r_[side.answers, zeros + 1],
        first=np.r_[side.first, zeros],
        cluster=np.r_[side.cluster, zeros],
    )


def _bounds(run: Bundle, rows: RowTable) -> MissingBounds | None:
    """The range of the mean reward; None for rewards beyond [0, 1]."""
    scored = rows.reward[rows.scored]
    if len(scored) and (scored.min() < 0 or scored.max() > 1):
        return None
    return missing_bounds(float(scored.sum()), len(scored), planned_rows(run, rows))
