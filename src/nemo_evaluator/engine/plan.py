"""The plan of a run: dataset size, shuffle seed, limit, shard and repeats determine a sequence of steps."""

from __future__ import annotations

import random
from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, Self

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.types import Step
from nemo_evaluator.core.values import dataclass, field, replace
from nemo_evaluator.core.wording import counted
from nemo_evaluator.environments.base import EvalEnvironment
from nemo_evaluator.store.fingerprints import problem_hash

if TYPE_CHECKING:
    from nemo_evaluator.store.bundle_document import PlanEntry, ShuffleEntry

# Decisions about a step that an earlier run has started.
ASK: Final = 0
VERIFY: Final = 1
REUSE: Final = 2


# The default of ``shuffle_seed`` in configs and in ``run_evaluation``.
DEFAULT_SHUFFLE_SEED: Final = 42


@dataclass(frozen=True, slots=True)
class Shard:
    """Part ``index`` of ``total`` parts of a run."""

    index: int
    total: int

    def __post_init__(self) -> None:
        """Raise UsageError if the index is out of range."""
        if self.total < 1 or not 0 <= self.index < self.total:
            raise UsageError(
                f"shard {self.index} of {self.total} does not exist", hint="shards count from 0"
            )

    def bounds(self, size: int) -> tuple[int, int]:
        """Return the slice of ``size`` items in this shard; the first ``size % total`` shards get one more."""
        base, extra = divmod(size, self.total)
        start = self.index * base + min(self.index, extra)
        shard_size = base
        if self.index < extra:
            shard_size += 1
        return start, start + shard_size


@dataclass(frozen=True, slots=True)
class Plan:
    """The problems of one run, in order, and the number of repeats."""

    dataset_size: int
    problems: Sequence[int]
    repeats: int
    selected: int
    shuffle_seed: int | None = None
    shuffled: bool = False
    shard: Shard | None = None
    only: Sequence[int] | None = None

    def __len__(self) -> int:
        """Return the number of steps."""
        return len(self.problems) * self.repeats

    def first(self, problems: int) -> Self:
        """Return the plan shortened to its first problems."""
        return replace(self, problems=self.problems[:problems])

    @property
    def selection(self) -> str:
        """Describes which problems were selected; empty if all were."""
        if self.selected >= self.dataset_size:
            return ""
        if not self.shuffled:
            return f"the first {self.selected} of {self.dataset_size:,} problems"
        return f"{self.selected} of {self.dataset_size:,} problems, drawn at random (shuffle_seed {self.shuffle_seed})"

    def steps(self, start: int = 0) -> Iterator[Step]:
        """Yield the steps from a position in the plan on, all repeats of a problem one after another."""
        # A slice would copy the problems.
        problems = self.problems[start:] if start else self.problems
        for problem in problems:
            for repeat in range(self.repeats):
                yield Step(problem, repeat)

    def describe(self) -> PlanEntry:
        """Return the facts that the bundle's config records."""
        shuffle: ShuffleEntry = {
            "seed": self.shuffle_seed,
            "applied": self.shuffled,
            "ds_full_size": self.dataset_size,
            "ds_effective_size": self.selected,
        }
        if self.selection:
            shuffle["selection"] = self.selection
        facts: PlanEntry = {"shuffle_seed": self.shuffle_seed, "shuffle": shuffle}
        if self.only is not None:
            facts["only"] = list(self.only)
        if self.shard is not None:
            bounds = list(self.shard.bounds(self.selected))
            facts["shard"] = {"idx": self.shard.index, "total": self.shard.total, "range": bounds}
            facts["shard_range"] = bounds
        return facts


