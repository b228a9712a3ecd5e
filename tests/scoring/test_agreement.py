from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nemo_evaluator.scoring import krippendorff_alpha
from nemo_evaluator.scoring.metrics.ensemble_judge import majority

# The worked example of Krippendorff (2011), "Computing Krippendorff's Alpha-Reliability": four observers, twelve units.
OBSERVERS = [
    [1, 2, 3, 3, 2, 1, 4, 1, 2, None, None, None],
    [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, None, 3],
    [None, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, None],
    [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, None],
]


def test_the_published_example() -> None:
    units = [list(unit) for unit in zip(*OBSERVERS, strict=True)]
    assert krippendorff_alpha(units) == pytest.approx(0.849, abs=5e-4)


def test_nothing_can_be_said_without_spread_or_pairs() -> None:
    assert krippendorff_alpha([[3, 3], [3, 3]]) is None
    assert krippendorff_alpha([[3, None], [4, None]]) is None
    assert krippendorff_alpha([]) is None


@given(
    st.lists(st.integers(1, 5), min_size=2, max_size=20).filter(lambda grades: len(set(grades)) > 1)
)
def test_perfect_agreement_is_one(grades: list[int]) -> None:
    assert krippendorff_alpha([[grade, grade, grade] for grade in grades]) == pytest.approx(1.0)


def test_majority() -> None:
    assert majority([3, 5, 3]) == 3
    assert majority([1, 5]) == 3
    assert majority([2, 2, 4, 4, 5]) == 3
