from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time

import pytest

import nemo_evaluator.scoring as scoring
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.scoring import ScorerInput, get_scorer, list_scorers, run_scorer, scorer_version

BASE = (
    "Janet sells 16 - 3 - 4 = 9 duck eggs a day. She makes 9 * 2 = 18 dollars every day at the market. "
    * 5
)


def test_the_names_of_the_reference_and_the_new_ones() -> None:
    assert set(list_scorers()) >= {
        "answer_line", "exact_match", "fuzzy_match", "mcq_extract", "multichoice_regex", "numeric_match",
        "math", "json_schema", "f1", "needs_judge", "code_sandbox",
    }  # fmt: skip
    assert get_scorer("exact_match") is scoring.exact_match
    with pytest.raises(UsageError, match="unknown scorer"):
        get_scorer("exact_mach")


def test_public_names_resolve() -> None:
    for name in dir(scoring):
        assert getattr(scoring, name) is not None


def test_importing_the_room_loads_nothing_heavy() -> None:
    script = (
        "import sys, nemo_evaluator.scoring as s; s.numeric_match; s.multichoice_regex; s.answer_line;"
        "s.get_scorer('f1');"
        "print([m for m in ('sympy', 'math_verify', 'jsonschema', 'numpy', 'pydantic') if m in sys.modules])"
    )
    result = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "[]"


@pytest.mark.serial
@pytest.mark.parametrize(
    ("name", "response", "target"),
    [
        ("numeric_match", BASE + "\nThe answer is 18.", "18"),
        ("answer_line", BASE + "\nAnswer: 18", "18"),
        ("multichoice_regex", BASE + "\nAnswer: B", "B"),
    ],
)
def test_the_hot_path_costs_microseconds(name: str, response: str, target: str) -> None:
    scorer, sample = get_scorer(name), ScorerInput(response, target)
    best = min(_timed(scorer, sample) for _ in range(5))
    # About 15 on a quiet machine; the bound leaves room for a busy one and still catches an accidental full scan.
    assert best < 60e-6


def _timed(scorer: object, sample: ScorerInput) -> float:
    started = time.process_time()
    for _ in range(500):
        scorer(sample)  # type: ignore[operator]
    return (time.process_time() - started) / 500


def test_versions_enter_the_fingerprint() -> None:
    assert scorer_version(scoring.exact_match).startswith(
        "nemo_evaluator.scoring.text.exact_match@4"
    )

    def mine(sample: ScorerInput) -> dict[str, bool]:
        return {"correct": True}

    first = scorer_version(mine)

    def mine(sample: ScorerInput) -> dict[str, bool]:  # type: ignore[no-redef]
        return {"correct": False}

    assert scorer_version(mine) != first


async def test_a_slow_synchronous_scorer_does_not_hold_the_loop() -> None:
    seen: list[int] = []

    def slow(sample: ScorerInput) -> bool:
        seen.append(threading.get_ident())
        time.sleep(0.2)
        return True

    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0.01)
            ticks += 1

    ticking = asyncio.create_task(tick())
    assert await run_scorer(slow, ScorerInput("x", "x")) == {"correct": True}
    ticking.cancel()
    assert ticks > 3
    assert seen != [threading.get_ident()]
    assert (await run_scorer(scoring.math, ScorerInput("5", "5")))["correct"] is True
