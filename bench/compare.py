"""``nel compare`` against the plain JSON parser on the same lines: CPU as a ratio, memory in megabytes.

``NEL_BENCH_ROWS`` adds a size, e.g. 1000000.
"""

from __future__ import annotations

import os
import random
import sys
import tempfile
from pathlib import Path

import orjson

from bench._measure import best, run
from nemo_evaluator.core.hashing import digest

_WORDS = (
    "model",
    "apples",
    "basket",
    "counts",
    "them",
    "one",
    "while",
    "Natalia",
    "sells",
    "clips",
    "April",
)
_PARSE = "import json, sys\nfor path in sys.argv[1:]:\n    for line in open(path, 'rb'): json.loads(line)\n"


def rows() -> list[dict[str, object]]:
    """CPU and peak memory of a comparison of two runs."""
    found = _measure(100_000, peak_limit=250.0, times=2)
    extra = int(os.environ.get("NEL_BENCH_ROWS", "0"))
    return found + (_measure(extra, peak_limit=1500.0, times=1) if extra else [])


def _measure(count: int, *, peak_limit: float, times: int) -> list[dict[str, object]]:
    with tempfile.TemporaryDirectory() as folder:
        sides = [
            write_run(Path(folder) / side, count, seed) for side, seed in (("base", 1), ("cand", 2))
        ]
        lines = [str(side / "results.jsonl") for side in sides]
        parse = best(times, [sys.executable, "-c", _PARSE, *lines])
        words = [sys.executable, "-m", "nemo_evaluator.cli.main", "compare", *map(str, sides)]
        cost = best(times, [*words, "--no-strict", "--no-report", "--format", "json"])
        empty = run([sys.executable, "-c", "pass"])
    name = f"compare 2 x {count:,} rows"
    return [
        {
            "name": f"{name}: CPU / json.loads",
            "value": cost.cpu / (parse.cpu - empty.cpu),
            "unit": "x",
            "limit": 2.5,
        },
        {"name": f"{name}: peak", "value": cost.peak_kb / 1024, "unit": "MB", "limit": peak_limit},
    ]


def write_run(folder: Path, count: int, seed: int) -> Path:
    """A run of ``count`` GSM8K-sized rows; two seeds give two runs on the same problems."""
    folder.mkdir(parents=True)
    problems, answers = random.Random(0), random.Random(seed)
    right = 0
    with (folder / "results.jsonl").open("wb") as file:
        for at in range(count):
            reward = float(answers.random() < 0.6)
            right += int(reward)
            row = {
                "problem_idx": at,
                "repeat": 0,
                "status": "scored",
                "reward": reward,
                "scorer_rewards": {},
                "prompt": " ".join(problems.choices(_WORDS, k=50)),
                "model_response": " ".join(answers.choices(_WORDS, k=100)),
                "extracted_answer": "42",
                "expected_answer": "42" if reward else "41",
                "scoring_details": {
                    "method": "numeric_match",
                    "correct": bool(reward),
                    "extracted": "42",
                },
                "metadata": {"source": "byob", "benchmark": "gsm8k", "category": f"c{at % 20}"},
                "tokens": 250,
                "prompt_tokens": 100,
                "completion_tokens": 150,
                "finish_reason": "stop",
                "latency_ms": 100 + answers.random(),
                "failure": None,
                "attempts": 1,
                "problem_hash": digest(at),
            }
            file.write(orjson.dumps(row) + b"\n")
    score = {
        "value": right / count,
        "ci_lower": None,
        "ci_upper": None,
        "ci_method": "wilson",
        "n": count,
    }
    coverage = {"planned": count, "scored": count, "failed": 0, "share": 1.0}
    bundle = {
        "run_id": f"eval-20260101T000000Z-gsm8k-{seed}",
        "validity": {"status": "VALID", "reasons": []},
        "config": {"benchmark": "gsm8k", "model": f"m{seed}", "repeats": 1},
        "benchmark": {
            "name": "gsm8k",
            "samples": count,
            "repeats": 1,
            "coverage": coverage,
            "scores": {"pass@1": score},
        },
        "n_results": count,
    }
    (folder / "eval-20260101T000000Z-gsm8k.json").write_bytes(orjson.dumps(bundle))
    return folder
