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
from nemo_evaluator.decisions.check.findings import FailureClass, Level, RunCheck
from nemo_evaluator.store.sealed import seal

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
    [
        ("judge", FailureClass.JUDGE),
        ("auth", FailureClass.CONFIG),
        ("rate_limit", FailureClass.INFRA),
        ("transport", FailureClass.INFRA),
        ("sandbox", FailureClass.INFRA),
        ("scorer", FailureClass.UNKNOWN),
        ("made_up", FailureClass.UNKNOWN),
    ],
)
def test_low_coverage_is_invalid_and_named_by_cause(
    cause: str, expected: str, write_run: Any, make_rows: Any
) -> None:
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
def test_shares_of_answers(
    change: dict[str, Any], name: str, write_run: Any, make_rows: Any
) -> None:
    few, many = make_rows(GOOD), make_rows(GOOD)
    few[-1] |= change
    for row in many[-30:]:
        row |= change
    assert levels(one(write_run("a", rows=few)))[name] is Level.NOTE
    assert levels(one(write_run("b", rows=many)))[name] is Level.DEGRADED


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model_response": ""}, "all answers are empty"),
        ({"finish_reason": "length"}, "all answers are cut off, and none is right"),
        ({"model_response": "", "label": "context_exceeded"}, "no prompt fits the context"),
    ],
)
def test_a_run_without_a_usable_answer_is_invalid(
    change: dict[str, Any], message: str, write_run: Any, make_rows: Any
) -> None:
    rows = make_rows([0.0] * 50)
    for row in rows:
        row |= change
    found = one(write_run("a", rows=rows))
    assert found.status is RunStatus.INVALID
    assert message in [finding.message for finding in found.findings]
    rows[0] |= {"model_response": "4", "finish_reason": "stop", "label": None}
    assert one(write_run("b", rows=rows)).status is RunStatus.DEGRADED


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
    messages = [finding.message for finding in found.findings]
    assert messages[0] == "the bundle counts 100 rows, the file holds 99"
    assert messages[1] == "1 of 100 planned steps have no row"
    more = one(write_run("c", GOOD, n_results=99))
    assert (more.status, more.findings[0].message) == (
        RunStatus.INVALID,
        "the bundle counts 99 rows, the file holds 100",
    )
    torn = write_run("d", GOOD)
    with (torn / "results.jsonl").open("a") as file:
        file.write("torn\n")
    (finding,) = one(torn).findings
    assert (finding.level, finding.message) == (Level.DEGRADED, "1 malformed line")


def test_a_note_gives_a_valid_run_no_class(write_run: Any, make_rows: Any) -> None:
    rows = make_rows([[1.0, 0.0]] * 200)
    rows[0] |= {"status": "failed", "reward": None, "failure": {"cause": "judge", "message": "x"}}
    found = one(write_run("a", rows=rows))
    assert (found.status, found.failure_class) == (RunStatus.VALID, None)
    assert {finding.failure_class for finding in found.findings} == {FailureClass.JUDGE}


def test_uneven_repeats_and_equal_problems(write_run: Any, make_rows: Any) -> None:
    rows = make_rows([[1.0, 0.0]] * 50)
    found = one(write_run("a", rows=rows[:-1]))
    assert levels(found)["repeats"] is Level.DEGRADED
    same = make_rows(GOOD, problem_hash="ab" * 16)
    assert (
        "99 problems have the content of another"
        in one(write_run("b", rows=same)).findings[0].message
    )


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
    sessions = [
        {"kind": "run", "fingerprints": {"solver": "x"}},
        {"kind": "run", "fingerprints": {"solver": "y"}},
    ]
    (folder / "journal.jsonl").write_text(
        "".join(json.dumps(s, separators=(",", ":")) + "\n" for s in sessions)
    )
    found = one(folder)
    assert {"latency", "finish_reasons", "config"} <= set(levels(found))
    assert found.status is RunStatus.VALID


@pytest.mark.parametrize(
    ("change", "name", "share"),
    [
        (
            {"label": "context_exceeded", "model_response": ""},
            "context",
            "30.0% of the prompts do not fit",
        ),
        ({"label": "budget"}, "budget", "30.0% of the tasks ran out"),
        ({"model_response": " \n"}, "empty", "30.0% of the answers are empty"),
        ({"model_response": "<think>so many words"}, "reasoning", "30.0% of the answers hold half"),
        (
            {"model_response": "so many words</think>4"},
            "reasoning",
            "30.0% of the answers hold half",
        ),
    ],
)
def test_answers_that_could_not_be_right(
    change: dict[str, Any], name: str, share: str, write_run: Any, make_rows: Any
) -> None:
    few, many = make_rows(GOOD), make_rows(GOOD)
    few[-1] |= change
    for row in many[-30:]:
        row |= change
    assert levels(one(write_run("a", rows=few))) == {name: Level.NOTE}
    (finding,) = one(write_run("b", rows=many)).findings
    assert (finding.check, finding.level) == (name, Level.DEGRADED)
    assert finding.message.startswith(share)
    assert finding.message.endswith("(limit 5%)")


