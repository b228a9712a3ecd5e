"""The plan is pure, and its laws hold for every size."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.engine.plan import Shard, make_plan

SIZES = st.integers(0, 300)


@given(
    SIZES,
    st.integers(1, 12),
    st.one_of(st.none(), st.integers(0, 99)),
    st.one_of(st.none(), st.integers(1, 400)),
)
def test_shards_partition_the_plan(
    size: int, total: int, seed: int | None, limit: int | None
) -> None:
    whole = make_plan(size, shuffle_seed=seed, max_problems=limit)
    parts = [
        make_plan(size, shuffle_seed=seed, max_problems=limit, shard=Shard(i, total))
        for i in range(total)
    ]
    assert [problem for part in parts for problem in part.problems] == list(whole.problems)
    lengths = [len(part.problems) for part in parts]
    assert max(lengths) - min(lengths) <= 1


@given(SIZES, st.integers(0, 99), st.integers(1, 4))
def test_a_shuffled_plan_asks_every_problem_of_the_dataset_once_per_repeat(
    size: int, seed: int, repeats: int
) -> None:
    plan = make_plan(size, shuffle_seed=seed, repeats=repeats)
    steps = list(plan.steps())
    assert len(steps) == len(plan) == size * repeats
    assert sorted(set(steps)) == [
        (problem, repeat) for problem in range(size) for repeat in range(repeats)
    ]


def test_the_order_is_that_of_pythons_shuffle() -> None:
    expected = list(range(50))
    random.Random(42).shuffle(expected)
    assert list(make_plan(50, shuffle_seed=42, max_problems=7).problems) == expected[:7]


def test_an_explicit_range_bypasses_shuffling() -> None:
    plan = make_plan(10, shuffle_seed=42, problem_range=(3, 6))
    assert list(plan.problems) == [3, 4, 5]
    assert plan.describe()["shuffle"]["applied"] is False


def test_without_a_seed_the_first_problems_are_asked() -> None:
    assert list(make_plan(10, max_problems=3).problems) == [0, 1, 2]


@pytest.mark.parametrize(("index", "total"), [(4, 4), (-1, 2), (0, 0)])
def test_a_shard_that_does_not_exist_is_refused(index: int, total: int) -> None:
    with pytest.raises(UsageError, match="does not exist"):
        Shard(index, total)


def test_nonsense_sizes_are_refused() -> None:
    with pytest.raises(UsageError):
        make_plan(-1)
    with pytest.raises(UsageError):
        make_plan(5, repeats=0)
