"""``nel check``: each doubt by itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from nemo_evaluator.cli.check import check
from nemo_evaluator.core.errors import NelError
from nemo_evaluator.decisions import RunStatus, check_path
from nemo_evaluator.decisions.findings import FailureClass, Level, RunCheck

GOOD = [1.0] * 60 + [0.0] * 40


def levels(found: RunCheck) -> dict[str, Level]:
    return {finding.check: finding.level for finding in found.findings}


def one(path: Path) -> RunCheck:
    (found,) = check_path(path)
    return found


def test_a_clean_run_is_valid(write_run: Any) -> None:
    found = one(write_run("a", GOOD))
    assert (found.status, found.findings) == (RunStatus.VALID, [])


@pytest.mark.parametrize(
    ("cause", "expected"),
    [("judge", FailureClass.JUDGE), ("transport", FailureClass.INFRA), ("scorer", FailureClass.UNKNOWN)],
)
def test_low_coverage_is_invalid_and_named_by_cause(cause: str, expected: str, write_run: Any, make_rows: Any) -> None:
    rows = make_rows([None] * 20 + GOOD[20:])
    for row in rows[:20]:
        row["failure"] = {"cause": cause, "message": "x"}
    found = one(write_run("a", rows=rows))
    assert found.status is RunStatus.INVALID
    assert found.failure_class is expected
    assert any(finding.message == f"{cause}: 20" for finding in found.findings)


def test_the_judge_comes_before_the_network(write_run: Any, make_rows: Any) -> None:
    rows = make_rows([None] * 30 + GOOD[30:])
    rows[0]["failure"] = {"cause": "judge", "message": "x"}
    assert one(write_run("a", rows=rows)).failure_class is FailureClass.JUDGE


def test_a_few_failures_degrade(write_run: Any) -> None:
    found = one(write_run("a", [None, None, *GOOD[2:]]))
    assert found.status is RunStatus.DEGRADED
    assert levels(found)["coverage"] is Level.DEGRADED


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"finish_reason": "length"}, "truncated"),
        ({"unparsed": True}, "unparsed"),
        ({"model_response": "I cannot"}, "refusals"),
    ],
)
def test_shares_of_answers(change: dict[str, Any], name: str, write_run: Any, make_rows: Any) -> None:
    few, many = make_rows(GOOD), make_rows(GOOD)
    few[0] |= change
    for row in many[:30]:
        row |= change
    assert levels(one(write_run("a", rows=few)))[name] is Level.NOTE
    assert levels(one(write_run("b", rows=many)))[name] is Level.DEGRADED


def test_accounting(write_run: Any, make_rows: Any) -> None:
    rows = make_rows(GOOD)
    twice = one(write_run("a", rows=[*rows, rows[3]], n_results=100))
    assert twice.status is RunStatus.DEGRADED
    assert "came twice" in twice.findings[0].message
    lost = write_run("b", GOOD)
    lines = (lost / "results.jsonl").read_text().splitlines(keepends=True)
    (lost / "results.jsonl").write_text("".join(lines[:-1]))
    found = one(lost)
    assert found.status is RunStatus.INVALID
    assert found.failure_class is FailureClass.ACCOUNTING


def test_uneven_repeats_and_equal_problems(write_run: Any, make_rows: Any) -> None:
    rows = make_rows([[1.0, 0.0]] * 50)
    found = one(write_run("a", rows=rows[:-1]))
    assert levels(found)["repeats"] is Level.DEGRADED
    same = make_rows(GOOD, problem_hash="ab" * 16)
    assert "99 problems have the content of another" in one(write_run("b", rows=same)).findings[0].message


def test_a_score_that_the_rows_do_not_give_is_invalid(write_run: Any) -> None:
    folder = write_run("a", GOOD)
    path = next(folder.glob("eval-*.json"))
    document = json.loads(path.read_text())
    document["benchmark"]["scores"]["pass@1"]["value"] = 0.9
    path.write_text(json.dumps(document))
    assert levels(one(folder))["score"] is Level.INVALID
    del document["benchmark"]["scores"]["pass@1"]
    path.write_text(json.dumps(document))
    assert levels(one(folder))["score"] is Level.INVALID


def test_unfinished_runs(write_run: Any) -> None:
    cut = one(write_run("a", GOOD, stopped={"kind": "interrupt", "reason": "Ctrl-C"}))
    assert (cut.status, cut.failure_class) == (RunStatus.INVALID, FailureClass.INFRA)
    ruled = one(write_run("b", GOOD, stopped={"kind": "rule", "reason": "narrow enough"}))
    assert ruled.status is RunStatus.VALID
    assert one(write_run("c", [])).status is RunStatus.INVALID


def test_slow_answers_odd_ends_and_drift_are_noted(write_run: Any, make_rows: Any) -> None:
    rows = make_rows(GOOD)
    rows[0] |= {"latency_ms": 99_000.0, "finish_reason": "content_filter"}
    folder = write_run("a", rows=rows)
    sessions = [{"kind": "run", "fingerprints": {"solver": "x"}}, {"kind": "run", "fingerprints": {"solver": "y"}}]
    (folder / "journal.jsonl").write_text("".join(json.dumps(s, separators=(",", ":")) + "\n" for s in sessions))
    found = one(folder)
    assert {"latency", "finish_reasons", "config"} <= set(levels(found))
    assert found.status is RunStatus.VALID


def run(*arguments: object) -> Any:
    return CliRunner().invoke(check, [str(argument) for argument in arguments])


def test_command(write_run: Any, tmp_path: Path) -> None:
    assert run(write_run("good", GOOD)).exit_code == 0
    degraded = write_run("so-so", [None, None, *GOOD[2:]])
    result = run(degraded)
    assert result.exit_code == 2
    assert result.stdout.startswith("DEGRADED  toy (INFRA_TRANSIENT): 100 rows")
    assert run(degraded, "--no-strict").exit_code == 0
    invalid = write_run("bad", [None] * 50 + GOOD[50:])
    assert run(invalid, "--no-strict").exit_code == 3
    document = json.loads(run(invalid, "--json").stdout)
    assert document["status"] == "INVALID"
    assert document["benchmarks"][0]["failure_class"] == "INFRA_TRANSIENT"
    (tmp_path / "empty").mkdir()
    nothing = run(tmp_path / "empty")
    assert isinstance(nothing.exception, NelError)
    assert "USER_CONFIG_ERROR" in str(nothing.exception)
