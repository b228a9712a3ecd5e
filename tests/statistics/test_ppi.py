"""Scores that labels correct: against ppi-python, against the published formulas, and against the truth."""

from __future__ import annotations

import importlib
import itertools
import math
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from nemo_evaluator.statistics.corrected_score import corrected_difference, corrected_mean
from nemo_evaluator.statistics.judge_agreement import agreement
from nemo_evaluator.statistics.judge_error import expected_half_width, rogan_gladen
from nemo_evaluator.statistics.ppi import Labelled, ppi_mean

Z = 1.959963984540054


@pytest.fixture(scope="module")
def judges() -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(Path(__file__).resolve().parents[2]))
        yield importlib.import_module("bench.judges")


def made(seed: int, rows: int = 400, labels: int = 80, *, graded: bool = False) -> Labelled:
    rng = np.random.default_rng(seed)
    right = (rng.random(rows) < 0.7).astype(float)
    judge = np.where(rng.random(rows) < 0.15, 1 - right, right)
    if graded:
        right, judge = (
            np.clip(np.round(9 * side + rng.normal(0, 2, rows)) / 9, 0, 1)
            for side in (right, judge)
        )
    human = np.full(rows, np.nan)
    at = rng.choice(rows, labels, replace=False)
    human[at] = right[at]
    return Labelled(judge, human)


@pytest.mark.parametrize(("seed", "graded"), [*itertools.product((1, 2, 3), (False, True))])
def test_point_trust_and_error_are_those_of_ppi_python(seed: int, graded: bool) -> None:
    oracle = pytest.importorskip("ppi_py")
    data = made(seed, graded=graded)
    known = data.known > 0
    given = data.human[known], data.judge[known], data.judge[~known]
    found = ppi_mean(data)
    lower, upper = oracle.ppi_mean_ci(*given, alpha=0.05)
    assert found.value == pytest.approx(float(oracle.ppi_mean_pointestimate(*given)[0]), abs=1e-9)
    assert found.value - Z * found.error == pytest.approx(float(lower[0]), abs=1e-6)
    assert found.value + Z * found.error == pytest.approx(float(upper[0]), abs=1e-6)


def test_a_judge_that_is_worth_nothing_is_not_listened_to() -> None:
    rng = np.random.default_rng(5)
    data = made(5)
    deaf = Labelled(rng.permutation(1 - data.judge), data.human)
    inverted = Labelled(1 - data.judge, data.human)
    assert ppi_mean(inverted).trust == 0.0
    for one in (deaf, inverted):
        found = corrected_mean(one)
        assert found.interval.width is not None and found.alone.width is not None
        assert found.interval.width <= found.alone.width


@pytest.mark.parametrize("labels", [4, 20, 49, 50, 200])
def test_never_wider_than_the_labels_alone(labels: int) -> None:
    for seed in range(30):
        found = corrected_mean(made(seed, labels=labels))
        assert found.interval.width is not None and found.alone.width is not None
        assert found.interval.width <= found.alone.width + 1e-12
        assert 0 <= found.interval.lower <= found.interval.value <= found.interval.upper <= 1  # type: ignore[operator]


def test_no_contradiction_among_few_labels_is_no_proof() -> None:
    """Ten labels that all agree with the judge leave a wide interval, not one of the judge's own width."""
    judge = np.tile([1.0, 1.0, 1.0, 0.0], 250)
    human = np.full(1000, np.nan)
    human[:12] = judge[:12]
    found = corrected_mean(Labelled(judge, human)).interval
    assert found.width is not None and found.width > 0.1