def test_what_looks_bad_and_is_not(write_run: Any, make_rows: Any) -> None:
    whole = make_rows(GOOD, model_response="<think>so</think>4")
    assert levels(one(write_run("a", rows=whole))) == {"reasoning": Level.NOTE}
    # An agent that leaves its work in files; an answer that the token limit cut inside its reasoning.
    silent = make_rows(GOOD, model_response="", trajectory=[{"steps": []}])
    assert one(write_run("b", rows=silent)).findings == []
    cut = make_rows(GOOD, model_response="<think>so", finish_reason="length")
    assert levels(one(write_run("c", rows=cut))) == {"truncated": Level.DEGRADED}
    # Refusing, or saying nothing, may be what was asked for.
    for text in ("I cannot help with that", ""):
        assert one(write_run("f", rows=make_rows([1.0] * 50, model_response=text))).findings == []
    failed = make_rows([None, *GOOD[1:]], model_response="")
    assert "empty" in levels(one(write_run("d", rows=failed)))
    failed = [row | ({} if row["reward"] is None else {"model_response": "x"}) for row in failed]
    assert "empty" not in levels(one(write_run("e", rows=failed)))


def test_a_shard_is_not_taken_for_the_benchmark(write_run: Any) -> None:
    part = {"shard": {"idx": 0, "total": 3, "range": [0, 100]}}
    (finding,) = one(write_run("a", GOOD, config=part)).findings
    assert finding.message.startswith("part 1 of 3, not the whole benchmark")
    assert one(write_run("b", GOOD, config={"n_shards": 3})).findings == []


def test_many_retries_are_noted(write_run: Any, make_rows: Any) -> None:
    found = one(write_run("a", rows=make_rows(GOOD, attempts=3)))
    assert (found.status, found.findings[0].message) == (
        RunStatus.VALID,
        "100.0% of the steps were tried more than once",
    )


def test_metrics_of_another_harness_are_a_score(write_run: Any, make_rows: Any) -> None:
    folder = write_run("a", GOOD)
    path = next(folder.glob("eval-*.json"))
    document = json.loads(path.read_text())
    document["benchmark"]["scores"] = {"symbolic_correct": {"value": 61.5}}
    path.write_text(json.dumps(document))
    assert one(folder).status is RunStatus.VALID
    document["benchmark"]["scores"] = {"pass@1": {"value": None}, "latency": {"value": 3.0}}
    path.write_text(json.dumps(document))
    assert levels(one(folder))["score"] is Level.INVALID


def test_rows_that_cannot_be_read_are_a_finding(write_run: Any) -> None:
    folder = write_run("a", GOOD)
    (folder / "results.jsonl").write_text("torn\n" * 50)
    found = one(folder)
    assert (found.status, found.failure_class) == (RunStatus.INVALID, FailureClass.ACCOUNTING)


def test_no_problems_is_a_matter_of_the_config(write_run: Any) -> None:
    empty = {"planned": 0, "scored": 0, "failed": 0, "share": 0.0}
    folder = write_run("a", [])
    path = next(folder.glob("eval-*.json"))
    document = json.loads(path.read_text())
    document["benchmark"]["coverage"] = empty
    path.write_text(json.dumps(document))
    assert one(folder).failure_class is FailureClass.CONFIG


def test_the_error_that_stopped_a_run_gives_its_class(write_run: Any) -> None:
    cut = one(
        write_run("a", GOOD, stopped={"kind": "error", "reason": "HTTP 401", "cause": "auth"})
    )
    assert cut.failure_class is FailureClass.CONFIG


def test_a_server_that_ran_out_of_memory_is_named(write_run: Any) -> None:
    folder = write_run("run/toy", GOOD)
    log = folder.parent / "logs" / "server-m.log"
    log.parent.mkdir()
    log.write_text("ready\nERROR torch.OutOfMemoryError: CUDA out of memory\n")
    (finding,) = one(folder.parent).findings
    assert (finding.check, finding.level) == ("server", Level.NOTE)
    assert finding.message == "server-m.log: ERROR torch.OutOfMemoryError: CUDA out of memory"


def test_benchmarks_without_a_bundle_are_not_overlooked(write_run: Any, tmp_path: Path) -> None:
    write_run("run/toy", GOOD)
    run = tmp_path / "run"
    state = {
        "planned_benchmarks": ["toy", "a/b", "busy", "later"],
        "completed_benchmarks": {"toy": {}},
        "failed_benchmarks": {"a/b": {"error": "HTTP 401: bad key", "cause": "auth"}},
    }
    (run / "checkpoint.json").write_text(json.dumps(state))
    for task in ("busy", "a_b", "previous/old", "unknown"):
        (run / task).mkdir(parents=True)
        (run / task / "journal.jsonl").touch()
    found = {check.benchmark: check for check in check_path(run)}
    assert list(found) == ["toy", "a/b", "busy", "later", "unknown"]
    assert {
        name: check.status for name, check in found.items() if check.status is RunStatus.VALID
    } == {"toy": RunStatus.VALID}
    assert (found["a/b"].failure_class, found["busy"].failure_class) == (
        FailureClass.CONFIG,
        FailureClass.INFRA,
    )
    assert found["a/b"].findings[0].message == "HTTP 401: bad key"
    assert "still running" in found["busy"].findings[0].message
    assert "never started" in found["later"].findings[0].message
    # A folder that is pointed at asks the run it belongs to.
    assert one(run / "a_b").findings[0].message == "HTTP 401: bad key"
    (run / "checkpoint.json").write_text("torn")
    assert "still running" in one(run / "a_b").findings[0].message


