"""A comparison that labels correct shows both sets of figures, each labelled; all of a set belong together."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from nemo_evaluator.cli.main import nel
from nemo_evaluator.config.gate_policy import GatePolicy
from nemo_evaluator.decisions import compare_runs, gate_runs

from .test_calibrated_decisions import label, two_runs


@pytest.fixture
def folders(tmp_path: Path) -> list[Path]:
    sides = two_runs(tmp_path, rows=400)
    label(sides, 120)
    return [folder for folder, _ in sides]


def test_the_scores_of_a_set_give_its_difference(folders: list[Path]) -> None:
    document = compare_runs(*folders).to_dict()
    baseline, candidate = document["baseline"], document["candidate"]
    corrected = candidate["corrected"]["value"] - baseline["corrected"]["value"]
    raw = candidate["score"]["value"] - baseline["score"]["value"]
    assert document["difference"]["value"] == pytest.approx(corrected, abs=3e-6)
    assert document["raw_difference"]["value"] == pytest.approx(raw, abs=3e-6)
    assert abs(corrected - raw) > 0.01


def test_every_figure_of_the_text_says_which_set_it_belongs_to(folders: list[Path]) -> None:
    arguments = ["compare", *map(str, folders), "--no-report"]
    text = CliRunner().invoke(nel, arguments).output
    lines = text.splitlines()
    for side in ("baseline", "candidate"):
        (line,) = [line for line in lines if line.strip().startswith(f"{side} ")]
        assert line.index("corrected,") < line.index(" raw")
    mark = "(raw: the judge's scores)"
    for figure in ("400 problems paired", "test that the candidate is worse", "  difference "):
        (line,) = [line for line in lines if figure in line]
        assert line.endswith(mark), line
    page = CliRunner().invoke(nel, [*arguments, "--format", "markdown"]).output
    assert "corrected, " in page and mark in page
    html = CliRunner().invoke(nel, [*arguments, "--format", "html"]).output
    assert html.count("(corrected)") == 2 and "Got worse (raw: the judge" in html


def test_a_comparison_without_labels_has_one_set(tmp_path: Path) -> None:
    sides = two_runs(tmp_path, rows=60)
    document = compare_runs(*[folder for folder, _ in sides]).to_dict()
    assert "raw_difference" not in document and "corrected" not in document["baseline"]


def test_the_gate_shows_corrected_scores_with_a_corrected_difference(folders: list[Path]) -> None:
    policy = GatePolicy.model_validate({"defaults": {"max_drop": 0.05}})
    (entry,) = gate_runs(*folders, policy).benchmarks
    assert entry.delta is not None and entry.baseline_score is not None
    assert entry.candidate_score is not None
    assert entry.delta == pytest.approx(entry.candidate_score - entry.baseline_score, abs=2e-6)
