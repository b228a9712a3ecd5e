"""Steps that run elsewhere: leases, lost workers, stops and budgets, with workers in this process."""

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import orjson
import pytest

from nemo_evaluator.core.errors import AuthError, BoundaryError, RequestRejectedError
from nemo_evaluator.core.types import JsonDict, SeedResult, SolveResult, Step
from nemo_evaluator.engine.evaluation import evaluate
from nemo_evaluator.engine.halt import HaltKind
from nemo_evaluator.engine.job import Evaluation
from nemo_evaluator.engine.pool import Halted, StepQueue
from nemo_evaluator.engine.step_host import StepHost
from nemo_evaluator.models.budget import Budget

from .conftest import Scripted, Sums

DROP = {"latency_ms", "timing", "at"}


class Workers:
    """Two workers; the first is lost once it has brought so many records."""

    def __init__(
        self, folder: Path, solver: Scripted, lost_after: int | None = None, **more: Any
    ) -> None:
        self.folder, self.solver, self.lost_after, self.more = folder, solver, lost_after, more
        self.hosts = 0

    async def __call__(self, ledger: StepQueue) -> None:
        await asyncio.gather(self._serve(ledger, self.lost_after), self._serve(ledger, None))

    async def _serve(self, ledger: StepQueue, lost_after: int | None) -> None:
        self.hosts += 1
        host = StepHost(Evaluation(Sums(40), self.solver, self.folder / "elsewhere", **self.more))
        assert await host.open(*ledger.counts()) == ledger.fingerprints
        held: set[Step] = set()
        charged: list[JsonDict] = []
        brought = 0
        while not ledger.over():
            leases = await ledger.lease(6 - len(held), wait=not held)
            held.update(lease.step for lease in leases)
            if not held:
                return
            reply = await host.exchange(leases, Halted.of(ledger.halt), ledger.elsewhere(charged))
            if lost_after is not None and brought >= lost_after:
                # With what it has done since it was last asked.
                ledger.give_back(held)
                return await self._serve(ledger, None)
            brought += len(reply.records)
            ledger.take(held, reply, charged)


def records(folder: Path, kind: str) -> list[JsonDict]:
    lines = map(orjson.loads, (folder / "journal.jsonl").read_bytes().splitlines())
    return [one for one in lines if one["kind"] == kind]


def views(folder: Path) -> list[JsonDict]:
    lines = map(orjson.loads, (folder / "results.jsonl").read_bytes().splitlines())
    return [{key: value for key, value in row.items() if key not in DROP} for row in lines]


async def test_a_lost_workers_steps_go_to_another_and_the_rows_are_those_of_one_process(
    tmp_path: Path,
) -> None:
    elsewhere, here = Scripted(), Scripted()
    pool = Workers(tmp_path, elsewhere, lost_after=4)
    await evaluate(Evaluation(Sums(40), elsewhere, tmp_path / "a"), pool)
    await evaluate(Evaluation(Sums(40), here, tmp_path / "b"))
    assert pool.hosts == 3
    assert Counter(one["problem_idx"] for one in records(tmp_path / "a", "outcome")) == Counter(
        range(40)
    )
    assert views(tmp_path / "a") == views(tmp_path / "b")
    assert len(elsewhere.asked) > 40


async def test_an_answer_that_had_arrived_is_not_asked_again(tmp_path: Path) -> None:
    """A worker that is lost between an answer and its verdict: the next one only verifies."""
    solver, taken = Scripted(), 0

    async def pool(ledger: StepQueue) -> None:
        nonlocal taken
        first, second = (StepHost(Evaluation(Sums(40), solver, tmp_path / "w")) for _ in range(2))
        await first.open()
        await second.open()
        held: set[Step] = set()
        leases = await ledger.lease(3, wait=True)
        held.update(lease.step for lease in leases)
        reply = await first.exchange(leases, None)
        reply.records = [one for one in reply.records if one["kind"] == "answer"]
        reply.ended.clear()
        taken = len(reply.records)
        ledger.take(held, reply, [])
        ledger.give_back(held)
        while leases := await ledger.lease(10, wait=True):
            held = {lease.step for lease in leases}
            while held:
                ledger.take(held, await second.exchange(leases, None), [])
                leases = []

    await evaluate(Evaluation(Sums(40), solver, tmp_path / "a", max_problems=8), pool)
    assert taken == 3 and len(solver.asked) == 8
    assert len(records(tmp_path / "a", "answer")) == len(records(tmp_path / "a", "outcome")) == 8
    assert [row["reward"] for row in views(tmp_path / "a")] == [1.0] * 8


