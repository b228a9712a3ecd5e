"""Trajectories against the wire: enriched where they can be, and a report on whether both agree."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nemo_evaluator.core.files import dumps, iter_jsonl
from nemo_evaluator.core.types import ModelResponse
from nemo_evaluator.reports import write_trajectories_report
from nemo_evaluator.solvers.trajectory import single_turn, validate_trajectory


def _call(problem: int, session: str = "s1", status: int | None = 200, **more: Any) -> dict[str, Any]:
    return {
        "timestamp": "2026-11-15T00:18:02.512Z",
        "problem_idx": problem,
        "repeat": 0,
        "session_id": session,
        "status_code": status,
        "latency_ms": 33.0,
        "model": "wire-model",
        "finish_reason": "stop",
        "usage": {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10, "cached_tokens": 2},
        **more,
    }


def _row(problem: int, **changes: Any) -> dict[str, Any]:
    reply = ModelResponse(content="four", model="m", prompt_tokens=7, completion_tokens=3)
    row = {"problem_idx": problem, "repeat": 0, "reward": 1.0, "failure_category": None}
    return row | {"trajectory": single_turn("2+2?", reply)} | changes


@pytest.fixture
def task(write_task: Any, bundle_of: Any) -> Path:
    return Path(write_task(bundle_of())).parent


def _write(task: Path, rows: list[dict[str, Any]], calls: list[dict[str, Any]] | None) -> dict[str, Any]:
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
    assert entry["wire_calls"]["total"] == 3
    assert entry["wire_calls"]["successful"] == 1
    assert entry["wire_calls"]["earlier_sessions"] == 1
    assert entry["wire_calls"]["non_200_by_status"] == {"500": 1, "Reset": 1}
    assert entry["wire_calls"]["non_200_examples"][0] == {"problem_idx": 0, "repeat": 0, "status": 500, "error": "boom"}
    assert entry["tokens_stats"]["wire_total_earlier_retry_sessions"] == 10
    assert entry["enrichment"]["trials_spliced_1_to_1"] == 1


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
    assert [call["arguments"] for call in document["steps"][-1]["tool_calls"]] == [{"command": "ls"}, {"raw": "{bad"}]
    assert validate_trajectory(document, strict=True) == []


def test_without_traffic_there_is_a_report_and_no_claim(task: Path) -> None:
    rows = [
        _row(0),
        _row(1, failure_category="judge", reward=None, model_error="no verdict"),
        _row(1, repeat=1, trajectory=[]),
    ]
    entry = _write(task, rows, None)
    assert not (task / "trajectories_enriched.jsonl").exists()
    told = entry["trajectories"]
    assert (told["problems"], told["repeats"], told["mean_reward"]) == (2, {"1": 1, "2": 1}, 1.0)
    assert told["failures_by_category"] == {"judge": 1}
    assert told["failure_examples"] == [{"problem_idx": 1, "repeat": 0, "error": "no verdict"}]
    assert told["no_agent_step_examples"] == [{"problem_idx": 1, "repeat": 1}]
    assert told["field_coverage"]["per_agent_step_missing"][0] == {"field": "timestamp", "presence": "0/2"}
    assert entry["tokens_stats"]["all_sources_match"] is None


def test_enriching_can_be_turned_off(task: Path) -> None:
    (task / "trajectories.jsonl").write_bytes(dumps(_row(0)) + b"\n")
    (task / "model_traffic.jsonl").write_bytes(dumps(_call(0)) + b"\n")
    written = write_trajectories_report(task.parent, enrich=False)
    assert [path.name for path in written] == ["trajectories_report.json"]
