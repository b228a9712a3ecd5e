"""A finished run of any size, made up: rows of 4 KB in results.jsonl, a bundle, no index.

``python -m bench.big_run DIR ROWS`` writes one.
"""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

_CATEGORIES = ("algebra", "geometry", "history", "law", "physics", "biology", "chemistry", "logic")
_WORDS = (
    "the",
    "of",
    "and",
    "to",
    "in",
    "is",
    "that",
    "for",
    "it",
    "as",
    "was",
    "with",
    "be",
    "not",
    "which",
)
_CHUNK = 5_000


def make_run(folder: Path, rows: int, size: int = 4096, seed: int = 1) -> Path:
    """Write the run; returns the benchmark's folder."""
    chance = random.Random(seed)
    task = folder / "made_up"
    task.mkdir(parents=True, exist_ok=True)
    texts = [" ".join(chance.choices(_WORDS, k=1200))[: size - 620] for _ in range(64)]
    with (task / "results.jsonl").open("wb", buffering=1 << 22) as file:
        for start in range(0, rows, _CHUNK):
            file.write(
                "".join(
                    _row(at, chance, texts) for at in range(start, min(rows, start + _CHUNK))
                ).encode()
            )
    _bundle(task, rows)
    return task


def make_journal(folder: Path, rows: int) -> Path:
    """Write the journal of a run under way, outcomes alone; returns the benchmark's folder."""
    task = folder / "made_up"
    task.mkdir(parents=True)
    with (task / "journal.jsonl").open("w") as file:
        for at in range(rows):
            verdict = (
                '"failed","failure":{"cause":"transport","message":"reset"}'
                if at % 100 == 99
                else '"scored","reward":1.0'
            )
            file.write(
                f'{{"kind":"outcome","problem_idx":{at},"repeat":0,"fp":"f","status":{verdict}}}\n'
            )
    return task


def _row(at: int, chance: random.Random, texts: list[str]) -> str:
    draw = chance.random()
    failed, right = draw < 0.01, draw < 0.7
    tokens, category = 200 + int(draw * 1800), _CATEGORIES[at % len(_CATEGORIES)]
    finish = "length" if draw > 0.95 else "stop"
    failure = '{"cause": "transport", "message": "connection reset"}' if failed else "null"
    needle = f" needle-{at}" if at % 1000 == 999 else ""
    details = (
        '{"method": "exact", "unparsed": true}' if 0.9 < draw < 0.93 else '{"method": "exact"}'
    )
    status, reward = ("failed", "null") if failed else ("scored", float(right))
    return (
        f'{{"problem_idx": {at}, "repeat": 0, "status": "{status}", "reward": {reward}, "scorer_rewards": {{}}, '
        f'"prompt": "Question {at}: what is it?", "model_response": "{texts[at % 64]}{needle}", '
        f'"extracted_answer": "{tokens % 7}", "expected_answer": "3", "scoring_details": {details}, '
        f'"metadata": {{"category": "{category}", "level": {at % 5}}}, "tokens": {tokens}, "prompt_tokens": 100, '
        f'"completion_tokens": {tokens - 100}, "finish_reason": "{finish}", "latency_ms": {tokens * 7.5:.1f}, '
        f'"queue_ms": 0.0, "failure": {failure}, "attempts": 1, "problem_hash": "{at:032x}"}}\n'
    )


def _bundle(task: Path, rows: int) -> None:
    head = {"value": 0.69, "ci_lower": 0.688, "ci_upper": 0.692, "ci_method": "wilson", "n": rows}
    bench = {
        "name": "made_up",
        "samples": rows,
        "repeats": 1,
        "coverage": {
            "planned": rows,
            "scored": int(rows * 0.99),
            "failed": int(rows * 0.01),
            "share": 0.99,
        },
        "truncated_share": 0.05,
        "unparsed_share": 0.03,
        "scores": {"mean_reward": head},
        "categories": {name: {"mean_reward": 0.69, "n": rows // 8} for name in _CATEGORIES},
    }
    document = {
        "run_id": "eval-20261117T000000Z-made_up",
        "sdk_version": "0.5.0",
        "timestamp": "2026-11-17T00:00:00+00:00",
        "validity": {"status": "VALID", "reasons": []},
        "config": {"benchmark": "made_up", "model": "made-up-model", "repeats": 1},
        "benchmark": bench,
        "n_results": rows,
    }
    (task / "eval-20261117T000000Z-made_up.json").write_text(json.dumps(document))


if __name__ == "__main__":
    print(make_run(Path(sys.argv[1]), int(sys.argv[2])))