def make_plan(
    dataset_size: int,
    *,
    repeats: int = 1,
    max_problems: int | None = None,
    shuffle_seed: int | None = None,
    shard: Shard | None = None,
    problem_range: tuple[int, int] | None = None,
    only: Sequence[int] | None = None,
) -> Plan:
    """Choose the problems.

    Args:
        dataset_size: The number of problems of the dataset.
        repeats: Answers per problem.
        max_problems: The maximum number of problems.
        shuffle_seed: The seed for shuffling; None for no shuffling.
        shard: The part to run.
        problem_range: The first problem, and the one after the last; disables shuffling.
        only: The indices to run; disables shuffling.

    Raises:
        UsageError: If the dataset size or the repeats are invalid.
    """
    if dataset_size < 0:
        raise UsageError(f"the environment says it has {dataset_size} problems")
    if repeats < 1:
        raise UsageError(f"repeats must be at least 1, not {repeats}")
    shuffled = shuffle_seed is not None and problem_range is None and only is None
    order: Sequence[int]
    if only is not None:
        order = only
    elif problem_range is not None:
        order = range(max(0, problem_range[0]), min(dataset_size, problem_range[1]))
    elif shuffled:
        # The same order as that of a shuffled list, in a fifth of its memory.
        shuffled_indices = array("q", range(dataset_size))
        random.Random(shuffle_seed).shuffle(shuffled_indices)
        order = shuffled_indices
    else:
        order = range(dataset_size)
    if max_problems is not None:
        order = order[:max_problems]
    selected = len(order)
    if shard is not None:
        start, end = shard.bounds(selected)
        order = order[start:end]
    return Plan(
        dataset_size,
        order,
        repeats,
        selected=selected,
        shuffle_seed=shuffle_seed if shuffled else None,
        shuffled=shuffled,
        shard=shard,
        only=only,
    )


@dataclass(slots=True)
class ReusePlan:
    """The decision for every step of a plan, one byte each, and the number of steps by reason."""

    repeats: int
    decisions: bytearray
    reasons: Counter[str] = field(default_factory=Counter)

    def decision(self, step: Step) -> int:
        """Return ASK, VERIFY or REUSE for a step."""
        return self.decisions[step.problem_idx * self.repeats + step.repeat]

    def todo(self, plan: Plan) -> Iterator[Step]:
        """Yield the steps that still need work."""
        for problem in plan.problems:
            for repeat in range(self.repeats):
                if self.decisions[problem * self.repeats + repeat] != REUSE:
                    yield Step(problem, repeat)

    def count(self, decision: int, plan: Plan) -> int:
        """Return how many steps of the plan have a decision."""
        if len(plan) == len(self.decisions):
            return self.decisions.count(decision)
        return sum(1 for step in plan.steps() if self.decision(step) == decision)


async def chosen_problems(
    environment: EvalEnvironment, only: Sequence[int | str] | None
) -> list[int] | None:
    """Return the indices that ``only`` names, without duplicates, in the order of the dataset.

    To find hashes, the whole dataset is read once.

    Raises:
        UsageError: For an index or a hash that matches no problem.
    """
    if only is None:
        return None
    size = await environment.dataset_size()
    indices: set[int] = set()
    prefixes: list[str] = []
    for entry in only:
        if isinstance(entry, int):
            indices.add(entry)
        else:
            prefixes.append(entry)
    out_of_range = [index for index in sorted(indices) if index >= size]
    if out_of_range:
        hint = f"indices go from 0 to {size - 1}" if size else "is the dataset empty?"
        raise UsageError(
            f"{environment.name} has {counted(size, 'problem')}: there is no number {out_of_range[0]}",
            hint=hint,
        )
    if prefixes:
        indices |= await _problems_with_hash(environment, size, prefixes)
    return sorted(indices)


async def _problems_with_hash(
    environment: EvalEnvironment, size: int, prefixes: Sequence[str]
) -> set[int]:
    """Return the indices of the problems whose hash begins with one of the prefixes.

    Raises:
        UsageError: For a prefix that matches no problem.
    """
    await environment.prepare()
    indices: set[int] = set()
    unmatched = dict.fromkeys(prefixes)
    for index in range(size):
        digest = problem_hash(await environment.seed(index))
        for prefix in prefixes:
            if digest.startswith(prefix):
                indices.add(index)
                unmatched.pop(prefix, None)
    if unmatched:
        first_prefix = next(iter(unmatched))
        hint = "each row of results.jsonl has a problem_hash; for one benchmark of several: benchmarks[N].only"
        raise UsageError(
            f"no problem of {environment.name} has a hash that begins with {first_prefix}",
            hint=hint,
        )
    return indices
