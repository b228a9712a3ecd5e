"""Which problems of two runs are the same, and what each side scored on them."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.wording import counted
from nemo_evaluator.metrics import Difference, Reading, Spending, by_problem, mean_difference
from nemo_evaluator.metrics.groups import is_binary
from nemo_evaluator.runs.row_table import Floats, Ints, RowTable

PairBy: TypeAlias = Literal["auto", "content", "index"]

_ROUNDING: Final = 1e-9


@dataclass(frozen=True, slots=True)
class Side:
    """One side by problem: sorted keys, mean rewards, number of answers, and the first row of each."""

    keys: NDArray[Any]
    rewards: Floats
    answers: Ints
    first: Ints
    binary: bool
    problems: int
    unscored: int
    # Problems that were asked under several indices; their answers count as repeats of one.
    doubled: int = 0
    # The range of single rewards.
    low: float = 0.0
    high: float = 1.0

    def take(self, at: Ints) -> Self:
        """The same for some of the problems."""
        return replace(
            self, keys=self.keys[at], rewards=self.rewards[at], answers=self.answers[at], first=self.first[at]
        )


@dataclass(frozen=True, slots=True)
class Pairing:
    """Two sides on the problems they share, in one order."""

    by: Literal["content", "index"]
    baseline: Side
    candidate: Side
    only_baseline: int
    only_candidate: int
    warnings: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.baseline.keys)

    @property
    def differences(self) -> Floats:
        """Candidate minus baseline, per problem."""
        return self.candidate.rewards - self.baseline.rewards

    @property
    def lattice(self) -> bool:
        """Whether all rewards of both sides are 0 or 1."""
        return self.baseline.binary and self.candidate.binary

    @property
    def bounded(self) -> bool:
        """Whether all rewards of both sides lie in [0, 1]; beyond, nothing is known about how far they may go."""
        return min(self.baseline.low, self.candidate.low) >= 0 and max(self.baseline.high, self.candidate.high) <= 1

    @property
    def scale(self) -> float:
        """The largest difference two rewards can have: 1 for rewards in [0, 1], the observed range otherwise."""
        low, high = min(self.baseline.low, self.candidate.low), max(self.baseline.high, self.candidate.high)
        return max(1.0, high, high - low)

    def alike(self, values: Floats) -> bool:
        """Whether per-problem values are all equal but for rounding, which is not a spread."""
        return not len(values) or float(np.ptp(values)) <= _ROUNDING * self.scale

    def mean_difference(self, values: Floats) -> Difference:
        """The mean of per-problem ``values`` with the evidence about it."""
        scale = self.scale
        if self.alike(values):
            values = np.full(len(values), values.mean() if len(values) else 0.0)
        elif not self.bounded:
            # What was seen is no limit to what may come: nothing may be clipped to it.
            scale *= 1e6
        # Partial credit comes in flips as well, of less than a whole point: where they are rare, Student's t takes the
        # losses it has not seen for losses that cannot be.
        return mean_difference(values, bounded=self.bounded, scale=scale)

    def reading(self, values: Floats, spending: Spending) -> Reading:
        """The same with the error spent as the runs ask for."""
        reach = self.scale if self.bounded else math.inf
        return spending.reading(values, self.mean_difference(values), reach=reach)

    @property
    def share(self) -> float:
        """Paired problems as a share of the smaller side."""
        smaller = min(self.baseline.problems, self.candidate.problems)
        return len(self) / smaller if smaller else 0.0


def pair(baseline: RowTable, candidate: RowTable, by: PairBy = "auto") -> Pairing:
    """Pair problems by content; by index only where hashes are absent, or when asked to."""
    # A step that failed before it was asked has no hash, and no reward to pair either.
    hashed = [bool((rows.content[rows.scored] != 0).all()) for rows in (baseline, candidate)]
    if by == "content" and not all(hashed):
        raise UsageError("rows without problem_hash cannot be paired by content", hint="pair them by index")
    use_content = by == "content" or (by == "auto" and all(hashed))
    left, right = _side(baseline, use_content), _side(candidate, use_content)
    _, at_left, at_right = np.intersect1d(left.keys, right.keys, assume_unique=True, return_indices=True)
    how: Literal["content", "index"] = "content" if use_content else "index"
    found = Pairing(
        how,
        left.take(at_left),
        right.take(at_right),
        _absent(left.keys, candidate, use_content),
        _absent(right.keys, baseline, use_content),
        (),
    )
    by_need = by == "auto" and how == "index"
    return replace(found, warnings=tuple(_warnings(found, baseline, candidate, hashed, by_need)))


def _warnings(
    found: Pairing, baseline: RowTable, candidate: RowTable, hashed: list[bool], by_need: bool
) -> Iterator[str]:
    if not len(baseline) or not len(candidate):
        return
    if by_need:
        who = "both sides have" if not any(hashed) else f"the {'candidate' if hashed[0] else 'baseline'} has"
        yield f"problems are paired by index: {who} rows without problem_hash"
    elif found.by == "index" and all(hashed) and len(found):
        other = baseline.content[found.baseline.first] != candidate.content[found.candidate.first]
        if count := int(np.count_nonzero(other)):
            yield f"of {counted(len(found), 'problem')} paired by index, {count:,} with different content"
    elif found.by == "content" and not len(found):
        yield "no problem has the same content on both sides: other data, or other words (then --pair-by index)"
    for word, side in (("baseline", found.baseline), ("candidate", found.candidate)):
        if side.doubled:
            yield f"{counted(side.doubled, 'problem')} in the {word} more than once; the answers are averaged"


def _absent(keys: NDArray[Any], other: RowTable, use_content: bool) -> int:
    """How many of ``keys`` the other side was not asked at all, as far as its rows say."""
    return int(np.count_nonzero(np.isin(keys, _keys(other, use_content), invert=True)))


def _keys(rows: RowTable, use_content: bool) -> NDArray[Any]:
    # Hashes as signed numbers sort differently, but equally on both sides.
    return rows.content.view(np.int64) if use_content else rows.problem


def _side(rows: RowTable, use_content: bool) -> Side:
    keys = _keys(rows, use_content)
    problems = len(np.unique(keys))
    if use_content and bool((keys == 0).any()):
        problems += len(np.unique(rows.problem[keys == 0])) - 1
    where = np.flatnonzero(rows.scored)
    reward = rows.reward[where]
    grouped = by_problem(keys[where], reward)
    return Side(
        keys=grouped.ids,
        rewards=grouped.means,
        answers=grouped.counts.astype(np.int64),
        first=where[grouped.first],
        binary=is_binary(reward),
        problems=problems,
        unscored=problems - len(grouped),
        doubled=_doubled(keys[where], rows.problem[where]) if use_content and grouped.rows > len(grouped) else 0,
        low=float(reward.min()) if len(reward) else 0.0,
        high=float(reward.max()) if len(reward) else 1.0,
    )


def _doubled(keys: NDArray[Any], problem: Ints) -> int:
    """How many problems stand under more than one index."""
    order = np.lexsort((problem, keys))
    keys, problem = keys[order], problem[order]
    again = (keys[1:] == keys[:-1]) & (problem[1:] != problem[:-1])
    return len(np.unique(keys[1:][again]))
