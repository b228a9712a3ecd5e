"""The quick grid of bench/calibration.py: are coverage and error rates what they say?"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from nemo_evaluator.statistics import wilson


@pytest.fixture(scope="module")
def calibration() -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(Path(__file__).resolve().parents[2]))
        yield importlib.import_module("bench.calibration")


@pytest.fixture(scope="module")
def coverage(calibration: ModuleType) -> ModuleType:
    return calibration.coverage


def test_one_answer_per_problem(coverage: ModuleType) -> None:
    """Exact, over n from 10 to 2,000 and p from 0.01 to 0.99."""
    cells = coverage.single_answer(coverage.LONG)
    assert all(0.93 <= cell.rate <= 0.97 for cell in cells if not cell.few)
    assert min(cell.rate for cell in cells) >= 0.93
    assert 0.95 <= coverage.summary(cells)["mean"] <= 0.965


@pytest.mark.parametrize(
    "grid",
    [
        "repeated_answers",
        "several_answers",
        "clustered_problems",
        "fractional_rewards",
        "paired_intervals",
    ],
)
def test_grids(grid: str, coverage: ModuleType) -> None:
    cells = getattr(coverage, grid)(coverage.QUICK)
    assert [cell for cell in cells if cell.low or (cell.high and not cell.few)] == []
    assert 0.94 <= coverage.summary([cell for cell in cells if not cell.few])["mean"] <= 0.965


def test_the_check_can_fail(coverage: ModuleType) -> None:
    """A naive interval that takes repeats for independent answers is found out by the same grid."""
    rng = np.random.default_rng(0)
    values = rng.binomial(8, coverage.ease(rng, 0.5, 0.5, (400, 50))) / 8
    naive = [wilson(row.mean() * 400, 400) for row in values]
    cell = coverage.Cell({}, float(np.mean([w.lower <= 0.5 <= w.upper for w in naive])), 400, 25)
    assert cell.low


def test_paired_tests_hold_their_level_and_beat_unpaired_ones(calibration: ModuleType) -> None:
    found = dict(calibration.paired_tests(400))
    for test in ("mcnemar", "paired difference"):
        assert found["no drop"][test] <= 0.05 + 3 * 0.011
        assert found["drop of 0.05"][test] > found["drop of 0.05"]["unpaired (Welch)"] + 0.1
        assert found["drop of 0.10"][test] > found["drop of 0.10"]["unpaired (Welch)"]


def test_the_gate_errs_less_than_it_says(calibration: ModuleType) -> None:
    found = calibration.gate_errors(150)
    noise = 3 * (0.025 * 0.975 / 150) ** 0.5
    assert len(found) == 4
    assert max(found.values()) <= 0.025 + noise, found


def test_confidence_sequences_hold_under_peeking(calibration: ModuleType) -> None:
    found = calibration.looking.peeking(200, most=1000)
    noise = 3 * (0.05 * 0.95 / 200) ** 0.5
    assert found["mean, confidence sequence"] <= 0.05 + noise
    assert found["paired difference, confidence sequence"] <= 0.05 + noise
    assert found["mean, fixed 95 % interval"] > 0.25, (
        "looking must hurt a fixed interval, or the test sees nothing"
    )


def test_decisions_on_runs_with_a_rule_hold_their_level(calibration: ModuleType) -> None:
    """Stopped and unstopped runs together, at the worst place: drops exactly on the limit."""
    found = dict(calibration.looking.decision_errors(40))
    noise = 3 * (0.05 * 0.95 / 40) ** 0.5
    for name, rates in found.items():
        assert rates["compare"] <= 0.05 + noise, name
        assert rates["gate"] <= 0.05 + noise, name
    pooled = {
        key: np.mean([rates[key] for rates in found.values()])
        for key in ("compare", "gate", "usual interval")
    }
    assert pooled["compare"] <= 0.05
    assert pooled["gate"] <= 0.05
    assert 0 < pooled["gate"] < pooled["usual interval"], (
        "what is spent on looking must show, or the test sees nothing"
    )


def test_sequential_comparisons_save_half(calibration: ModuleType) -> None:
    for name, found in calibration.looking.savings(30):
        if name.startswith("10 points"):
            assert found["used"] < 0.5, name
            assert found["decided"] > 0.9, name
            assert found["wrong"] == 0.0
        else:
            assert found["wrong"] <= 0.05 + 3 * (0.05 * 0.95 / 30) ** 0.5, name
