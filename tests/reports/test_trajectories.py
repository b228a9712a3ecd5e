"""Trajectories against the wire: enriched where they can be, and a report on whether both agree."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nemo_evaluator.core.files import dumps, iter_jsonl
from nemo_evaluator.reports import write_trajectories_report
from nemo_evaluator.solvers.trajectory import single_turn
from nemo_evaluator.testing import validate_trajectory


def _call(
    problem: int, session: str = "s1", status: int | None = 200, **more: Any
) -> dict[str, Any]:
    return {
        "timestamp": "2026-11-15T00:18:02.512Z",
        "problem_idx": problem,
        "repeat": 0,
        "session_id": session,
        "status_code": status,
        "latency_ms": 33.0,
        "model": "wire-model",
        "finish_reason": "stop",
        "usage": {
            "prompt_tokens": 7,
            "completion_tokens": 3,
            "total_tokens": 10,
            "cached_tokens": 2,
        },
        **more,
    }


def _row(problem: int, **changes: Any) -> dict[str, Any]:
    stored = {"model": "m", "prompt_tokens": 7, "completion_tokens": 3}
    row = {"problem_idx": problem, "repeat": 0, "reward": 1.0, "failure_category": None}
    return row | {"trajectory": single_turn("2+2?", "four", stored)} | changes


@pytest.fixture
def task(write_task: Any, bundle_of: Any) -> Path:
    return Path(write_task(bundle_of())).parent


def _write(
    task: Path, rows: list[dict[str, Any]], calls: list[dict[str, Any]] | None
) -> dict[str, Any]:
    (task / "trajectories.jsonl").write_bytes(b"".join(dumps(row) + b"\n" for row in rows))
    if calls is not None:
        (task / "model_traffic.jsonl").write_bytes(b"".join(dumps(call) + b"\n" for call in calls))
    write_trajectories_report(task.parent)
    report: dict[str, Any] = json.loads((task.parent / "trajectories_report.json").read_text())
    (entry,) = report["benchmarks"]
    return dict(entry)


def test_a_step_gets_what_the_wire_knows_and_keeps_what_it_had(task: Path) -> None:
    entry = _write(task, [_row(0), _row(1)], [_call(1), _call(0)])
    rows = list(iter_jsonl(task / "trajectories_enriched.jsonl"))
    assert [row["problem_idx"] for row in rows] == [0, 1]
    step = rows[0]["trajectory"][0]["steps"][-1]
    assert (step["timestamp"], step["model_name"]) == ("2026-11-15T00:18:02.512Z", "m")
    assert step["metrics"]["extra"] == {
        "total_tokens": 10,
        "cached_tokens": 2,
        "latency_ms": 33.0,
        "finish_reason": "stop",
    }
    assert step["extra"] == {"status_code": 200}
    assert validate_trajectory(rows[0]["trajectory"][0], strict=True) == []
    assert entry["enrichment"]["trials_spliced_1_to_1"] == 2
    assert entry["enrichment"]["steps_backfilled"]["timestamp"] == 2
    assert entry["tokens_stats"]["all_sources_match"] is True


def test_only_the_last_session_and_answered_calls_count(task: Path) -> None:
    calls = [
        _call(0, "s1"),
        _call(0, "s2", 500, error_message="boom"),
        _call(0, "s2"),
        _call(0, "s2", None, error_type="Reset"),
    ]
    entry = _write(task, [_row(0)], calls)
    wire = entry["wire_calls"]
    assert [wire[name] for name in ("total", "successful", "non_200", "earlier_sessions")] == [
        3,
        1,
        2,
        1,
    ]
    assert [wire[f"{name}_all_sessions"] for name in ("total", "successful", "non_200")] == [
        4,
        2,
        2,
    ]
    assert (
        wire["non_200_by_status"]
        == wire["non_200_by_status_all_sessions"]
        == {"500": 1, "Reset": 1}
    )
    assert wire["non_200_examples"][0] == {
        "problem_idx": 0,
        "repeat": 0,
        "service": None,
        "status": 500,
        "error": "boom",
    }
    assert wire["retry_examples"] == [{"problem_idx": 0, "repeat": 0, "sessions": 2, "calls": 4}]
    assert (
        wire["steps_with_retry_sessions"],
        wire["retry_sessions"],
        wire["problems_with_retry_sessions"],
    ) == (
        1,
        1,
        1,
    )
    assert wire["problems_with_last_wire_non_200"] == 1
    assert list(wire["non_success_examples"]) == ["500", "Reset"]
    assert list(wire["last_non_success_examples"]) == ["Reset"]
    assert entry["tokens_stats"]["wire_total_earlier_retry_sessions"] == 10
    assert entry["tokens_stats"]["wire_total_all_sessions"] == 20
    assert entry["enrichment"]["trials_spliced_1_to_1"] == 1


def test_calls_of_a_judge_are_not_the_trajectory(task: Path) -> None:
    path = next(task.glob("eval-*.json"))
    bundle = json.loads(path.read_text())
    bundle["config"]["service"] = "model"
    path.write_text(json.dumps(bundle))
    calls = [
        _call(0, service="model"),
        _call(0, service="judge"),
        _call(0, status=500, service="judge"),
    ]
    entry = _write(task, [_row(0)], calls)
    assert entry["enrichment"]["trials_spliced_1_to_1"] == 1
    tokens, wire = entry["tokens_stats"], entry["wire_calls"]
    assert (tokens["wire_total"], tokens["wire_total_for_trajectory_comparison"]) == (20, 10)
    assert (
        tokens["problems_with_wire_vs_final_metrics_mismatch"],
        tokens["all_sources_match"],
    ) == (0, True)
    assert [
        wire[f"{name}_for_trajectory_comparison"] for name in ("total", "successful", "non_200")
    ] == [1, 1, 0]
    assert wire["non_200"] == 1
    assert wire["problems_with_last_wire_non_200"] == 0


def test_wire_and_steps_are_counted_against_each_other(task: Path) -> None:
    two_turns = _row(2)
    document = two_turns["trajectory"][0]
    document["steps"].append(dict(document["steps"][-1]))
    rows = [
        _row(0),
        _row(0, repeat=1),
        two_turns,
        _row(3, trajectory=[]),
        _row(4, trajectory=[]),
        _row(5),
    ]
    calls = [
        *(_call(0, request_hash=digest) for digest in ("a", "a", "b")),
        _call(0, request_hash="c") | {"repeat": 1},
        _call(2, request_hash="d"),
        _call(3, request_hash="e"),
    ]
    wire = _write(task, rows, calls)["wire_calls"]
    assert {
        name: count for name, count in wire.items() if name.startswith(("problems", "unique"))
    } == {
        "unique": 5,
        "problems_with_duplicates": 1,
        "problems_with_retry_sessions": 0,
        "problems_with_more_wire_than_steps": 2,
        "problems_with_fewer_wire_than_steps": 1,
        "problems_with_no_steps": 2,
        "problems_with_no_wire": 2,
        "problems_silent": 1,
        "problems_with_last_wire_non_200": 0,
    }


def test_examples_of_errors_are_few_and_counted(task: Path) -> None:
    calls = [_call(at, status=429, error_type="rate", error_message="x" * 900) for at in range(7)]
    wire = _write(task, [_row(at, trajectory=[]) for at in range(7)], calls)["wire_calls"]
    assert len(wire["non_200_examples"]) == 1
    assert len(wire["non_success_examples"]["rate"]["examples"]) == 5
    assert wire["non_success_examples"]["rate"]["omitted_examples"] == 2
    assert len(wire["non_200_examples"][0]["error"]) == 500


def _turns(problem: int, *tokens: tuple[int | None, int | None], **changes: Any) -> dict[str, Any]:
    """A row whose turns have these prompt and completion tokens."""
    row = _row(problem, **changes)
    document = row["trajectory"][0]
    agent = document["steps"].pop()
    for prompt, completion in tokens:
        known = {"prompt_tokens": prompt, "completion_tokens": completion}
        metrics = {name: count for name, count in known.items() if count is not None}
        document["steps"].append(agent | {"metrics": metrics})
    return row


def test_turns_without_tokens_and_without_metrics(task: Path) -> None:
    rows = [
        _turns(0, (7, 3), (12, 2)),
        # The conversation did not grow and nothing was said: the second turn is empty, the third is not.
        _turns(1, (7, 3), (7, 0), (9, 0)),
        _turns(2, (0, 0), (0, 0)),
        _turns(3, (7, None), (9, 1)),
        # A context that was cut is smaller than before, and is no empty turn.
        _turns(4, (9, 1), (5, 0)),
    ]
    told = _write(task, rows, None)["trajectories"]
    assert told["quality"] == {
        "clean_problems": 2,
        "dirty_problems": 3,
        "fully_zero_problems": 1,
        "problems_with_zero_token_turns": 2,
        "problems_with_missed_metrics": 1,
        "total_zero_token_turns": 3,
        "total_missed_metrics": 1,
    }


def test_totals_of_turns_are_numbers_even_if_they_are_0(task: Path) -> None:
    quality = _write(task, [_turns(0, (7, 3))], None)["trajectories"]["quality"]
    totals = [quality["total_zero_token_turns"], quality["total_missed_metrics"]]
    assert [repr(total) for total in totals] == ["0", "0"]


def test_steps_that_say_less_or_more_than_the_total(task: Path) -> None:
    rows = [_turns(0, (7, 3)), _turns(1, (7, 1)), _turns(2, (9, 3))]
    tokens = _write(task, rows, [_call(at) for at in range(3)])["tokens_stats"]
    assert (tokens["per_step_sum"], tokens["final_metrics_total"], tokens["wire_total"]) == (
        30,
        30,
        30,
    )
    assert tokens["problems_with_per_step_vs_final_metrics_mismatch"] == 2
    assert tokens["all_sources_match"] is False


def test_traffic_that_was_lost_is_no_match(task: Path) -> None:
    entry = _write(task, [_row(0), _row(1)], [_call(0)])
    assert entry["tokens_stats"]["all_sources_match"] is False
    assert entry["tokens_stats"]["problems_with_wire_vs_final_metrics_mismatch"] == 0
    assert entry["wire_calls"]["problems_with_no_wire"] == 1


def test_missing_and_empty_fields_are_told_apart(task: Path) -> None:
    silent = _row(1, prompt="")
    silent["trajectory"][0]["steps"][-1]["message"] = ""
    del silent["trajectory"][0]["final_metrics"]
    entry = _write(task, [_row(0, prompt="q", timing={"total_ms": 3}), silent], None)
    coverage = entry["trajectories"]["field_coverage"]
    assert {"field": "prompt", "presence": "2/2", "empty": 1} in coverage["per_trial_missing"]
    assert {"field": "timing", "presence": "1/2"} in coverage["per_trial_missing"]
    assert {"field": "message", "presence": "2/2", "empty": 1} in coverage["per_agent_step_missing"]
    silent["trajectory"][0]["steps"][-1]["tool_calls"] = [
        {"tool_call_id": "c1", "function_name": "f", "arguments": {}}
    ]
    calling = _write(task, [silent], None)["trajectories"]["field_coverage"][
        "per_agent_step_missing"
    ]
    assert "message" not in [entry["field"] for entry in calling]
    assert entry["trajectories"]["problems_with_empty_final_response"] == 1
    assert entry["tokens_stats"]["problems_with_missing_final_metrics_tokens"] == 1


def test_a_row_that_does_not_say_why_is_explained_by_the_wire(task: Path) -> None:
    rows = [
        _row(0, reward=0.0, trajectory=[]),
        _row(1, reward=None, failure_category="judge", trajectory=[]),
        _row(2, reward=1.0),
        _row(3, reward=0.0),
        _row(4, reward=None, failure_category="model_error", trajectory=[]),
    ]
    calls = [_call(at, status=429) for at in range(3)] + [_call(3), _call(4, status=None)]
    entry = _write(task, rows, calls)
    found = [row["failure_category"] for row in iter_jsonl(task / "trajectories_enriched.jsonl")]
    assert found == ["rate_limit", "judge", None, None, "transport"]
    assert entry["enrichment"]["rows_reclassified_from_wire_failure"] == 2


def test_enriching_says_what_is_better_afterwards(task: Path) -> None:
    bare = _row(0)
    bare["trajectory"][0]["steps"][-1].pop("metrics")
    entry = _write(task, [bare], [_call(0)])
    assert entry["trajectories"]["quality"]["problems_with_missed_metrics"] == 1
    after = entry["enrichment"]
    assert (after["quality"]["clean_problems"], after["per_step_sum_after_enrichment"]) == (1, 10)
    assert after["step_field_coverage_after_enrichment_missing"] == []
    assert after["steps_backfilled"]["prompt_tokens"] == 1
    assert after["steps_backfilled"]["reasoning_content"] == 0


def test_a_line_torn_by_a_kill_is_counted_and_left_out(task: Path) -> None:
    (task / "trajectories.jsonl").write_bytes(dumps(_row(0)) + b"\n")
    whole = dumps(_call(0))
    (task / "model_traffic.jsonl").write_bytes(
        whole[:40] + whole + b"\n" + whole + b"\n" + whole[:30]
    )
    write_trajectories_report(task.parent)
    (entry,) = json.loads((task.parent / "trajectories_report.json").read_text())["benchmarks"]
    assert (entry["wire_calls"]["total"], entry["wire_calls"]["unreadable_lines"]) == (1, 2)


def test_calls_that_match_no_step_are_kept_also_without_a_trajectory(task: Path) -> None:
    rows = [_row(0), _row(1, trajectory=[]), _row(2)]
    entry = _write(task, rows, [_call(0), _call(0), _call(1)])
    enriched = list(iter_jsonl(task / "trajectories_enriched.jsonl"))
    assert len(enriched[0]["trajectory"][0]["extra"]["captured_model_calls"]) == 2
    assert len(enriched[1]["captured_model_calls"]) == 1
    assert entry["enrichment"]["trials_with_unmatched_calls_stashed"] == 2
    assert entry["enrichment"]["trials_with_no_wire_data"] == 1
    assert entry["tokens_stats"]["all_sources_match"] is False


def test_tool_calls_come_from_the_wire_once(task: Path) -> None:
    made = [
        {"id": "c1", "name": "bash", "arguments": {"command": "ls"}},
        {"id": "c2", "name": "x", "arguments": "{bad"},
    ]
    _write(task, [_row(0)], [_call(0, tool_calls_full=made)])
    (row,) = iter_jsonl(task / "trajectories_enriched.jsonl")
    document = row["trajectory"][0]
    assert [call["arguments"] for call in document["steps"][-1]["tool_calls"]] == [
        {"command": "ls"},
        {"raw": "{bad"},
    ]
    assert validate_trajectory(document, strict=True) == []


def test_without_traffic_there_is_a_report_and_no_claim(task: Path) -> None:
    rows = [
        _row(0),
        _row(1, failure_category="judge", reward=None, model_error="no verdict"),
        _row(1, repeat=1, trajectory=[]),
        _row(
            2,
            failure_category="transport",
            reward=None,
            failure={"message": "not done within 3 s (timeouts.total)"},
        ),
    ]
    entry = _write(task, rows, None)
    assert not (task / "trajectories_enriched.jsonl").exists()
    told = entry["trajectories"]
    assert (told["problems"], told["repeats"], told["mean_reward"]) == (3, {"1": 2, "2": 1}, 1.0)
    assert told["failures_by_category"] == {"judge": 1, "transport": 1}
    late = {"problem_idx": 2, "repeat": 0, "error": "not done within 3 s (timeouts.total)"}
    assert told["failure_examples"] == [
        {"problem_idx": 1, "repeat": 0, "category": "judge", "error": "no verdict"},
        late | {"category": "transport"},
    ]
    assert told["timeout_examples"] == [late]
    assert told["no_agent_step_examples"] == [{"problem_idx": 1, "repeat": 1}]
    assert told["field_coverage"]["per_agent_step_missing"][0] == {
        "field": "timestamp",
        "presence": "0/3",
    }
    assert entry["tokens_stats"]["all_sources_match"] is None


def test_enriching_can_be_turned_off(task: Path) -> None:
    (task / "trajectories.jsonl").write_bytes(dumps(_row(0)) + b"\n")
    (task / "model_traffic.jsonl").write_bytes(dumps(_call(0)) + b"\n")
    written = write_trajectories_report(task.parent, enrich=False)
    assert [path.name for path in written] == ["trajectories_report.json"]