def test_labels_that_all_agree_leave_the_interval_of_their_number() -> None:
    """Drawn with unequal chances, the last digit of a mean of ones differs from 1: that is rounding, not spread."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        judge = (rng.random(2000) < 0.97).astype(float)
        chance = 25 * (rng.random(2000) / 1000 + 1 / 2000)
        data = Labelled(judge, np.where(rng.random(2000) < chance, 1.0, np.nan), chance)
        found = corrected_mean(data).interval
        assert found.lower is not None and found.lower < 1 - 3 / data.labels


def test_equal_chances_are_no_weights_and_unequal_ones_are() -> None:
    data = made(7)
    equal = ppi_mean(Labelled(data.judge, data.human, np.full(400, 0.2)))
    assert (equal.value, equal.error) == (ppi_mean(data).value, ppi_mean(data).error)
    # Wrong answers were three times as likely to be drawn: unweighted, their share is far too high.
    rng = np.random.default_rng(8)
    right = (rng.random(20_000) < 0.8).astype(float)
    chance = np.where(right == 1, 0.05, 0.15)
    human = np.where(rng.random(20_000) < chance, right, np.nan)
    judge = np.full(20_000, 0.5)
    assert ppi_mean(Labelled(judge, human, chance)).value == pytest.approx(0.8, abs=0.02)
    assert ppi_mean(Labelled(judge, human)).value < 0.62


def test_repeats_of_one_problem_are_not_so_many_problems() -> None:
    data = made(9)
    four = Labelled(
        np.repeat(data.judge, 4), np.repeat(data.human, 4), clusters=np.repeat(np.arange(400), 4)
    )
    assert ppi_mean(four).error == pytest.approx(ppi_mean(data).error, rel=1e-3)


def test_rogan_gladen_is_the_published_formula() -> None:
    found = rogan_gladen(0.6975, 1000, 0.9, 73, 0.85, 27)
    p, n, q0, m0, q1, m1 = 0.6975, 1000, 0.85, 27, 0.9, 73
    assert found.value == pytest.approx((p + q0 - 1) / (q0 + q1 - 1), abs=1e-12)
    p, n = (n * p + Z * Z / 2) / (n + Z * Z), n + Z * Z
    q0, m0, q1, m1 = (m0 * q0 + 1) / (m0 + 2), m0 + 2, (m1 * q1 + 1) / (m1 + 2), m1 + 2
    theta = (p + q0 - 1) / (q0 + q1 - 1)
    shift = 2 * Z * Z * (-(1 - theta) * q0 * (1 - q0) / m0 + theta * q1 * (1 - q1) / m1)
    spread = p * (1 - p) / n + (1 - theta) ** 2 * q0 * (1 - q0) / m0 + theta**2 * q1 * (1 - q1) / m1
    half = Z * math.sqrt(spread) / (q0 + q1 - 1)
    assert found.lower == pytest.approx(theta + shift - half, abs=1e-6)
    assert found.upper == pytest.approx(min(theta + shift + half, 1.0), abs=1e-6)
    assert rogan_gladen(0.5, 1000, 0.5, 50, 0.5, 50).lower is None


def test_worked_figures() -> None:
    """Half-widths for a score of .73, sensitivity .90, specificity .85, 1,000 rows."""
    told = {50: (0.123, 0.087, 0.152), 100: (0.087, 0.063, 0.104), 200: (0.061, 0.047, 0.076)}
    for labels, (alone, corrected, carried) in told.items():
        assert expected_half_width(labels, 1000, 0.73, 0.5, 0.5) == pytest.approx(alone, abs=6e-4)
        assert expected_half_width(labels, 1000, 0.73, 0.9, 0.85) == pytest.approx(
            corrected, abs=1e-3
        )
        right = round(0.73 * labels)
        found = rogan_gladen(0.73 * 0.9 + 0.27 * 0.15, 1000, 0.9, right, 0.85, labels - right)
        assert found.lower is not None and found.upper is not None
        assert (found.upper - found.lower) / 2 == pytest.approx(carried, abs=0.012)


def test_agreement_of_a_known_table() -> None:
    """40 both right, 10 judge alone, 5 people alone, 45 both wrong."""
    human = np.repeat([1.0, 0.0, 1.0, 0.0], [40, 10, 5, 45])
    judge = np.repeat([1.0, 1.0, 0.0, 0.0], [40, 10, 5, 45])
    found = agreement(Labelled(judge, human))
    assert (found.both_right, found.judge_only, found.people_only, found.both_wrong) == (
        40,
        10,
        5,
        45,
    )
    assert found.kappa == pytest.approx((0.85 - 0.5) / 0.5, abs=1e-9)
    assert found.ac1 == pytest.approx(
        (0.85 - 2 * 0.475 * 0.525) / (1 - 2 * 0.475 * 0.525), abs=1e-9
    )
    assert found.sensitivity.value == pytest.approx(40 / 45)
    assert found.specificity.value == pytest.approx(45 / 55)
    assert found.bias == pytest.approx(0.05)


def test_kappa_falls_with_the_base_rate_and_ac1_does_not() -> None:
    human = np.repeat([1.0, 0.0, 1.0, 0.0], [95, 2, 2, 1])
    judge = np.repeat([1.0, 1.0, 0.0, 0.0], [95, 2, 2, 1])
    found = agreement(Labelled(judge, human))
    assert found.accuracy == pytest.approx(0.96)
    assert found.kappa is not None and found.kappa < 0.35 < 0.9 < found.ac1


def test_the_difference_of_a_run_with_itself_is_zero() -> None:
    data = made(3)
    found = corrected_difference(data, data)
    assert found.value == pytest.approx(0.0, abs=1e-12)
    bounds = found.interval()
    assert bounds.lower is not None and bounds.lower < 0 < (bounds.upper or 0)


def test_corrected_intervals_cover_the_truth(judges: ModuleType) -> None:
    """The small grid: nothing far below 95 %, and narrower than the labels alone where the judge is informative."""
    for draw, cells in judges.scores(80, labels=(100,), truths=(0.2, 0.7)).items():
        assert {one.cell.where["truth"] for one in cells} == {0.2, 0.7}
        assert 0.925 <= float(np.mean([one.cell.rate for one in cells])) <= 0.985, draw
        assert not [one.cell for one in cells if one.cell.rate < 0.85], draw
        good = [
            one
            for one in cells
            if one.cell.where["sensitivity"] >= 0.9 and one.cell.where["specificity"] >= 0.85
        ]
        assert good and all(one.half < one.alone for one in good), draw


def test_corrected_comparisons_hold_their_level(judges: ModuleType) -> None:
    for name, raw, corrected, power in judges.comparisons(100, sizes=((100, True),)):
        assert corrected <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 100), name
        assert power > 0.3, name
        if "alike" not in name:
            assert raw > 0.8, name


def test_a_level_whose_labels_are_all_equal_is_not_certain() -> None:
    """A draw by level: without the unseen variance the interval covers 87 % here."""
    rng = np.random.default_rng(1)
    rows = 2000
    covered = 0
    for _ in range(200):
        right = (rng.random(rows) < 0.05).astype(float)
        errs = np.where(right == 1, 0.4, 0.01)
        judge = np.where(rng.random(rows) < errs, 1 - right, right)
        human = np.full(rows, np.nan)
        chance = np.zeros(rows)
        for level, quota in ((0.0, 41), (1.0, 9)):
            in_level = np.flatnonzero(judge == level)
            quota = min(quota, len(in_level))
            chance[in_level] = quota / len(in_level)
            drawn = rng.choice(in_level, quota, replace=False)
            human[drawn] = right[drawn]
        interval = corrected_mean(Labelled(judge, human, chance)).interval
        assert interval.lower is not None
        assert interval.upper is not None
        covered += interval.lower <= 0.05 <= interval.upper
    # 93 % less three standard errors.
    assert covered >= 176
