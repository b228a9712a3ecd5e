"""Which problems of two runs are the same, and what each side scored on them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.decisions.rows import Flags, Floats, Ints, Rows
from nemo_evaluator.metrics import by_problem
from nemo_evaluator.metrics.groups import is_binary

PairBy: TypeAlias = Literal["auto", "content", "index"]


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

    def take(self, at: Ints) -> Side:
        """The same for some of the problems."""
        return Side(
            self.keys[at], self.rewards[at], self.answers[at], self.first[at], self.binary, self.problems, self.unscored
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
    def scale(self) -> float:
        """The largest difference two rewards can have: 1 for rewards in [0, 1], the observed range otherwise."""
        rewards = np.concatenate([self.baseline.rewards, self.candidate.rewards])
        if not len(rewards):
            return 1.0
        return max(1.0, float(rewards.max()), float(rewards.max() - rewards.min()))

    @property
    def share(self) -> float:
        """Paired problems as a share of the smaller side."""
        smaller = min(self.baseline.problems, self.candidate.problems)
        return len(self) / smaller if smaller else 0.0


def pair(baseline: Rows, candidate: Rows, by: PairBy = "auto") -> Pairing:
    """Pair problems by content; by index only where hashes are absent, or when asked to."""
    warnings = []
    # A step that failed before it was asked has no hash, and no reward to pair either.
    hashed = [bool((rows.content[rows.scored] != 0).all()) for rows in (baseline, candidate)]
    if by == "content" and not all(hashed):
        raise UsageError("rows without problem_hash cannot be paired by content", hint="pair them by index")
    use_content = by == "content" or (by == "auto" and all(hashed))
    if by == "auto" and not use_content and len(baseline) and len(candidate):
        side = "both sides" if not any(hashed) else ("the baseline" if not hashed[0] else "the candidate")
        warnings.append(f"problems are paired by index: {side} has rows without problem_hash")
    left, right = _side(baseline, use_content), _side(candidate, use_content)
    _, at_left, at_right = np.intersect1d(left.keys, right.keys, assume_unique=True, return_indices=True)
    only = (len(left.keys) - len(at_left), len(right.keys) - len(at_right))
    how: Literal["content", "index"] = "content" if use_content else "index"
    return Pairing(how, left.take(at_left), right.take(at_right), only[0], only[1], tuple(warnings))


def _side(rows: Rows, use_content: bool) -> Side:
    keys: NDArray[Any] = rows.content if use_content else rows.problem
    problems = len(np.unique(keys))
    if use_content and bool((keys == 0).any()):
        problems += len(np.unique(rows.problem[keys == 0])) - 1
    scored: Flags = rows.scored
    where = np.flatnonzero(scored)
    # Hashes as signed numbers sort differently, but equally on both sides.
    grouped = by_problem(keys[where].view(np.int64) if use_content else keys[where], rows.reward[where])
    return Side(
        keys=grouped.ids,
        rewards=grouped.means,
        answers=grouped.counts.astype(np.int64),
        first=where[grouped.first],
        binary=is_binary(rows.reward[where]),
        problems=problems,
        unscored=problems - len(grouped),
    )
