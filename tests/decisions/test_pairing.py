"""Which problems are the same: what did not pair, what stands there twice, and what is paired in spite of itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nemo_evaluator.decisions import compare_results
from nemo_evaluator.decisions.pairing import pair
from nemo_evaluator.runs.row_table import table_of


def test_what_was_not_asked_and_what_was_not_scored_are_two_things(make_rows: Any) -> None:
    base, candidate = make_rows([1.0] * 10), make_rows([1.0] * 4 + [None] * 3)
    report = compare_results(base, candidate)
    assert (report.pairing.paired, report.pairing.only_baseline, report.pairing.only_candidate) == (
        4,
        3,
        0,
    )
    assert (report.pairing.unscored_baseline, report.pairing.unscored_candidate) == (0, 3)
    assert "4 problems paired; 3 only in the baseline, 0 only in the candidate" in report.warnings
    expected = (
        "problems without a scored answer are left out: 0 in the baseline, 3 in the candidate"
    )
    assert expected in report.warnings


def test_a_problem_that_stands_there_twice_is_one_problem(make_rows: Any) -> None:
    doubled = make_rows([1.0, 0.0, 1.0, 1.0])
    doubled[1]["problem_hash"] = doubled[0]["problem_hash"]
    found = pair(table_of(doubled), table_of(make_rows([1.0] * 4)))
    assert len(found) == 3
    assert sorted(found.baseline.rewards.tolist()) == [0.5, 1.0, 1.0]
    assert found.warnings == ("1 problem in the baseline more than once; the answers are averaged",)
    repeats = table_of(make_rows([[1.0, 0.0]] * 4))
    assert pair(repeats, repeats).warnings == ()


def test_other_problems_under_the_same_index_are_named(make_rows: Any) -> None:
    other = make_rows([1.0] * 4)
    other[2]["problem_hash"] = "ff" * 16
    found = pair(table_of(make_rows([1.0] * 4)), table_of(other), "index")
    assert len(found) == 4
    assert found.warnings == ("of 4 problems paired by index, 1 with different content",)


def test_no_common_problem_is_explained(make_rows: Any) -> None:
    found = pair(
        table_of(make_rows([1.0] * 4)), table_of(make_rows([1.0] * 4, problem_hash="ff" * 16))
    )
    assert found.warnings[0].startswith("no problem has the same content on both sides")


def test_unequal_repeats_are_said_and_do_no_harm(make_rows: Any) -> None:
    rng = np.random.default_rng(0)
    base = rng.integers(0, 2, (200, 4)).astype(float)
    report = compare_results(make_rows(list(base)), make_rows(list(base[:, 0])))
    assert "answers per problem: 4 in the baseline, 1 in the candidate" in report.warnings
    assert report.difference.value == pytest.approx(base[:, 0].mean() - base.mean())
    assert report.difference.n == 200


def test_the_range_of_rewards_is_not_made_up(make_rows: Any) -> None:
    """Five points of a scale that reached six so far: the next reward may be a hundred."""
    few = pair(table_of(make_rows([5.0, 6.0, 1.0])), table_of(make_rows([4.0, 6.0, 2.0])))
    assert not few.bounded
    assert few.scale == 6.0
    report = compare_results(make_rows([-5.0, -9.0]), make_rows([-9.0, -6.0]), max_drop=10.0)
    assert report.verdict == "INCONCLUSIVE"
    assert report.difference.lower < -10
    inside = compare_results(make_rows([0.5, 0.9]), make_rows([0.9, 0.6]), max_drop=1.0)
    assert inside.verdict == "PASS", "no reward in [0, 1] can fall by more than 1"


def test_rounding_is_not_a_spread(make_rows: Any) -> None:
    """Ten drops of 0.02 that differ in the seventeenth digit are ten equal drops."""
    base = np.random.default_rng(0).random(10)
    assert np.ptp((base - 0.02) - base) > 0
    almost = compare_results(make_rows(base), make_rows(base - 0.02), max_drop=0.015)
    equal = compare_results(make_rows([0.9] * 10), make_rows([0.88] * 10), max_drop=0.015)
    assert (almost.verdict, equal.verdict) == ("INCONCLUSIVE", "INCONCLUSIVE")
    assert almost.difference.width == pytest.approx(equal.difference.width)
    assert almost.needed == equal.needed
