"""Run folders written the way the engine writes them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nemo_evaluator.statistics import headline_scores

WriteRun = Callable[..., Path]


def content_hash(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def make_row(
    problem: int, reward: float | None, *, repeat: int = 0, **changes: Any
) -> dict[str, Any]:
    """A row of results.jsonl; ``reward=None`` is a failed one."""
    failed = reward is None
    row = {
        "problem_idx": problem,
        "repeat": repeat,
        "status": "failed" if failed else "scored",
        "reward": reward,
        "scorer_rewards": {},
        "prompt": f"question {problem}",
        "model_response": "" if failed else f"answer {problem}",
        "extracted_answer": None if failed else str(reward),
        "expected_answer": "1.0",
        "scoring_details": {},
        "metadata": {},
        "tokens": 30,
        "prompt_tokens": 10,
        "completion_tokens": 20,
        "finish_reason": "stop",
        "latency_ms": 100.0,
        "failure": {"cause": "transport", "message": "reset"} if failed else None,
        "attempts": 1,
        "problem_hash": content_hash(f"question {problem}"),
    }
    return row | changes


def build_rows(rewards: Sequence[Any], **changes: Any) -> list[dict[str, Any]]:
    """One row per reward; a list of rewards is one row per repeat."""
    rows = []
    for problem, entry in enumerate(rewards):
        repeats = entry if isinstance(entry, list | tuple | np.ndarray) else [entry]
        rows += [
            make_row(problem, None if reward is None else float(reward), repeat=repeat, **changes)
            for repeat, reward in enumerate(repeats)
        ]
    return rows


def write(
    folder: Path,
    rows: list[dict[str, Any]],
    *,
    name: str = "toy",
    stamp: str = "20260101T000000Z",
    config: dict[str, Any] | None = None,
    **bundle: Any,
) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "results.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    scored = [row for row in rows if row["reward"] is not None]
    repeats = 1 + max((row["repeat"] for row in rows), default=0)
    share = len(scored) / len(rows) if rows else 0.0
    reasons = [] if share >= 0.95 else [f"coverage {share:.1%} is below the minimum of 95%"]
    scores = headline_scores(
        np.array([row["problem_idx"] for row in scored], dtype=int),
        np.array([row["reward"] for row in scored], dtype=float),
        repeats=repeats,
    )
    document = {
        "run_id": f"eval-{stamp}-{name}",
        "config_hash": "sha256:0",
        "sdk_version": "0.5.0",
        "timestamp": "2026-01-01T00:00:00+00:00",
        "validity": {"status": "INVALID" if reasons else "VALID", "reasons": reasons},
        "config": {"benchmark": name, "model": "m", "repeats": repeats, "min_coverage": 0.95}
        | (config or {}),
        "benchmark": {
            "name": name,
            "samples": len({row["problem_idx"] for row in rows}),
            "repeats": repeats,
            "coverage": {
                "planned": len(rows),
                "scored": len(scored),
                "failed": len(rows) - len(scored),
                "share": share,
            },
            "truncated_share": 0.0,
            "unparsed_share": 0.0,
            "scores": {
                **scores,
                "runtime": {"total_tokens": 30 * len(rows), "steps_per_second": 10.0},
            },
            "categories": {},
        },
        "n_results": len(rows),
    } | bundle
    (folder / f"eval-{stamp}-{name}.json").write_text(json.dumps(document))
    return folder


@pytest.fixture
def write_run(tmp_path: Path) -> WriteRun:
    """Write a run folder under ``tmp_path``: ``write_run("base", rewards, name=..., config=...)``."""

    def run(where: str, rewards: Sequence[Any] | None = None, **options: Any) -> Path:
        rows = options.pop("rows", None) or build_rows(rewards if rewards is not None else [])
        return write(tmp_path / where, rows, **options)

    return run


@pytest.fixture(scope="session")
def write_to() -> Callable[..., Path]:
    """Write a run folder anywhere: ``write_to(folder, rows, name=...)``."""
    return write


@pytest.fixture(scope="session")
def make_rows() -> Callable[..., list[dict[str, Any]]]:
    """Rows of results.jsonl from rewards."""
    return build_rows
