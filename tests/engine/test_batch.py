"""An environment that runs all problems by itself: its rows are journalled as they come, and kept."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from nemo_evaluator.core.errors import NelError
from nemo_evaluator.core.failures import Cause, Failure
from nemo_evaluator.core.types import Failed, Scored, SeedResult, SolveResult, VerifyResult
from nemo_evaluator.engine.batch import _until_halt
from nemo_evaluator.engine.evaluation import evaluate
from nemo_evaluator.engine.halt import Halt, HaltKind
from nemo_evaluator.engine.job import Evaluation
from nemo_evaluator.environments.base import BatchJob, BatchRow, EnvironmentFacts, EvalEnvironment


class Harness(EvalEnvironment):
    """Finishes what it is asked for, in reverse, until ``breaks`` rows are out."""

    name = "harness"

    def __init__(self, breaks: int | None = None) -> None:
        self._dataset = list(range(6))
        self.breaks, self.asked = breaks, 0

    @classmethod
    def facts(cls) -> EnvironmentFacts:
        return EnvironmentFacts(batch=True)

    async def seed(self, idx: int) -> SeedResult:
        return SeedResult(prompt=f"item {idx}", expected_answer="x")

    async def verify(
        self, response: str, expected: str, sandbox: Any = None, **metadata: Any
    ) -> VerifyResult:
        raise AssertionError("a batch judges by itself")

    async def run_batch(self, job: BatchJob) -> AsyncIterator[BatchRow]:
        for step in reversed(job.steps):
            if self.asked == self.breaks:
                raise RuntimeError("the harness fell over")
            self.asked += 1
            verdict = Scored(VerifyResult(float(step.problem_idx % 2)))
            failed = Failed(Failure(Cause.SANDBOX, "gone"))
            answer = SolveResult(response=f"answer {step.problem_idx}")
            outcome = failed if step.problem_idx == 0 else verdict
            yield BatchRow(step.problem_idx, await self.seed(step.problem_idx), answer, outcome)


class Nobody:
    async def solve(self, task: SeedResult) -> SolveResult:
        raise AssertionError("a batch asks by itself")


async def test_rows_of_a_batch_become_a_bundle(tmp_path: Path) -> None:
    done = await evaluate(Evaluation(Harness(), Nobody(), tmp_path, min_coverage=0.5))
    bench = done.bundle["benchmark"]
    assert (bench["coverage"]["scored"], bench["coverage"]["planned"]) == (5, 6)
    assert bench["scores"]["pass@1"]["value"] == pytest.approx(3 / 5)


async def test_what_a_broken_batch_gave_is_not_asked_for_again(tmp_path: Path) -> None:
    finished = await evaluate(Evaluation(Harness(breaks=4), Nobody(), tmp_path, min_coverage=0.5))
    assert isinstance(finished.halt.error, NelError) and "fell over" in finished.halt.reason
    again = Harness()
    done = await evaluate(Evaluation(again, Nobody(), tmp_path, min_coverage=0.5, resume=True))
    assert again.asked == 2
    assert done.bundle["benchmark"]["coverage"]["scored"] == 5


class Slow(Harness):
    """Notes that it has cleaned up, a moment after it was cancelled."""

    cleaned = False

    def __init__(self, halt: Halt) -> None:
        super().__init__()
        self.halt = halt

    async def run_batch(self, job: BatchJob) -> AsyncIterator[BatchRow]:
        try:
            async for row in super().run_batch(job):
                yield row
                self.halt.set(HaltKind.INTERRUPT, "interrupted")
                await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.05)
            self.cleaned = True


async def test_an_interrupted_batch_has_cleaned_up_when_the_benchmark_ends(tmp_path: Path) -> None:
    halt = Halt()
    environment = Slow(halt)
    job = Evaluation(environment, Nobody(), tmp_path, min_coverage=0.0, halt=halt)
    finished = await evaluate(job)
    assert environment.cleaned
    assert finished.halt.kind is HaltKind.INTERRUPT


async def test_cancelled_work_is_awaited_and_its_exception_handled() -> None:
    ended: list[str] = []

    async def work() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            await asyncio.sleep(0.05)
            ended.append("work")
            raise ValueError("while it cleaned up") from None

    waiting = asyncio.ensure_future(_until_halt(work(), Halt()))
    await asyncio.sleep(0.01)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert ended == ["work"]
    assert asyncio.all_tasks() == {asyncio.current_task()}
