"""Which problems of two runs are the same, what each side scored on them, and what failed rows could hide."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.types import JsonDict
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
from nemo_evaluator.statistics.groups import is_binary

PairBy: TypeAlias = Literal["auto", "content", "index"]
PairedBy: TypeAlias = Literal["content", "index"]

_ROUNDING: Final = 1e-9
# A comparison on less than half of the smaller side says little about either run.
_LEAST_SHARE: Final = 0.5


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
        return replace(
            self,
            keys=self.keys[at],
            rewards=self.rewards[at],
            answers=self.answers[at],
            first=self.first[at],
        )


@dataclass(frozen=True, slots=True)
class Pairing:
    """Two sides on the problems they share, in one order."""

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
        return self.baseline, self.candidate

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
        return (
            min(self.baseline.low, self.candidate.low) >= 0
            and max(self.baseline.high, self.candidate.high) <= 1
        )

    @property
    def scale(self) -> float:
        """The largest difference two rewards can have: 1 for rewards in [0, 1], the observed range otherwise."""
        low = min(self.baseline.low, self.candidate.low)
        high = max(self.baseline.high, self.candidate.high)
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
        if smaller:
            return len(self) / smaller
        return 0.0

    @property
    def scarce(self) -> list[str]:
        """The doubt where problems pair, and too few of them."""
        if not len(self) or self.share >= _LEAST_SHARE:
            return []
        return [
            f"only {counted(len(self), 'problem')} paired ({self.share:.0%} of the smaller side)"
        ]


def pair(baseline: RowTable, candidate: RowTable, by: PairBy = "auto") -> Pairing:
    """Pair problems by content; by index only where hashes are absent, or when asked to."""
    # A step that failed before it was asked has no hash, and no reward to pair either.
    hashed = [bool((rows.content[rows.scored] != 0).all()) for rows in (baseline, candidate)]
    if by == "content" and not all(hashed):
        raise UsageError(
            "rows without problem_hash cannot be paired by content", hint="pair them by index"
        )
    if by == "content" or (by == "auto" and all(hashed)):
        how: PairedBy = "content"
    else:
        how = "index"
    left = _side(baseline, how)
    right = _side(candidate, how)
    _, at_left, at_right = np.intersect1d(
        left.keys, right.keys, assume_unique=True, return_indices=True
    )
    # How many of a side's problems the other was not asked at all, as far as its rows say.
    only: list[int] = []
    for side, other in ((left, candidate), (right, baseline)):
        only.append(int(np.count_nonzero(np.isin(side.keys, keys_of(other, how), invert=True))))
    found = Pairing(
        how,
        left.take(at_left),
        right.take(at_right),
        only_baseline=only[0],
        only_candidate=only[1],
        warnings=(),
    )
    by_need = by == "auto" and how == "index"
    return replace(
        found, warnings=tuple(_warnings(found, baseline, candidate, hashed=hashed, by_need=by_need))
    )


def _warnings(
    found: Pairing, baseline: RowTable, candidate: RowTable, hashed: list[bool], by_need: bool
) -> Iterator[str]:
    if not len(baseline) or not len(candidate):
        return
    if by_need:
        if not any(hashed):
            who = "both sides have"
        else:
            who = f"the {'candidate' if hashed[0] else 'baseline'} has"
        yield f"problems are paired by index: {who} rows without problem_hash"
    elif found.by == "index" and all(hashed) and len(found):
        other = baseline.content[found.baseline.first] != candidate.content[found.candidate.first]
        count = int(np.count_nonzero(other))
        if count:
            yield f"of {counted(len(found), 'problem')} paired by index, {count:,} with different content"
    elif found.by == "content" and not len(found):
        yield "no problem has the same content on both sides: other data, or other words (then --pair-by index)"
    for word, side in zip(("baseline", "candidate"), found.sides, strict=True):
        if side.doubled:
            yield f"{counted(side.doubled, 'problem')} in the {word} more than once; the answers are averaged"


def keys_of(rows: RowTable, by: PairedBy) -> NDArray[Any]:
    """What tells the problems of rows apart. Hashes as signed numbers sort differently, but equally on both sides."""
    if by == "content":
        return rows.content.view(np.int64)
    return rows.problem


def _side(rows: RowTable, by: PairedBy) -> Side:
    keys = keys_of(rows, by)
    use_content = by == "content"
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
        doubled=_doubled(keys[where], rows.problem[where])
        if use_content and grouped.rows > len(grouped)
        else 0,
        low=float(reward.min()) if len(reward) else 0.0,
        high=float(reward.max()) if len(reward) else 1.0,
    )


def _doubled(keys: NDArray[Any], problem: Ints) -> int:
    """How many problems stand under more than one index."""
    order = np.lexsort((problem, keys))
    keys = keys[order]
    problem = problem[order]
    again = (keys[1:] == keys[:-1]) & (problem[1:] != problem[:-1])
    return len(np.unique(keys[1:][again]))


def missing_range(runs: tuple[Bundle, Bundle], rows: tuple[RowTable, RowTable]) -> JsonDict:
    """The range of each mean and of their difference; empty when nothing failed or rewards lie beyond [0, 1]."""
    left, right = (_bounds(run, side) for run, side in zip(runs, rows, strict=True))
    if left is None or right is None or not (left.missing or right.missing):
        return {}
    return {
        "baseline": {"lower": left.lower, "upper": left.upper, "missing": left.missing},
        "candidate": {"lower": right.lower, "upper": right.upper, "missing": right.missing},
        "difference": {"lower": right.lower - left.upper, "upper": right.upper - left.lower},
    }


def hidden_loss(found: JsonDict, max_drop: float, better: float) -> list[str]:
    """The warning that failed rows could hide more than may be lost."""
    if found:
        worst: Any | float = found["difference"]["lower" if better > 0 else "upper"]
    else:
        worst = 0.0
    if better * worst >= -max_drop:
        return []
    failed = found["baseline"]["missing"], found["candidate"]["missing"]
    where = f"{failed[0]:,} in the baseline, {failed[1]:,} in the candidate"
    return [
        f"rows that failed ({where}) could hide more than the limit: at worst the difference is {worst:+.4f}"
    ]


def missing_rows(runs: tuple[Bundle, Bundle], rows: tuple[RowTable, RowTable]) -> tuple[int, int]:
    """How many planned rows of each side have no score."""
    left, right = (
        planned_rows(run, side) - int(side.scored.sum())
        for run, side in zip(runs, rows, strict=True)
    )
    return left, right


def imagined(
    runs: tuple[Bundle, Bundle], rows: tuple[RowTable, RowTable], pairing: Pairing, better: float
) -> Pairing:
    """The pairing if every missing row spoke for the side that ``better`` is against. 1 makes the candidate's missing
    rows 0 and the baseline's 1, -1 the other way round. Only for rewards in [0, 1]."""
    best, worst = (1.0, 0.0) if better > 0 else (0.0, 1.0)
    placed = pairing.by == "content"
    kept = [side.take(side.scored | (side.content != 0)) if placed else side for side in rows]
    # Rows that are absent, or do not say what they were about, are problems that nothing is known of.
    unknown = sum(
        -(-(planned_rows(run, side) - len(some)) // (int(side.repeat.max(initial=0)) + 1))
        for run, side, some in zip(runs, rows, kept, strict=True)
    )
    filled: list[RowTable] = []
    for side, value in zip(kept, (best, worst), strict=True):
        filled.append(replace(side, reward=np.where(side.scored, side.reward, value)))
    found = pair(filled[0], filled[1], pairing.by)
    left = _more(found.baseline, unknown, best)
    right = _more(found.candidate, unknown, worst)
    return replace(found, baseline=left, candidate=right)


def _more(side: Side, count: int, reward: float) -> Side:
    """The side with so many further problems of one reward."""
    zeros = np.zeros(count, dtype=np.int64)
    return replace(
        side,
        keys=np.r_[side.keys, zeros],
        rewards=np.r_[side.rewards, np.full(count, reward)],
        answers=np.r_[side.answers, zeros + 1],
        first=np.r_[side.first, zeros],
    )


def _bounds(run: Bundle, rows: RowTable) -> MissingBounds | None:
    scored = rows.reward[rows.scored]
    if len(scored) and (scored.min() < 0 or scored.max() > 1):
        return None
    return missing_bounds(float(scored.sum()), len(scored), planned_rows(run, rows))