def test_shards_that_were_merged_are_the_business_of_the_merge(
    write_run: Any, tmp_path: Path
) -> None:
    for shard in ("shard_0", "shard_1"):
        (tmp_path / "run" / shard / "toy").mkdir(parents=True)
        (tmp_path / "run" / shard / "toy" / "journal.jsonl").touch()
    assert [check.status for check in check_path(tmp_path / "run")] == [RunStatus.INVALID] * 2
    write_run("run/toy", GOOD)
    assert one(tmp_path / "run").status is RunStatus.VALID


def run(*arguments: object) -> Any:
    return CliRunner().invoke(check, [str(argument) for argument in arguments])


def test_command(write_run: Any, tmp_path: Path) -> None:
    assert run(write_run("good", GOOD)).exit_code == 0
    degraded = write_run("so-so", [None, None, *GOOD[2:]])
    result = run(degraded)
    assert result.exit_code == 2
    assert result.stdout.startswith("DEGRADED  toy (INFRA_TRANSIENT): 100 problems")
    assert run(degraded, "--no-strict").exit_code == 0
    invalid = write_run("bad", [None] * 50 + GOOD[50:])
    assert run(invalid, "--no-strict").exit_code == 3
    document = json.loads(run(invalid, "--json").stdout)
    assert document["status"] == "INVALID"
    assert document["benchmarks"][0]["failure_class"] == "INFRA_TRANSIENT"
    several = run(tmp_path)
    assert several.stdout.endswith("3 benchmarks: 1 VALID, 1 DEGRADED, 1 INVALID\n")
    (tmp_path / "empty").mkdir()
    nothing = run(tmp_path / "empty")
    assert isinstance(nothing.exception, NelError)
    assert "USER_CONFIG_ERROR" in str(nothing.exception)


@pytest.mark.parametrize(
    ("flag", "change"),
    [
        ("--max-truncated", {"finish_reason": "length"}),
        ("--max-unparsed", {"unparsed": True}),
        ("--max-refusals", {"model_response": "I cannot do that"}),
        (
            "--max-failed",
            {"status": "failed", "reward": None, "failure": {"cause": "seed", "message": "x"}},
        ),
    ],
)
def test_every_limit_can_be_moved(
    flag: str, change: dict[str, Any], write_run: Any, make_rows: Any
) -> None:
    rows = make_rows(GOOD)
    for row in rows[-4:]:
        row |= change
    folder = write_run("a", rows=rows)
    assert run(folder, flag, 0.05).exit_code == 0
    assert run(folder, flag, 0.03).exit_code == 2


def test_names_and_messages_cannot_move_the_cursor(write_run: Any) -> None:
    folder = write_run(
        "a", GOOD, name="toy", stopped={"kind": "error", "reason": "\x1b[2J\nVALID  fake: 1 row"}
    )
    assert "\x1b" not in run(folder).stdout
    assert "\nVALID" not in run(folder).stdout


def _tampered(rows: list[dict[str, Any]], count: int) -> list[dict[str, Any]]:
    for row in rows[:count]:
        row |= {
            "status": "failed",
            "reward": None,
            "failure": {"cause": "tamper", "message": "left by os._exit"},
        }
    return rows


def test_forged_rows_are_named_and_counted_as_zero(write_run: Any, make_rows: Any) -> None:
    found = one(write_run("a", rows=_tampered(make_rows(GOOD), 4)))
    assert found.status is RunStatus.INVALID
    (tamper,) = [finding for finding in found.findings if finding.check == "tamper"]
    assert "4 of 100 rows" in tamper.message and "0.5600" in tamper.message


def test_a_damaged_record_of_the_journal_is_named(write_run: Any) -> None:
    folder = write_run("a", GOOD)
    lines = [
        seal({"kind": "answer", "problem_idx": number, "repeat": 0, "content": f"answer {number}"})[
            0
        ]
        for number in range(8)
    ]
    journal = folder / "journal.jsonl"
    journal.write_bytes(b"".join(lines))
    assert one(folder).status is RunStatus.VALID
    for number in (3, 5):
        lines[number] = lines[number].replace(b"answer %d" % number, b"answer 9")
    journal.write_bytes(b"".join(lines))
    found = one(folder)
    assert found.status is RunStatus.DEGRADED
    (reason,) = found.reasons
    assert f"{journal}, line 4: damaged answer (problem 3, repeat 0)" in reason
    assert "line 6" in reason and "nel eval resume" in reason
