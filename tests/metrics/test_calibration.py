"""The quick grid of bench/calibration.py: are coverage and error rates what they say?"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

PATH = Path(__file__).resolve().parents[2] / "bench" / "calibration.py"


@pytest.fixture(scope="module")
def calibration() -> ModuleType:
    spec = importlib.util.spec_from_file_location("calibration", PATH)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["calibration"] = module
    spec.loader.exec_module(module)
    return module


def test_one_answer_per_problem(calibration: ModuleType) -> None:
    """Exact, over n from 10 to 2,000 and p from 0.01 to 0.99."""
    cells = calibration.single_answer(calibration.LONG)
    assert min(cell.rate for cell in cells) >= 0.93 - 0.0005
    assert 0.95 <= calibration.summary(cells)["mean"] <= 0.965
    assert calibration.summary(cells)["inside"] >= 0.9


@pytest.mark.parametrize(
    "grid", ["repeated_answers", "several_answers", "clustered_problems", "fractional_rewards", "paired_intervals"]
)
def test_grids(grid: str, calibration: ModuleType) -> None:
    cells = getattr(calibration, grid)(calibration.QUICK)
    found = calibration.summary(cells)
    assert found["below"] == 0.0, [cell for cell in cells if cell.low]
    assert 0.94 <= found["mean"] <= 0.97
    assert found["inside"] >= 0.7


def test_the_check_can_fail(calibration: ModuleType) -> None:
    """A naive interval that takes repeats for independent answers is found out by the same grid."""
    import numpy as np

    from nemo_evaluator.metrics import wilson

    rng = np.random.default_rng(0)
    values = rng.binomial(8, calibration.ease(rng, 0.5, 0.5, (400, 50))) / 8
    naive = [wilson(row.mean() * 400, 400) for row in values]
    cell = calibration.Cell({}, float(np.mean([w.lower <= 0.5 <= w.upper for w in naive])), 400)
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
    assert found["false GO"] <= 0.025 + noise
    assert found["false NO-GO"] <= 0.025 + noise


def test_confidence_sequences_hold_under_peeking(calibration: ModuleType) -> None:
    found = calibration.peeking(200, most=1000)
    noise = 3 * (0.05 * 0.95 / 200) ** 0.5
    assert found["mean, confidence sequence"] <= 0.05 + noise
    assert found["paired difference, confidence sequence"] <= 0.05 + noise
    assert found["mean, fixed 95 % interval"] > 0.25, "looking must hurt a fixed interval, or the test sees nothing"


def test_sequential_comparisons_save_half(calibration: ModuleType) -> None:
    for name, used, wrong in calibration.sequential_savings(60):
        if name.startswith("10 points"):
            assert used < 0.5, name
            assert wrong == 0.0
        else:
            assert wrong <= 0.05 + 3 * (0.05 * 0.95 / 60) ** 0.5, name
