"""Where both runs have labels, compare and gate decide on what people would find."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from nemo_evaluator.cli.main import nel
from nemo_evaluator.config.gate_policy import GatePolicy
from nemo_evaluator.decisions.compare.compare_runs import compare_runs
from nemo_evaluator.decisions.gate.gate_runs import gate_runs
from nemo_evaluator.runs.calibration import read_draw
from nemo_evaluator.runs.labels import Label, append_label

from .conftest import make_row, write


def two_runs(
    root: Path, rows: int = 800, *, gain: float = 0.0, seed: int = 1
) -> list[tuple[Path, np.ndarray]]:
    """The same quality on both sides (but for ``gain``), and a judge that is strict with the candidate."""
    rng = np.random.default_rng(seed)
    ease, sides = rng.beta(1.4, 0.6, rows), []
    for name, judge, more in (("base", (0.97, 0.75), 0.0), ("cand", (0.8, 0.95), gain)):
        right = (rng.random(rows) < np.clip(ease + more, 0, 1)).astype(float)
        said = np.where(right == 1, rng.random(rows) < judge[0], rng.random(rows) >= judge[1])
        folder = write(
            root / name / "toy", [make_row(at, float(one)) for at, one in enumerate(said)]
        )
        sides.append((folder, right))
    return sides


def label(sides: list[tuple[Path, np.ndarray]], labels: int = 200) -> None:
    """Draw the baseline, the candidate like it, and label both."""
    (base, _), (cand, _) = sides
    for args in ((base, "--labels", labels), (cand, "--like", base)):
        done = CliRunner().invoke(nel, ["judge", "sample", *map(str, args)], catch_exceptions=False)
        assert done.exit_code == 0, done.output
    for folder, right in sides:
        for row in json.loads((folder / "label_draw.json").read_text())["rows"]:
            word = "right" if right[row["problem_idx"]] else "wrong"
            append_label(folder, Label(row["problem_idx"], 0, word))  # type: ignore[arg-type]


def test_a_judge_that_is_strict_with_one_side(tmp_path: Path) -> None:
    sides = two_runs(tmp_path)
    raw = compare_runs(sides[0][0], sides[1][0], max_drop=0.05)
    assert raw.verdict == "BLOCK" and raw.difference.method == "flips"
    label(sides, 500)
    drawn = [
        {row["problem_idx"] for row in json.loads((f / "label_draw.json").read_text())["rows"]}
        for f, _ in sides
    ]
    assert drawn[0] == drawn[1]
    found = compare_runs(sides[0][0], sides[1][0], max_drop=0.05)
    assert found.difference.method == "ppi_paired" and found.verdict in ("PASS", "INCONCLUSIVE")
    assert found.difference.lower is not None and found.difference.lower < 0 < (
        found.difference.upper or 0
    )
    assert any(
        "corrected by labels (500 of the baseline, 500 of the candidate)" in line
        for line in found.warnings
    )


@pytest.mark.parametrize("relative", [None, 0.1])
def test_the_gate_decides_on_the_corrected_difference(
    tmp_path: Path, relative: float | None
) -> None:
    policy = GatePolicy.model_validate(
        {"defaults": {"max_drop": 0.15, "max_relative_drop": relative}}
    )
    sides = two_runs(tmp_path, gain=0.02)
    before = gate_runs(tmp_path / "base", tmp_path / "cand", policy, details=False)
    label(sides, 400)
    after = gate_runs(tmp_path / "base", tmp_path / "cand", policy, details=False)
    assert (
        after.benchmarks[0].ci_method == "ppi_paired" and before.benchmarks[0].ci_method == "flips"
    )
    assert str(after.verdict) == "GO" and str(before.verdict) != "GO"
    assert any("corrected by labels" in line for line in after.warnings)
    worse = two_runs(tmp_path / "worse", gain=-0.35)
    label(worse, 400)
    stopped = gate_runs(
        tmp_path / "worse" / "base", tmp_path / "worse" / "cand", policy, details=False
    )
    assert str(stopped.verdict) == "NO-GO"


def test_lower_is_better_is_the_mirror(tmp_path: Path) -> None:
    sides = two_runs(tmp_path, gain=-0.35)
    label(sides, 400)
    policy = GatePolicy.model_validate(
        {"defaults": {"max_drop": 0.15, "direction": "lower_is_better"}}
    )
    assert (
        str(gate_runs(tmp_path / "base", tmp_path / "cand", policy, details=False).verdict) == "GO"
    )


def test_labels_on_one_side_are_said_and_not_used(tmp_path: Path) -> None:
    sides = two_runs(tmp_path)
    label(sides, 50)
    (sides[1][0] / "labels.jsonl").unlink()
    found = compare_runs(sides[0][0], sides[1][0])
    assert found.difference.method == "flips" and any(
        "only one run has labels" in line for line in found.warnings
    )


def test_labels_that_were_not_drawn_are_said_and_not_used(tmp_path: Path) -> None:
    sides = two_runs(tmp_path)
    label(sides, 50)
    before = compare_runs(sides[0][0], sides[1][0])
    drawn = {(row.problem_idx, row.repeat) for row in read_draw(sides[0][0]).rows}  # type: ignore[union-attr]
    for at in range(800):
        if (at, 0) not in drawn:
            append_label(sides[0][0], Label(at, 0, "right"))
    found = compare_runs(sides[0][0], sides[1][0])
    assert found.difference == before.difference
    assert any(
        line.startswith(f"{800 - len(drawn)} labels on rows that were not drawn")
        for line in found.warnings
    )


def test_power_plans_labels_against_problems(tmp_path: Path) -> None:
    flags = [
        "--drop",
        "0.05",
        "--usd-per-answer",
        "0.01",
        "--labels-cost",
        "0.5",
        "--budget-usd",
        "100",
    ]
    done = CliRunner().invoke(
        nel, ["power", "--score", "0.73", *flags, "--json"], catch_exceptions=False
    )
    found = json.loads(done.output)[0]["labels"]
    best, worst = found["splits"][0], found["splits"][-1]
    assert found["settles"] is False and found["available"] is None
    assert (
        best["problems"] * 0.01 + best["labels"] * 0.5 <= 100.01
        and best["half_width"] < worst["half_width"]
    )
    assert found["assumed"] is True and 100 <= best["labels"] <= 200
    text = CliRunner().invoke(nel, ["power", "--score", "0.73", *flags]).output
    assert "labels against problems for $100.00" in text and "are assumed" in text
    refused = CliRunner().invoke(
        nel, ["power", "--score", "0.73", "--drop", "0.05", "--labels-cost", "0.5"]
    )
    assert "--budget-usd" in str(getattr(refused.exception, "hint", ""))


def test_power_suggests_no_more_problems_than_there_are(tmp_path: Path) -> None:
    flags = [
        "--usd-per-answer",
        "0.01",
        "--labels-cost",
        "0.5",
        "--budget-usd",
        "400",
        "--problems",
        "300",
    ]
    planned = {}
    for drop in ("0.02", "0.2"):
        done = CliRunner().invoke(
            nel, ["power", "--score", "0.73", "--drop", drop, *flags, "--json"]
        )
        planned[drop] = found = json.loads(done.output)[0]["labels"]
        assert found["available"] == 300 and all(
            one["labels"] <= one["problems"] <= 300 for one in found["splits"]
        )
        # What fewer problems leave of the budget buys labels.
        assert found["splits"][0]["labels"] == 300
    assert [planned[drop]["settles"] for drop in planned] == [False, True]
    said = CliRunner().invoke(nel, ["power", "--score", "0.73", "--drop", "0.02", *flags]).output
    assert "a drop of 0.02 cannot be settled" in " ".join(said.split())


def test_power_takes_the_judge_from_the_labels_of_the_run(tmp_path: Path) -> None:
    sides = two_runs(tmp_path)
    label(sides, 300)
    CliRunner().invoke(nel, ["judge", "calibrate", str(sides[1][0])], catch_exceptions=False)
    flags = [
        "--drop",
        "0.05",
        "--usd-per-answer",
        "0.01",
        "--labels-cost",
        "0.5",
        "--budget-usd",
        "100",
        "--json",
    ]
    done = CliRunner().invoke(nel, ["power", str(sides[1][0]), *flags], catch_exceptions=False)
    found = json.loads(done.output)[0]["labels"]
    assert found["assumed"] is False and found["sensitivity"] == pytest.approx(0.8, abs=0.07)


def label_some(
    sides: list[tuple[Path, np.ndarray]], labels: int, *, hide: str, unsure: bool = False
) -> None:
    """Label both sides, but of the candidate only the answers that help it: the other drawn rows have no label."""
    label(sides, labels)
    folder, _ = sides[1]
    file = folder / "labels.jsonl"
    given = [json.loads(line) for line in file.read_text().splitlines()]
    file.write_text("")
    for entry in given:
        if entry["label"] != hide:
            append_label(folder, Label(entry["problem_idx"], 0, entry["label"]))
        elif unsure:
            append_label(folder, Label(entry["problem_idx"], 0, "unsure"))


@pytest.mark.parametrize("unsure", [False, True])
def test_leaving_out_wrong_answers_does_not_turn_a_worse_model_into_a_go(
    tmp_path: Path, unsure: bool
) -> None:
    policy = GatePolicy.model_validate({"defaults": {"max_drop": 0.05}})
    sides = two_runs(tmp_path, gain=-0.25)
    label_some(sides, 200, hide="wrong", unsure=unsure)
    report = gate_runs(tmp_path / "base", tmp_path / "cand", policy, details=False)
    assert str(report.verdict) != "GO"
    assert any("drawn rows have no label or an unsure one" in line for line in report.warnings)
    comparison = compare_runs(sides[0][0], sides[1][0], max_drop=0.05)
    assert comparison.difference.method == "ppi_paired_bounds"
    lower = comparison.difference.lower
    upper = comparison.difference.upper
    true_difference = sides[1][1].mean() - sides[0][1].mean()
    assert lower is not None
    assert upper is not None
    assert lower < true_difference < upper


def test_leaving_out_right_answers_does_not_turn_an_equal_model_into_a_no_go(
    tmp_path: Path,
) -> None:
    policy = GatePolicy.model_validate({"defaults": {"max_drop": 0.05}})
    sides = two_runs(tmp_path)
    label_some(sides, 200, hide="right")
    report = gate_runs(tmp_path / "base", tmp_path / "cand", policy, details=False)
    assert str(report.verdict) == "INCONCLUSIVE"


def test_a_few_missing_labels_still_decide(tmp_path: Path) -> None:
    policy = GatePolicy.model_validate({"defaults": {"max_drop": 0.15}})
    sides = two_runs(tmp_path, gain=-0.35)
    label(sides, 400)
    folder, _ = sides[1]
    lines = (folder / "labels.jsonl").read_text().splitlines(keepends=True)
    (folder / "labels.jsonl").write_text("".join(lines[4:]))
    report = gate_runs(tmp_path / "base", tmp_path / "cand", policy, details=False)
    assert str(report.verdict) == "NO-GO"
