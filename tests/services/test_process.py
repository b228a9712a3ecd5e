"""The life of one managed server, with real processes."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import aiohttp
import pytest

from nemo_evaluator.core.errors import TransportError
from nemo_evaluator.core.secrets import Secret
from nemo_evaluator.servers import process
from nemo_evaluator.servers.launch import Launch
from nemo_evaluator.servers.process import ManagedServer

Plan = Callable[..., Launch]
Pids = Callable[[], list[int]]


def quiet(line: str) -> None:
    assert line


async def status(url: str, key: Secret | None = None) -> int:
    headers = {"Authorization": f"Bearer {key.reveal()}"} if key else {}
    async with aiohttp.ClientSession(headers=headers) as session, session.get(url) as response:
        return response.status


async def test_starts_answers_and_stops(
    stand_in: Plan, pids: Pids, alive: Pids, tmp_path: Path
) -> None:
    said: list[str] = []
    server = ManagedServer("m", stand_in(), tmp_path / "logs" / "server-m.log")
    await server.start(said.append)
    assert await status(server.launch.url) == 200
    assert said[-1].startswith(f"m ready at {server.launch.url}")
    await server.stop()
    await server.stop()
    assert len(pids()) == 1 and not alive()
    assert server.log_path.is_file()


async def test_an_early_exit_shows_the_last_lines(stand_in: Plan, tmp_path: Path) -> None:
    server = ManagedServer("m", stand_in("dies"), tmp_path / "m.log")
    with pytest.raises(TransportError, match=r"exited with code 3(.|\n)*no such weights") as caught:
        await server.start(quiet)
    assert str(server.log_path) in (caught.value.hint or "")


async def test_a_missing_command_is_said(tmp_path: Path) -> None:
    server = ManagedServer("m", Launch(argv=["no-such-server"], port=1), tmp_path / "m.log")
    with pytest.raises(TransportError, match="cannot start no-such-server"):
        await server.start(quiet)


async def test_a_busy_port_is_said_before_anything_starts(
    stand_in: Plan, pids: Pids, tmp_path: Path
) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        server = ManagedServer("m", stand_in(port=other.getsockname()[1]), tmp_path / "m.log")
        with pytest.raises(TransportError, match="is busy"):
            await server.start(quiet)
    assert pids() == []


async def test_the_wait_is_bounded_and_leaves_nothing(
    stand_in: Plan, pids: Pids, alive: Pids, tmp_path: Path
) -> None:
    server = ManagedServer("m", stand_in("silent", startup_timeout=1.0), tmp_path / "m.log")
    started = time.monotonic()
    with pytest.raises(TransportError, match="not ready after 1 s"):
        await server.start(quiet)
    assert time.monotonic() - started < 10
    assert len(pids()) == 1 and not alive()


async def test_much_output_does_not_block_the_server(stand_in: Plan, tmp_path: Path) -> None:
    server = ManagedServer("m", stand_in("chatty"), tmp_path / "m.log")
    await server.start(quiet)
    await server.stop()
    assert server.log_path.stat().st_size > 1_000_000


@pytest.mark.parametrize("mode", ["stubborn", "parent"])
async def test_stop_reaches_the_stubborn_and_the_detached(
    mode: str, stand_in: Plan, alive: Pids, tmp_path: Path
) -> None:
    server = ManagedServer("m", stand_in(mode, stop_grace=0.3), tmp_path / "m.log")
    await server.start(quiet)
    assert len(alive()) == (2 if mode == "parent" else 1)
    await server.stop()
    assert not alive()


async def test_cancelling_a_start_leaves_nothing(
    stand_in: Plan, alive: Pids, tmp_path: Path
) -> None:
    server = ManagedServer("m", stand_in("silent"), tmp_path / "m.log")
    task = asyncio.create_task(server.start(quiet))
    while not alive():
        await asyncio.sleep(0.02)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not alive()


def _process_list() -> str:
    """Arguments and environments of all processes, as ``ps axe`` would show them to the same user."""
    texts = []
    for pattern in ("*/cmdline", "*/environ"):
        for path in Path("/proc").glob(f"[0-9]{pattern}"):
            with contextlib.suppress(OSError):
                texts.append(path.read_text(errors="replace"))
    return "\n".join(texts)


async def test_the_key_reaches_the_server_and_nobody_else(stand_in: Plan, tmp_path: Path) -> None:
    key = Secret("sk-test-0123456789abcdef")
    server = ManagedServer("m", stand_in(api_key=key), tmp_path / "m.log")
    await server.start(quiet)
    try:
        assert await status(server.launch.url, key) == 200
        assert await status(server.launch.url) == 401
        assert server.launch.argv[1] in _process_list()
        assert key.reveal() not in _process_list()
    finally:
        await server.stop()
    assert key.reveal() not in server.log_path.read_text()


def test_a_launch_names_the_host_it_is_reached_at() -> None:
    launch = Launch(argv=["serve"], port=8000, host="node-7")
    assert launch.url == "http://node-7:8000/v1"
    assert launch.health_urls == ["http://node-7:8000/health"]


async def test_a_server_is_asked_and_used_at_its_host(stand_in: Plan, tmp_path: Path) -> None:
    server = ManagedServer("m", replace(stand_in(), host="localhost"), tmp_path / "m.log")
    await server.start(quiet)
    assert server.launch.url.startswith("http://localhost:")
    assert await status(server.launch.url) == 200
    await server.stop()


@pytest.mark.parametrize(
    "module", ["nemo_evaluator.servers._guard", "nemo_evaluator.services._guard"]
)
async def test_a_sweep_spares_servers_whose_guard_lives_and_ends_the_others(
    module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second name is that of guards which an earlier version started."""
    sleep = [sys.executable, "-c", "import time; time.sleep(600)"]
    guard = subprocess.Popen([*sleep, module], start_new_session=True)
    server = subprocess.Popen(sleep, start_new_session=True)
    # Other runs on this machine sweep too: the server is marked for this test alone.
    monkeypatch.setattr(process, "marked_processes", lambda _variable: {server.pid: guard.pid})
    lines: list[str] = []
    try:
        await process.sweep_leftovers(lines.append, containers=False)
        assert server.poll() is None and lines == []
        guard.kill()
        guard.wait()
        await process.sweep_leftovers(lines.append, containers=False)
        assert server.wait(timeout=30) == -signal.SIGKILL
        assert lines == ["Ended 1 server process(es) that a killed run had left behind"]
    finally:
        for started in (guard, server):
            started.kill()
            started.wait()