async def test_what_ends_one_worker_ends_the_benchmark(tmp_path: Path) -> None:
    solver = Scripted(lambda prompt: AuthError("the key is wrong", hint="another key"))
    with pytest.raises(AuthError, match="the key is wrong"):
        await evaluate(Evaluation(Sums(40), solver, tmp_path / "a"), Workers(tmp_path, solver))
    assert len(solver.asked) <= 12 and records(tmp_path / "a", "outcome") == []


async def test_some_rejected_requests_are_rows_and_no_reason_to_stop(tmp_path: Path) -> None:
    """Only when the first are all rejected is it the server's doing; a worker must know what was scored before."""
    solver = Scripted(
        lambda prompt: RequestRejectedError("no") if int(prompt.split()[-1][:-1]) % 3 == 0 else "1"
    )
    pool = Workers(tmp_path, solver, lost_after=20)
    done = await evaluate(Evaluation(Sums(40), solver, tmp_path / "a"), pool)
    assert done.halt.kind is None
    assert Counter(row["status"] for row in views(tmp_path / "a")) == {"scored": 26, "failed": 14}


async def test_what_was_done_when_a_worker_is_closed_is_not_lost(tmp_path: Path) -> None:
    solver = Scripted()

    async def pool(ledger: StepQueue) -> None:
        host = StepHost(Evaluation(Sums(40), solver, tmp_path / "w", max_concurrent=3))
        await host.open()
        held, charged = set[Step](), list[JsonDict]()
        leases = await ledger.lease(3, wait=True)
        held.update(lease.step for lease in leases)
        ledger.take(held, await host.exchange(leases, None), charged)
        leases = await ledger.lease(3, wait=True)
        held = {lease.step for lease in leases}
        exchange = asyncio.ensure_future(host.exchange(leases, None))
        while len(solver.asked) < 6:
            await asyncio.sleep(0)
        exchange.cancel()
        ledger.take(held, await host.close(), charged)
        assert not held
        ledger.halt.set(HaltKind.INTERRUPT, "enough")

    await evaluate(Evaluation(Sums(40), solver, tmp_path / "a"), pool)
    assert len(solver.asked) == len(records(tmp_path / "a", "answer")) == 6


class Paid(Scripted):
    """Charges a budget as the client does: set aside before a call, settled after it."""

    def __init__(self, budget: Budget, calls: int, **price: float) -> None:
        super().__init__()
        self.budget, self.calls, self.price = budget, calls, price

    async def solve(self, task: SeedResult) -> SolveResult:
        for _ in range(self.calls):
            held = await self.budget.reserve()
            await asyncio.sleep(0.02 if self.calls > 1 else 0)
            self.budget.settle(held, requests=1, **self.price)  # type: ignore[arg-type]
        return await super().solve(task)


class PaidWorkers(Workers):
    """Three workers, each with a budget of its own."""

    def __init__(self, folder: Path, limit: dict[str, float], calls: int) -> None:
        super().__init__(folder, Scripted())
        self.limit, self.calls = limit, calls
        self.solvers: list[Paid] = []

    async def __call__(self, ledger: StepQueue) -> None:
        await asyncio.gather(*(self._serve(ledger, None) for _ in range(3)))

    async def _serve(self, ledger: StepQueue, lost_after: int | None) -> None:
        budget = Budget("b", **self.limit)  # type: ignore[arg-type]
        paid = Paid(budget, self.calls, usd=0.03, tokens=20)
        self.solvers.append(paid)
        one = Workers(self.folder, paid, budgets=(budget,))
        await one._serve(ledger, lost_after)


@pytest.mark.parametrize("limit", [{"requests": 10}, {"usd": 0.3}, {"tokens": 200}])
async def test_workers_share_a_budget_to_the_last_call(
    limit: dict[str, float], tmp_path: Path
) -> None:
    pool, ours = PaidWorkers(tmp_path, limit, 1), Budget("b", **limit)  # type: ignore[arg-type]
    done = await evaluate(Evaluation(Sums(40), Scripted(), tmp_path / "a", budgets=(ours,)), pool)
    assert done.halt.kind is HaltKind.BUDGET and isinstance(done.halt.error, BoundaryError)
    assert ours.spent()["requests"] == sum(len(solver.asked) for solver in pool.solvers) == 10
    assert len(records(tmp_path / "a", "outcome")) == 10


async def test_a_worker_is_told_what_others_have_spent(tmp_path: Path) -> None:
    """A step of many calls ends when the run's budget does, not when its worker alone has spent it."""
    pool, ours = PaidWorkers(tmp_path, {"requests": 600}, 1000), Budget("b", requests=600)
    done = await evaluate(Evaluation(Sums(40), Scripted(), tmp_path / "a", budgets=(ours,)), pool)
    assert done.halt.kind is HaltKind.BUDGET
    # Each worker alone would have spent 600.
    assert ours.spent()["requests"] < 1400
