"""Reuse is proved: equal fingerprints are reused, everything else is done again, and the counts say why."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nemo_evaluator.core.errors import JudgeError, TransportError
from nemo_evaluator.core.files import iter_jsonl
from nemo_evaluator.engine.evaluation import Finished, evaluate
from nemo_evaluator.engine.halt import Halt, HaltKind
from nemo_evaluator.engine.job import Evaluation

TIMING = {"latency_ms", "queue_ms", "timing", "timestamp"}


def rows_of(folder: Path) -> list[dict[str, Any]]:
    return [
        {k: v for k, v in row.items() if k not in TIMING}
        for row in iter_jsonl(folder / "results.jsonl")
    ]


class Case:
    """A run that can be repeated with changes."""

    def __init__(self, sums: Any, scripted: Any, folder: Path) -> None:
        self.sums, self.scripted, self.folder = sums, scripted, folder
        self.job = Evaluation(
            sums,
            scripted,
            folder,
            repeats=2,
            service={"url": "http://127.0.0.1:1/v1", "model": "m"},
            solver_settings={"type": "simple", "temperature": 0.0, "system_prompt": None},
        )

    async def run(self, **changes: Any) -> tuple[Finished, int, int]:
        """Run; returns what was finished, how many questions were asked, how many answers verified."""
        asked, verified = len(self.scripted.asked), self.sums.verified
        finished = await evaluate(replace(self.job, **changes))
        return finished, len(self.scripted.asked) - asked, self.sums.verified - verified


@pytest.fixture
def case(sums: Any, scripted: Any, tmp_path: Path) -> Case:
    return Case(sums, scripted, tmp_path / "task")


def _solver(**settings: Any) -> dict[str, Any]:
    return {
        "solver_settings": {"type": "simple", "temperature": 0.0, "system_prompt": None} | settings
    }


def NOTHING(case: Case) -> None:
    """Change nothing."""


def _row(case: Case) -> None:
    original = case.sums.seed

    async def seed(idx: int) -> Any:
        found = await original(idx)
        return (
            replace(found, prompt="How much is 5 plus 5? 5", expected_answer="10")
            if idx == 5
            else found
        )

    case.sums.seed = seed


def _target(case: Case) -> None:
    original = case.sums.seed

    async def seed(idx: int) -> Any:
        found = await original(idx)
        return replace(found, expected_answer="11") if idx == 5 else found

    case.sums.seed = seed


def _prompt(case: Case) -> None:
    case.sums.prompt = "Please: how much is {0} + {0}?"


def _scorer(case: Case) -> None:
    case.sums.version = "2"


@pytest.mark.parametrize(
    ("change", "edit", "asked", "verified", "reason"),
    [
        (_solver(temperature=0.7), NOTHING, 20, 20, "solver or generation settings changed"),
        (
            _solver(system_prompt="Be brief."),
            NOTHING,
            20,
            20,
            "solver or generation settings changed",
        ),
        (
            {"service": {"url": "http://127.0.0.1:1/v1", "model": "other"}},
            NOTHING,
            20,
            20,
            "service changed",
        ),
        ({"template": "Q: {{ original_prompt }}"}, NOTHING, 20, 20, "instruction template changed"),
        ({}, _prompt, 20, 20, "problem changed"),
        ({}, _row, 2, 2, "problem changed"),
        ({}, _target, 0, 2, "scorer changed"),
        ({}, _scorer, 0, 20, "scorer changed"),
        ({"max_concurrent": 3}, NOTHING, 0, 0, "unchanged"),
        ({"config": {"base_url": "http://127.0.0.1:2/v1"}}, NOTHING, 0, 0, "unchanged"),
        ({"repeats": 4}, NOTHING, 20, 20, "new"),
        ({"repeats": 1}, NOTHING, 0, 0, "unchanged"),
        ({"max_problems": 4}, NOTHING, 0, 0, "unchanged"),
        ({"shuffle_seed": 7}, NOTHING, 0, 0, "unchanged"),
    ],
    ids=[
        "temperature",
        "system prompt",
        "model",
        "template",
        "prompt template",
        "row",
        "target",
        "scorer",
        "concurrency",
        "port",
        "more repeats",
        "fewer repeats",
        "fewer problems",
        "order",
    ],
)
async def test_what_a_change_costs(
    case: Case,
    change: dict[str, Any],
    edit: Callable[[Case], None],
    asked: int,
    verified: int,
    reason: str,
) -> None:
    await case.run()
    edit(case)
    finished, questions, verdicts = await case.run(resume=True, **change)
    assert (questions, verdicts) == (asked, verified)
    assert reason in finished.reuse.reasons
    assert finished.bundle["benchmark"]["coverage"]["share"] == 1.0


async def test_an_unchanged_resume_writes_equal_rows(case: Case) -> None:
    await case.run()
    before = rows_of(case.folder)
    finished, asked, verified = await case.run(resume=True)
    assert (asked, verified) == (0, 0)
    assert rows_of(case.folder) == before
    assert finished.bundle["config"]["resumed"] == {"reused": 20, "reasons": {"unchanged": 20}}


async def test_failed_steps_are_retried_even_when_the_benchmark_had_finished(case: Case) -> None:
    right = case.scripted.answer
    case.scripted.answer = lambda p: TransportError("down", attempts=9) if " 3 " in p else right(p)
    first, _, _ = await case.run()
    assert first.bundle["validity"]["status"] == "INVALID"
    case.scripted.answer = right
    second, asked, _ = await case.run(resume=True)
    assert asked == 2
    assert second.bundle["benchmark"]["coverage"]["share"] == 1.0
    assert second.reuse.reasons["failed before (transport)"] == 2


async def test_a_failed_judge_is_asked_again_without_the_model(case: Case) -> None:
    def on_verify(response: str) -> None:
        if response == "6":
            raise JudgeError("judge is down", attempts=9)

    case.sums.on_verify = on_verify
    first, _, _ = await case.run()
    assert first.bundle["benchmark"]["coverage"]["failed"] == 2
    case.sums.on_verify = None
    second, asked, verified = await case.run(resume=True)
    assert (asked, verified) == (0, 2)
    assert second.bundle["benchmark"]["coverage"]["share"] == 1.0


async def test_an_interrupted_run_goes_on_where_it_stopped(case: Case) -> None:
    whole = Case(case.sums, type(case.scripted)(), case.folder.with_name("whole"))
    await whole.run()
    halt = Halt()
    right = case.scripted.answer

    def answer(prompt: str) -> Any:
        if len(case.scripted.asked) == 7:
            halt.set(HaltKind.INTERRUPT, "interrupted", drain=1.0)
        return right(prompt)

    case.scripted.answer = answer
    first, asked, _ = await case.run(halt=halt, max_concurrent=2)
    assert asked < 12
    assert first.bundle["stopped"]["kind"] == "interrupt"
    assert first.bundle["validity"]["status"] == "INVALID"
    second, more, _ = await case.run(resume=True)
    assert asked + more == 20
    assert rows_of(case.folder) == rows_of(whole.folder)
    assert second.bundle["validity"]["status"] == "VALID"


async def test_an_answer_without_a_verdict_is_verified_not_asked(case: Case) -> None:
    await case.run()
    journal = case.folder / "journal.jsonl"
    lines = [
        line
        for line in journal.read_text().splitlines(keepends=True)
        if '"kind":"outcome"' not in line
    ]
    journal.write_text("".join(lines))
    finished, asked, verified = await case.run(resume=True)
    assert (asked, verified) == (0, 20)
    assert finished.reuse.reasons["answered, not yet verified"] == 20


async def test_resume_without_an_earlier_run_is_a_fresh_run(case: Case) -> None:
    finished, asked, _ = await case.run(resume=True)
    assert asked == 20
    assert finished.bundle["validity"]["status"] == "VALID"
    _, again, _ = await case.run(resume=True)
    assert again == 0
