"""One limit for many tasks: each ends in time, and only for its own reasons."""

from __future__ import annotations

import asyncio

import pytest

from nemo_evaluator.engine.loop import Deadlines


async def test_what_is_quick_returns_and_what_is_slow_times_out() -> None:
    deadlines = Deadlines(0.05)

    async def one(seconds: float) -> str:
        try:
            await deadlines.within(asyncio.sleep(seconds))
        except TimeoutError:
            return "late"
        return "done"

    said = await asyncio.gather(*(one(seconds) for seconds in (0, 60, 0, 60, 0.001)))
    assert said == ["done", "late", "done", "late", "done"]
    # Nothing is left of the first ones: later tasks have a limit of their own.
    assert await asyncio.gather(one(60), one(0)) == ["late", "done"]


async def test_a_task_goes_on_after_its_limit() -> None:
    deadlines = Deadlines(0.01)
    with pytest.raises(TimeoutError):
        await deadlines.within(asyncio.sleep(60))
    task = asyncio.current_task()
    assert task is not None and task.cancelling() == 0
    assert await deadlines.within(asyncio.sleep(0, "again")) == "again"


async def test_a_task_that_is_cancelled_is_not_late() -> None:
    deadlines = Deadlines(60)
    task = asyncio.ensure_future(deadlines.within(asyncio.sleep(60)))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_an_answer_at_the_last_moment_counts() -> None:
    deadlines = Deadlines(0.01)

    async def stubborn() -> str:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            return "answer"
        return "none"

    assert await deadlines.within(stubborn()) == "answer"
    task = asyncio.current_task()
    assert task is not None and task.cancelling() == 0


async def test_errors_pass_through() -> None:
    async def broken() -> None:
        raise ValueError("own")

    with pytest.raises(ValueError, match="own"):
        await Deadlines(60).within(broken())
