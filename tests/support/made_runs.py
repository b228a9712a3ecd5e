"""Runs as nel writes them, made by hand: journal, rows, bundle; and rows that a careless page would obey."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nemo_evaluator.core.files import dumps, write_json
from nemo_evaluator.store.sealed import seal
from nemo_evaluator.store.view_rows import result_row

PICTURE = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAoAAAAKCAIAAAACUFjqAAAAEklEQVR4nGP4z8CAB+GTG8HSALfK"
    "Y52fTcuYAAAAAElFTkSuQmCC"
)
MARKDOWN = "# Working\n\nFirst **add** them:\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n```\nprint(1 + 2)\n```\n\nSo it is `{}`."


def records(at: int, repeat: int = 0, **changes: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The answer and the outcome of a step; ``changes`` go to both."""
    right = changes.pop("right", at % 3 != 0)
    answer = {
        "kind": "answer",
        "problem_idx": at,
        "repeat": repeat,
        "fp": f"{at:08x}",
        "at": 1_700_000_000.0 + at,
        "problem_hash": f"{at + 1:032x}",
        "messages": [
            {"role": "system", "content": "Answer with one number."},
            {"role": "user", "content": f"What is {at} + 2?"},
        ],
        "expected_answer": str(at + 2),
        "metadata": {"category": ("algebra", "geometry", "logic")[at % 3], "level": at % 5},
        "response": MARKDOWN.format(at + 2 if right else at + 3),
        "model": "model-a",
        "finish_reason": "length" if at % 11 == 10 else "stop",
        "prompt_tokens": 20,
        "completion_tokens": 10 + at,
        "latency_ms": 100.0 + 7 * at,
        "reasoning_content": f"I add two to {at}.",
    }
    outcome = {
        "kind": "outcome",
        "problem_idx": at,
        "repeat": repeat,
        "fp": f"{at:08x}",
        "status": "scored",
        "reward": float(right),
        "scoring_details": {"method": "exact", "extracted": str(at + 2 if right else at + 3)},
        "timing": {"solve_ms": 100.0, "verify_ms": 1.5},
    }
    if at % 13 == 12:
        failure = {"cause": "transport", "message": "connection reset by peer"}
        outcome = {
            name: outcome[name] for name in ("kind", "problem_idx", "repeat", "fp", "timing")
        }
        outcome |= {"status": "failed", "failure": failure, "attempts": 3}
    for record in (answer, outcome):
        record.update(
            {name: value for name, value in changes.items() if name in record or record is answer}
        )
    return answer, outcome


def trajectory() -> list[dict[str, Any]]:
    """What an agent did: eight turns, one of which failed."""
    steps: list[dict[str, Any]] = [
        {"step_id": 1, "source": "user", "message": "Fix the failing test."}
    ]
    for at in range(2, 10):
        call = {
            "tool_call_id": f"c{at}",
            "function_name": "bash",
            "arguments": {"command": f"pytest -x  # {at}"},
        }
        said = "1 failed\nexit_code: 1" if at == 5 else "3 passed"
        steps.append(
            {
                "step_id": at,
                "source": "agent",
                "message": f"I run the tests, look number {at}.",
                "tool_calls": [call],
                "observation": {"results": [{"source_call_id": f"c{at}", "content": said}]},
                "metrics": {"prompt_tokens": 100 * at, "completion_tokens": 20, "cost_usd": 0.001},
            }
        )
    return [{"schema_version": "1.0", "agent": {"name": "demo"}, "steps": steps}]


def write_run(
    folder: Path,
    rows: int = 60,
    *,
    name: str = "sums",
    model: str = "model-a",
    finished: bool = True,
    wrong: tuple[int, ...] = (),
    steps: list[tuple[dict[str, Any], dict[str, Any]]] | None = None,
    config: dict[str, Any] | None = None,
) -> Path:
    """Write a run of one benchmark; returns the run's folder."""
    task = folder / name
    task.mkdir(parents=True, exist_ok=True)
    made = steps or [records(at, right=at % 3 != 0 and at not in wrong) for at in range(rows)]
    with (task / "journal.jsonl").open("wb") as file:
        for pair in made:
            for record in pair:
                file.write(seal(record)[0])
    run = {
        "run_id": "20261117_020000_" + f"{abs(hash(folder.name)) % 16**8:08x}",
        "executor": "local",
        "output_dir": str(folder),
        "started_at": "2026-11-17T02:00:00+00:00",
        "config_summary": name,
        "details": {"model": model},
    }
    write_json(folder / "nel_run.json", run)
    planned = {
        "sessions": {name: {"planned": rows, "done": 0, "at": 1_700_000_000.0}},
        "planned_benchmarks": [name],
    }
    write_json(folder / "checkpoint.json", planned)
    (folder / "full_config.yaml").write_text("benchmarks: []\n")
    if finished:
        finish(task, made, name, model, config or {})
    return folder


def finish(
    task: Path, made: list[tuple[Any, Any]], name: str, model: str, config: dict[str, Any]
) -> None:
    """Write the rows and the bundle of a benchmark."""
    lines = [result_row(answer, outcome) for answer, outcome in made]
    (task / "results.jsonl").write_bytes(b"".join(dumps(line) + b"\n" for line in lines))
    rewards = [line["reward"] for line in lines if line["reward"] is not None]
    mean = sum(rewards) / len(rewards)
    head = {
        "value": mean,
        "ci_lower": mean - 0.1,
        "ci_upper": mean + 0.1,
        "ci_method": "wilson",
        "n": len(rewards),
    }
    failed = len(lines) - len(rewards)
    groups: dict[str, list[float]] = {}
    for line in lines:
        if line["reward"] is not None:
            groups.setdefault(str(line["metadata"].get("category")), []).append(line["reward"])
    bench = {
        "name": name,
        "samples": len(lines),
        "repeats": 1,
        "coverage": {
            "planned": len(lines),
            "scored": len(rewards),
            "failed": failed,
            "share": len(rewards) / len(lines),
        },
        "truncated_share": 0.1,
        "unparsed_share": 0.0,
        "scores": {
            "mean_reward": head,
            "runtime": {
                "total_tokens": 12345,
                "elapsed_seconds": 60,
                "latency_percentiles_ms": {"p50": 200.0},
            },
        },
        "categories": {
            group: {
                "mean_reward": sum(found) / len(found),
                "n": len(found),
                "ci_lower": 0.3,
                "ci_upper": 0.9,
            }
            for group, found in groups.items()
        },
    }
    bundle = {
        "run_id": f"eval-20261117T020500Z-{name}",
        "config_hash": "sha256:aa",
        "sdk_version": "0.5.0",
        "timestamp": "2026-11-17T02:05:00+00:00",
        "validity": {"status": "VALID", "reasons": []},
        "config": {"benchmark": name, "model": model, "generation": {"temperature": 0.0}, **config},
        "benchmark": bench,
        "n_results": len(lines),
    }
    write_json(task / f"eval-20261117T020500Z-{name}.json", bundle)
