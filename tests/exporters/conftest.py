"""A finished run as it lies on disk: a plain benchmark with a failed row, and an agent's with a conversation."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from nemo_evaluator.core.files import dumps, write_json
from nemo_evaluator.core.types import ModelResponse, ToolCallInfo
from nemo_evaluator.solvers.trajectory import TrajectoryBuilder


def _bundle(name: str, samples: int, **changes: Any) -> dict[str, Any]:
    return {
        "run_id": f"eval-20261115T001802Z-{name}",
        "config_hash": "sha256:aa",
        "sdk_version": "0.5.0",
        "timestamp": "2026-11-15T00:18:02+00:00",
        "validity": {"status": "VALID", "reasons": []},
        "config": {
            "benchmark": name,
            "model": "m-1",
            "base_url": "http://127.0.0.1:1/v1",
            "repeats": 2,
            "max_problems": samples,
            "generation": {"temperature": 0.5, "max_tokens": 64, "unheard_of": 1},
            "solver": {"type": "simple"},
        },
        "benchmark": {
            "name": name,
            "samples": samples,
            "repeats": 2,
            "coverage": {"planned": 4, "scored": 3, "failed": 1, "share": 0.75},
            "truncated_share": 0.25,
            "unparsed_share": 0.0,
            "scores": {
                "pass@1": {
                    "value": 0.5,
                    "ci_lower": 0.1,
                    "ci_upper": 0.9,
                    "ci_method": "wilson",
                    "n": 2,
                },
                "pass@2": {
                    "value": 1.0,
                    "ci_lower": 0.3,
                    "ci_upper": 1.0,
                    "ci_method": "wilson",
                    "n": 2,
                },
                "scorer:strict": {
                    "value": 0.25,
                    "ci_lower": 0.0,
                    "ci_upper": 0.6,
                    "correct": 1,
                    "total": 3,
                },
                "summary": {"mean": 0.5, "n": 3},
                "runtime": {
                    "total_tokens": 90,
                    "elapsed_seconds": 61.5,
                    "latency_percentiles_ms": {"p50": 120.0},
                },
                "failures": {"total_failures": 1, "categories": {}},
            },
            "categories": {},
        },
        "n_results": 4,
        **changes,
    }


def _row(problem: int, repeat: int, **changes: Any) -> dict[str, Any]:
    return {
        "problem_idx": problem,
        "repeat": repeat,
        "status": "scored",
        "reward": 1.0,
        "scorer_rewards": {"scorer:strict": 0.0},
        "prompt": f"question {problem}",
        "model_response": f"answer {problem}.{repeat}",
        "extracted_answer": "4",
        "expected_answer": "4",
        "scoring_details": {"method": "exact"},
        "metadata": {"category": "algebra"},
        "tokens": 30,
        "prompt_tokens": 20,
        "completion_tokens": 10,
        "finish_reason": "stop",
        "latency_ms": 120.0,
        "failure": None,
        "attempts": 1,
        "problem_hash": f"{problem:032x}",
        **changes,
    }


JUDGED: dict[str, Any] = {
    "scorer_rewards": {"scorer:strict": 0.0, "scorer:judge": 0.75},
    "scoring_details": {
        "method": "exact",
        "scorer:judge": {
            "reward": 0.75,
            "reasoning": "the unit is missing",
            "judge_model": "j-1",
            "judge_tokens": 55,
        },
    },
    "cost_usd": 0.002,
}


def agent_trajectory() -> list[dict[str, Any]]:
    """Two turns with one tool call."""
    builder = TrajectoryBuilder(agent="tester")
    builder.message("system", "be brief")
    picture = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{'A' * 400}"}}
    shown = {"type": "image_url", "image_url": {"url": "https://pictures.example/1.png"}}
    builder.message("user", [{"type": "text", "text": "how many files?"}, picture, shown])
    reply = ModelResponse(
        content="", model="m-1", prompt_tokens=9, completion_tokens=4, latency_ms=50.0
    )
    builder.agent(reply, [ToolCallInfo("c1", "bash", {"command": "ls"})])
    builder.observe("c1", "a b c", latency_ms=7.0, is_error=False, source="sandbox")
    builder.agent(
        ModelResponse(content="three", model="m-1", reasoning_content="counted", latency_ms=40.0)
    )
    return cast(Any, builder.finish(status="completed"))


def write_run(
    root: Path, name: str, rows: list[dict[str, Any]], bundle: dict[str, Any] | None = None
) -> Path:
    """Write one task folder."""
    task = root / name
    path = task / f"eval-20261115T001802Z-{name}.json"
    write_json(path, bundle or _bundle(name, 2))
    (task / "results.jsonl").write_bytes(b"".join(dumps(row) + b"\n" for row in rows))
    return path


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    """An output directory with two benchmarks."""
    root = tmp_path / "out"
    failed = {
        "status": "failed",
        "reward": None,
        "failure": {"cause": "transport", "message": "reset"},
    }
    cut = {"finish_reason": "length", "reward": 0.0}
    write_run(
        root, "gsm8k", [_row(0, 0, **JUDGED), _row(0, 1, **cut), _row(1, 0), _row(1, 1, **failed)]
    )
    write_run(root, "agents", [_row(0, 0), _row(0, 1)])
    # The second row's conversation comes first in the file: it is found all the same.
    lines = [{"problem_idx": 0, "repeat": at, "trajectory": agent_trajectory()} for at in (1, 0)]
    (root / "agents" / "trajectories.jsonl").write_bytes(
        b"".join(dumps(line) + b"\n" for line in lines)
    )
    return root


@pytest.fixture
def odd_run(tmp_path: Path) -> Path:
    """Rows as other writers may leave them."""
    call = {"tool_call_id": "1", "function_name": "f", "arguments": "{broken"}
    nothing = dict.fromkeys(
        ("prompt", "model_response", "metadata", "scoring_details", "scorer_rewards", "latency_ms")
    )
    rows = [
        _row(
            0,
            0,
            trajectory=[{"steps": [{"source": "agent", "message": "x", "tool_calls": [call]}]}],
        ),
        _row(1, 0, **nothing),
        _row(
            2,
            0,
            trajectory=["text"],
            expected_answer=["a"],
            prompt=[{"type": "text", "text": "hi"}],
        ),
        _row(3, 0, trajectory=[{"steps": ["no step", {"source": "agent", "tool_calls": [{}]}]}]),
        _row(4, 0, scorer_rewards={"scorer:reward": 0.25}),
        {"problem_idx": 5, "reward": 1},
    ]
    write_run(tmp_path / "odd", "gsm8k", rows)
    with (tmp_path / "odd" / "gsm8k" / "results.jsonl").open("ab") as file:
        file.write(b'{"torn": ')
    return tmp_path / "odd"
