"""Rows that tampered with their own judging: the score with them as 0 stands beside the headline, and never passes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from nemo_evaluator.assistant.harvest import harvest
from nemo_evaluator.cli.main import nel
from nemo_evaluator.decisions import compare_runs, gate_runs
from nemo_evaluator.decisions.check.check_run import check_path
from nemo_evaluator.decisions.check.findings import RunStatus
from nemo_evaluator.decisions.compare.verdict import Verdict
from nemo_evaluator.decisions.gate.report import GateVerdict
from nemo_evaluator.runs.bundle import load_bundle
from nemo_evaluator.runs.tampering import Tampering, read_tampering

WriteRun = Callable[..., Path]


def failed(rows: list[dict[str, Any]], count: int, cause: str = "tamper") -> list[dict[str, Any]]:
    """The rows with the last ones failed by one cause."""
    for row in rows[len(rows) - count :]:
        row |= {
            "status": "failed",
            "reward": None,
            "failure": {"cause": cause, "message": "left by os._exit"},
        }
    return rows


@pytest.mark.parametrize(
    ("count", "status"), [(0, "VALID"), (1, "DEGRADED"), (10, "DEGRADED"), (11, "INVALID")]
)
def test_more_than_one_percent_makes_a_run_invalid(
    count: int, status: str, write_run: WriteRun, make_rows: Any
) -> None:
    folder = write_run("a/toy", rows=failed(make_rows([1.0] * 1000), count))
    (check,) = check_path(folder)
    assert check.status is RunStatus(status)
    score = f"with these rows as 0 the score is {1 - count / 1000:.4f}"
    assert any(score in reason for reason in check.reasons) is bool(count)


@pytest.mark.parametrize("side", ["baseline", "candidate"])
def test_such_a_run_never_passes(
    side: str, write_run: WriteRun, make_rows: Any, tmp_path: Path
) -> None:
    rows = {
        "baseline": make_rows([1.0] * 800 + [0.0] * 200),
        "candidate": make_rows([1.0] * 800 + [0.0] * 200),
    }
    # The programs that tamper would have been wrong, so that 0 is what both sides have there.
    failed(rows[side], 20)
    left, right = (write_run(f"{name}/toy", rows=rows[name]) for name in ("baseline", "candidate"))
    report = compare_runs(left, right)
    assert report.difference.value == 0.0
    assert report.verdict is Verdict.INCONCLUSIVE
    assert any(
        f"the {side} is INVALID: 20 of 1,000 rows (2.0%) tampered" in reason
        for reason in report.reasons
    )
    assert (
        f"the {side}: 20 rows that reached for the judge (tamper), counted as 0" in report.warnings
    )
    gated = gate_runs(left.parent, right.parent)
    assert gated.verdict is GateVerdict.INCONCLUSIVE
    assert any(
        "tampered with their own judging" in reason for reason in gated.benchmarks[0].reasons
    )


def test_a_bundle_that_says_invalid_for_it_never_passes_either(
    write_run: WriteRun, tmp_path: Path
) -> None:
    words = Tampering(tampered=20, judged=1000, score=0.78).words
    validity = {"status": "INVALID", "reasons": [words]}
    left, right = (
        write_run("a/toy", [1.0] * 1000),
        write_run("b/toy", [1.0] * 1000, validity=validity),
    )
    assert compare_runs(left, right).verdict is Verdict.INCONCLUSIVE
    assert gate_runs(left.parent, right.parent).verdict is GateVerdict.INCONCLUSIVE


def test_a_little_tampering_passes_with_its_rows_as_zero(
    write_run: WriteRun, make_rows: Any
) -> None:
    left = write_run("a/toy", rows=make_rows([1.0] * 990 + [0.0] * 10))
    right = write_run("b/toy", rows=failed(make_rows([1.0] * 990 + [0.0] * 10), 5))
    report = compare_runs(left, right)
    assert (report.verdict, report.difference.value) == (Verdict.PASS, 0.0)
    assert any("with these rows as 0 the score is 0.9900" in warning for warning in report.warnings)


def test_many_more_failed_rows_in_the_candidate_are_named_with_numbers(
    write_run: WriteRun, make_rows: Any
) -> None:
    """A program that makes its row fail must not make its model look better without a word."""
    left = write_run("a/toy", rows=make_rows([0.0] * 8 + [1.0] * 156))
    right = write_run("b/toy", rows=failed(make_rows([0.0] * 8 + [1.0] * 156), 8, cause="scorer"))
    report = compare_runs(left, right, max_drop=0.03)
    assert report.verdict is not Verdict.PASS
    told = "0 rows failed in the baseline, 8 rows failed in the candidate (8 scorer): with failed rows as 0 the scores"
    assert any(
        warning.startswith(told) and "0.9512 and 0.9024" in warning for warning in report.warnings
    )
    alike = compare_runs(right, right)
    assert not any("with failed rows as 0" in warning for warning in alike.warnings)


def test_failed_rows_of_unbounded_rewards_never_pass(write_run: WriteRun, make_rows: Any) -> None:
    left = write_run("a/toy", rows=make_rows([3.0, 4.0] * 200))
    right = write_run("b/toy", rows=failed(make_rows([3.0, 4.0] * 200), 3, cause="scorer"))
    report = compare_runs(left, right, max_drop=1.0)
    assert report.verdict is Verdict.INCONCLUSIVE
    assert any("set no bound" in reason for reason in report.reasons)


def test_what_a_bundle_says_of_it_is_shown_everywhere(write_run: WriteRun, tmp_path: Path) -> None:
    folder = write_run("out/toy", [1.0] * 100)
    (path,) = folder.glob("eval-*.json")
    document = json.loads(path.read_text())
    found = Tampering(tampered=2, judged=100, score=0.97)
    document["benchmark"] |= {"tamper": found.to_dict(), "notes": [found.words]}
    path.write_text(json.dumps(document))
    assert load_bundle(path).tampering == found
    assert [(line.tampered, line.score_tampered_as_0) for line in harvest(folder)] == [(2, 0.97)]
    table = CliRunner().invoke(nel, ["harvest", str(folder)], terminal_width=200).output
    assert "0.9700" in table
    for form in ("markdown", "html", "json"):
        target = tmp_path / f"report.{form}"
        done = CliRunner().invoke(nel, ["report", str(folder), "-f", form, "-o", str(target)])
        assert done.exit_code == 0, done.output
        assert "with these rows as 0 the score is 0.9700" in target.read_text(), form


@pytest.mark.parametrize(
    "raw", [None, [], {}, {"rows": 0}, {"rows": 3}, {"rows": "x", "judged": 3, "score": 1}]
)
def test_what_is_no_entry_is_none(raw: Any) -> None:
    assert read_tampering(raw) is None
