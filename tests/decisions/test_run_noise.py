"""What a measured flip rate does to a comparison and to a gate."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nemo_evaluator.config.gate_policy import GatePolicy
from nemo_evaluator.decisions import compare_runs, gate_runs
from nemo_evaluator.decisions.compare.verdict import Verdict

PLACES = np.arange(200)


def measured(folder: Path, rate: float, problems: int = 500, **changes: Any) -> None:
    """Store a flip rate for a run."""
    config = json.loads(next(folder.glob("eval-*.json")).read_text())["config"]
    prints = config.get("fingerprints", {})
    names = ("scorer", "service", "solver", "template")
    document = {
        "version": 2,
        "flip_rate": {"value": rate, "problems": problems, "unit": 0.5},
        "measured_by": {name: prints.get(name) for name in names},
    }
    (folder / "noise.json").write_text(json.dumps(document | changes))


def folder_of(bundle: Path) -> Path:
    return bundle if bundle.is_dir() else bundle.parent


@pytest.fixture
def runs(write_run: Any) -> tuple[Path, Path]:
    """The candidate lost 15 of 200 problems, 7.5 points, and won none."""
    baseline = (PLACES < 120).astype(float)
    candidate = (PLACES < 105).astype(float)
    return folder_of(write_run("base", baseline)), folder_of(write_run("cand", candidate))


def test_a_drop_inside_the_noise_is_inconclusive(runs: tuple[Path, Path]) -> None:
    base, cand = runs
    assert compare_runs(base, cand, max_drop=0.01).verdict is Verdict.BLOCK
    measured(base, 0.4)
    report = compare_runs(base, cand, max_drop=0.01)
    assert report.verdict is Verdict.INCONCLUSIVE
    assert "the difference of -0.0750 is inside the noise" in report.reasons[0]
    assert "flip rate 40.0% for the baseline" in report.reasons[0]
    assert "not measured for the candidate" in report.reasons[0]


def test_a_drop_beyond_the_noise_stays_a_drop(runs: tuple[Path, Path]) -> None:
    for folder in runs:
        measured(folder, 0.05)
    report = compare_runs(*runs, max_drop=0.01)
    assert report.verdict is Verdict.BLOCK
    (words,) = [line for line in report.warnings if "by run-to-run noise alone" in line]
    assert "two runs over 200 problems differ by up to 3.1 points" in words


def test_repeats_narrow_the_noise(write_run: Any) -> None:
    sides = []
    for name, right in (("base", 120), ("cand", 105)):
        rewards = [[float(place < right)] * 4 for place in PLACES]
        sides.append(folder_of(write_run(name, rewards)))
        measured(sides[-1], 0.4)
    assert compare_runs(*sides, max_drop=0.01).verdict is Verdict.BLOCK


def test_equal_runs_pass_if_the_noise_is_below_the_limit(write_run: Any) -> None:
    rewards = (PLACES < 120).astype(float)
    sides = [folder_of(write_run(name, rewards)) for name in ("base", "cand")]
    measured(sides[0], 0.05)
    assert compare_runs(*sides, max_drop=0.05).verdict is Verdict.PASS
    measured(sides[0], 0.3)
    assert compare_runs(*sides, max_drop=0.05).verdict is Verdict.INCONCLUSIVE


@pytest.mark.parametrize(
    ("changes", "note"),
    [
        ({"measured_by": {"solver": "hotter"}}, "was measured on other settings"),
        ({"flip_rate": None, "again": {"verdicts": 0.4, "score": 0.2}}, "has no flip rate"),
    ],
)
def test_a_measurement_that_does_not_apply_is_left_out(
    runs: tuple[Path, Path], changes: dict[str, Any], note: str
) -> None:
    base, cand = runs
    measured(base, 0.4, **changes)
    report = compare_runs(base, cand, max_drop=0.01)
    assert report.verdict is Verdict.BLOCK
    assert any(note in line for line in report.warnings)
    assert not any("noise alone" in line for line in report.warnings)


def test_a_gate_does_not_decide_inside_the_noise(runs: tuple[Path, Path]) -> None:
    base, cand = runs
    policy = GatePolicy.model_validate({"defaults": {"max_drop": 0.01}})
    assert str(gate_runs(base, cand, policy).verdict) == "NO-GO"
    measured(base, 0.4)
    report = gate_runs(base, cand, policy)
    assert str(report.verdict) == "INCONCLUSIVE"
    (entry,) = report.benchmarks
    assert any("is inside the noise" in reason for reason in entry.reasons)
    measured(base, 0.05)
    assert str(gate_runs(base, cand, policy).verdict) == "NO-GO"


def test_an_open_comparison_names_the_noise_too(write_run: Any) -> None:
    sides = []
    for name, right in (("base", 120), ("cand", 117)):
        sides.append(folder_of(write_run(name, (right > PLACES).astype(float))))
    assert compare_runs(*sides, max_drop=0.02).verdict is Verdict.INCONCLUSIVE
    measured(sides[0], 0.3)
    report = compare_runs(*sides, max_drop=0.02)
    assert report.verdict is Verdict.INCONCLUSIVE
    assert "is inside the noise" in report.reasons[0] and len(report.reasons) == 2
