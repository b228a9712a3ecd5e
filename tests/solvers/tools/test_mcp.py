"""Real MCP servers over stdio and over HTTP."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import psutil
import pytest

from nemo_evaluator.core.errors import MissingExtraError, TransportError
from nemo_evaluator.core.types import SeedResult
from nemo_evaluator.solvers.base import SolverContext
from nemo_evaluator.solvers.tool_calling import ToolCallingSolverConfig, build
from nemo_evaluator.solvers.tools.mcp import McpServer

SERVER = str(Path(__file__).parents[1] / "mcp_server.py")
TASK = SeedResult("q", "a")
pytestmark = pytest.mark.needs("mcp")


def started_here() -> list[int]:
    """The servers that this process has started over pipes."""
    living = [one for one in psutil.Process().children() if one.status() != psutil.STATUS_ZOMBIE]
    commands = {one.pid: " ".join(one.cmdline()) for one in living}
    return [
        pid
        for pid, line in commands.items()
        if f"{SERVER} http" not in line and (SERVER in line or ECHO in line)
    ]


@pytest.fixture(params=["stdio", "http"])
def source(request: pytest.FixtureRequest) -> McpServer:
    if request.param == "stdio":
        return McpServer(name="notes", command=sys.executable, args=[SERVER])
    return McpServer(name="notes", url=request.getfixturevalue("mcp_url"))


async def test_a_real_server_lists_runs_fails_and_times_out(source: McpServer) -> None:
    session = await source.open(TASK, None)
    try:
        tools = {tool.name: tool for tool in await session.tools()}
        assert sorted(tools) == ["add_note", "bash", "fail", "slow"]
        assert tools["add_note"].description == "Keep a note."
        assert tools["add_note"].parameters["required"] == ["text"]
        added = await session.call("add_note", {"text": "a"}, 20)
        assert added.content.endswith(" notes")
        assert not added.is_error
        failed = await session.call("fail", {"reason": "because"}, 20)
        assert failed.is_error
        assert "fail" in failed.content
        unknown = await session.call("nope", {}, 20)
        assert unknown.is_error
        late = await session.call("slow", {"seconds": 1.5}, 0.3)
        assert (late.content, late.is_error) == ("The tool timed out after 0.3 s.", True)
    finally:
        await session.close()


async def test_a_program_is_started_for_each_problem_and_ended_with_it() -> None:
    source = McpServer(name="notes", command=sys.executable, args=[SERVER])
    first, second = await asyncio.gather(source.open(TASK, None), source.open(TASK, None))
    for _ in range(2):
        last = await first.call("add_note", {"text": "a"}, 20)
    assert last.content == "2 notes"
    assert (await second.call("add_note", {"text": "b"}, 20)).content == "1 notes"
    pids = started_here()
    assert len(pids) == 2
    await asyncio.gather(first.close(), second.close())
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


ECHO = """
import json, os, sys
START = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "e", "version": "1"}}
def say(message): print(json.dumps(message), flush=True)
pinged = False
for line in sys.stdin:
    request = json.loads(line)
    method, number = request.get("method"), request.get("id")
    pinged = pinged or (number == 77 and request.get("result") == {})
    if method == "initialize":
        say({"jsonrpc": "2.0", "id": 77, "method": "ping"})
        say({"jsonrpc": "2.0", "id": number, "result": START})
    elif method == "tools/list":
        cursor = request.get("params", {}).get("cursor")
        tool = {"name": "two" if cursor else "one", "inputSchema": {"type": "object"}}
        page = {"tools": [tool]} | ({} if cursor else {"nextCursor": "x"})
        print("a line that is no JSON", flush=True)
        say({"jsonrpc": "2.0", "id": number, "result": page})
    elif method == "tools/call" and request["params"]["name"] == "die":
        print("out of ideas", file=sys.stderr, flush=True)
        sys.exit(3)
    elif method == "tools/call":
        secret = os.environ.get("HOST_SECRET", "none") + os.environ.get("GIVEN", "none") + str(pinged)
        content = [{"type": "image", "mimeType": "image/png", "data": "AAAA"}, {"type": "text", "text": secret}]
        say({"jsonrpc": "2.0", "id": number, "result": {"content": content}})
"""


async def test_pages_pings_and_noise_are_handled_and_our_environment_stays_ours(
    monkeypatch: Any,
) -> None:
    monkeypatch.setenv("HOST_SECRET", "leaked")
    session = await McpServer(
        name="echo", command=sys.executable, args=["-c", ECHO], env={"GIVEN": "given"}
    ).open(TASK, None)
    assert [tool.name for tool in await session.tools()] == ["one", "two"]
    assert (await session.call("one", {}, 10)).content == "[image image/png]\nnonegivenTrue"
    await session.close()


async def test_a_server_that_dies_is_a_failure_of_the_harness_with_its_last_words() -> None:
    session = await McpServer(name="echo", command=sys.executable, args=["-c", ECHO]).open(
        TASK, None
    )
    with pytest.raises(TransportError, match="out of ideas"):
        await session.call("die", {}, 10)
    await session.close()


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (McpServer(name="x", command="/no/such/program"), "does not start"),
        (
            McpServer(
                name="x", command=sys.executable, args=["-c", "raise SystemExit('no config')"]
            ),
            "no config",
        ),
        (McpServer(name="x", url="http://127.0.0.1:9/mcp"), "cannot be reached"),
    ],
)
async def test_a_server_that_does_not_come_up_says_why(source: McpServer, said: str) -> None:
    with pytest.raises(TransportError, match=said):
        await source.open(TASK, None)


@pytest.mark.serial
async def test_a_program_that_will_not_end_is_ended() -> None:
    stubborn = (
        "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        + ECHO
        + "\nwhile True: time.sleep(1)"
    )
    session = await McpServer(name="echo", command=sys.executable, args=["-c", stubborn]).open(
        TASK, None
    )
    [pid] = started_here()
    started = time.monotonic()
    await session.close()
    assert time.monotonic() - started < 6
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_without_the_sdk_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    config = ToolCallingSolverConfig(service="m", mcp_servers=[McpServer(name="x", command="x")])
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingExtraError) as missing:
        build(config, SolverContext(clients=MagicMock()))
    assert missing.value.hint == 'pip install "nemo-evaluator[mcp]"'


async def test_answers_beside_the_protocol_are_a_failure_of_the_harness() -> None:
    wrong = ECHO.replace('"content": content', '"content": 7')
    session = await McpServer(name="echo", command=sys.executable, args=["-c", wrong]).open(
        TASK, None
    )
    with pytest.raises(TransportError, match="does not keep to the protocol: content"):
        await session.call("one", {}, 10)
    await session.close()
