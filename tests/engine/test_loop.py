"""The loop: a task goes on with the next step, unless somebody else wants its slot."""

import asyncio
from collections.abc import Iterator
from contextvars import ContextVar

import pytest

from nemo_evaluator.core.slots import lent_slot
from nemo_evaluator.core.turns import record_turn
from nemo_evaluator.core.types import JsonDict, Step
from nemo_evaluator.engine.halt import Halt, HaltKind
from nemo_evaluator.engine.loop import Loop
from nemo_evaluator.engine.scope import Scopes
from nemo_evaluator.engine.tally import Tally


def _steps(count: int) -> Iterator[Step]:
    return (Step(number, 0) for number in range(count))


async def test_every_step_runs_once_in_as_many_tasks_as_there_are_slots() -> None:
    done: list[int] = []
    tasks: set[object] = set()

    async def work(step: Step) -> None:
        tasks.add(asyncio.current_task())
        await asyncio.sleep(0)
        done.append(step.problem_idx)

    tally = Tally()
    await Loop(_steps(100), work, max_concurrent=4, halt=Halt(), tally=tally).run()
    assert sorted(done) == list(range(100))
    assert len(tasks) == 4
    assert tally.in_flight == 0


@pytest.mark.parametrize("known", [False, True])
async def test_what_a_step_sets_in_its_context_is_not_seen_by_the_next(known: bool) -> None:
    own: ContextVar[object] = ContextVar("own")
    before = object()
    if known:
        own.set(before)
    seen: list[object] = []

    async def work(_step: Step) -> None:
        await asyncio.sleep(0)
        seen.append(own.get(None))
        own.set(object())

    await Loop(_steps(20), work, max_concurrent=2, halt=Halt(), tally=Tally()).run()
    assert seen == [before if known else None] * 20


async def test_a_step_that_wants_its_slot_back_is_not_kept_waiting_by_later_steps() -> None:
    ended: list[int] = []

    async def work(step: Step) -> None:
        if step.problem_idx == 0:
            async with lent_slot():
                await asyncio.sleep(0)
        await asyncio.sleep(0)
        ended.append(step.problem_idx)

    await Loop(_steps(200), work, max_concurrent=1, halt=Halt(), tally=Tally()).run()
    assert sorted(ended) == list(range(200))
    assert ended.index(0) < 10


async def test_nothing_more_is_begun_after_a_halt() -> None:
    halt, begun = Halt(), []

    async def work(step: Step) -> None:
        begun.append(step.problem_idx)
        await asyncio.sleep(0)
        if len(begun) >= 10:
            halt.set(HaltKind.INTERRUPT, "enough", drain=5.0)

    await Loop(_steps(1000), work, max_concurrent=2, halt=halt, tally=Tally()).run()
    assert len(begun) <= 12


def test_turns_of_a_step_do_not_reach_the_listener_of_the_one_before() -> None:
    heard: list[JsonDict] = []
    scopes = Scopes("bench", keep_turn=lambda step, turn: heard.append(turn))
    scopes.enter(Step(0, 0), "session")
    record_turn({"turn": 1})
    scopes.leave()
    record_turn({"turn": 2})
    assert heard == [{"turn": 1}]
