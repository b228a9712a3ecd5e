"""Routing by name, names told apart, output cut to size, calls that make no sense answered."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from nemo_evaluator.core.errors import SeedError, TransportError
from nemo_evaluator.core.types import ToolCallInfo
from nemo_evaluator.solvers.tools.base import Tool, ToolResult
from nemo_evaluator.solvers.tools.toolbox import Toolbox, truncate

SCHEMA = {"type": "object", "properties": {"x": {"type": "string"}}}


class Session:
    """Says who was called."""

    def __init__(self, name: str, *tools: str, pause: float = 0.0) -> None:
        self.name = name
        self._tools = tools
        self._pause = pause
        self.running = 0

    async def tools(self) -> list[Tool]:
        return [Tool(tool, f"{self.name}'s {tool}", SCHEMA) for tool in self._tools]

    async def call(self, tool: str, arguments: dict[str, Any], timeout: float) -> ToolResult:
        self.running += 1
        await asyncio.sleep(self._pause)
        self.running -= 1
        if tool == "breaks":
            raise TransportError("gone")
        return ToolResult(f"{self.name}.{tool}{arguments}")

    async def close(self) -> None:
        pass


async def _box(*sessions: Session, wanted: Any = None, limit: int = 1000) -> Toolbox:
    return await Toolbox.of(sessions, wanted, timeout=5.0, max_output_chars=limit)


def _names(box: Toolbox) -> list[str]:
    return [definition["function"]["name"] for definition in box.definitions]


async def _say(box: Toolbox, name: str, **arguments: Any) -> str:
    (outcome,) = await box.run([ToolCallInfo("1", name, arguments)])
    return outcome.content


async def test_calls_go_to_their_source_and_equal_names_are_told_apart() -> None:
    box = await _box(
        Session("sandbox", "bash"),
        Session("gym", "search", "bash"),
        Session("gym", "bash", "a/b c"),
    )
    assert _names(box) == ["bash", "search", "gym_bash", "gym_bash_2", "a_b_c"]
    assert await _say(box, "bash") == "sandbox.bash{}"
    assert await _say(box, "gym_bash") == "gym.bash{}"
    assert await _say(box, "a_b_c") == "gym.a/b c{}"


async def test_a_problems_own_definitions_are_shown_and_routed() -> None:
    wanted = [
        {
            "type": "function",
            "name": "search",
            "description": "own",
            "parameters": SCHEMA,
            "strict": True,
        },
        {"type": "function", "function": {"name": "bash", "parameters": SCHEMA}},
    ]
    box = await _box(
        Session("sandbox", "bash", "file_read"), Session("gym", "search"), wanted=wanted
    )
    assert _names(box) == ["search", "bash"]
    assert box.definitions[0]["function"]["description"] == "own"
    assert await _say(box, "search") == "gym.search{}"
    assert "There is no tool named 'file_read'" in await _say(box, "file_read")
    with pytest.raises(SeedError, match=r"no source offers: fly \(offered: bash\)"):
        await _box(Session("sandbox", "bash"), wanted=[{"name": "fly"}])
    with pytest.raises(SeedError, match="not a function"):
        await _box(Session("sandbox", "bash"), wanted=["fly"])


async def test_a_tool_that_was_made_up_is_answered() -> None:
    box = await _box(Session("sandbox", "bash", "file_read"))
    assert (
        await _say(box, "file_reed")
        == "There is no tool named 'file_reed'. Did you mean 'file_read'? Available tools: bash, file_read."
    )


async def test_arguments_that_are_no_object_are_answered_unless_raw_is_a_parameter() -> None:
    box = await _box(Session("sandbox", "bash"))
    assert (
        await _say(box, "bash", raw='{"x": oops')
        == 'The arguments are not a valid JSON object: {"x": oops'
    )
    assert await _say(box, "bash", raw="a", x="b") == "sandbox.bash{'raw': 'a', 'x': 'b'}"


@pytest.mark.serial
async def test_calls_of_a_turn_run_side_by_side_and_answers_keep_their_order() -> None:
    box = await _box(
        Session("a", "one", pause=0.2),
        Session("b", "two", pause=0.05),
        Session("c", "three", pause=0.2),
    )
    started = time.perf_counter()
    outcomes = await box.run(
        [ToolCallInfo(name, name, {}) for name in ("one", "two", "three", "one")]
    )
    assert time.perf_counter() - started < 0.5
    assert [outcome.name for outcome in outcomes] == ["one", "two", "three", "one"]
    assert [outcome.source for outcome in outcomes] == ["a", "b", "c", "a"]
    assert outcomes[0].latency_ms >= 190


async def test_a_broken_source_is_raised_when_the_other_calls_have_ended() -> None:
    slow = Session("a", "one", pause=0.1)
    box = await _box(slow, Session("b", "breaks"))
    with pytest.raises(TransportError, match="gone"):
        await box.run([ToolCallInfo("1", "breaks", {}), ToolCallInfo("2", "one", {})])
    assert slow.running == 0


async def test_no_tools_at_all_is_an_error() -> None:
    with pytest.raises(SeedError, match="no source offers any tool"):
        await _box(Session("a"))


def test_head_and_tail_are_kept() -> None:
    assert truncate("abc", 3) == "abc"
    assert (
        truncate("a" * 5 + "m" * 90 + "z" * 5, 9) == "aaaaa\n\n... [truncated 91 chars] ...\n\nzzzz"
    )
    assert truncate("abcdef", 1) == "a\n\n... [truncated 5 chars] ...\n\n"
