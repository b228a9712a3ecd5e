"""Networks of sandboxes: what one agent does with its connections, and whom it can reach."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from nemo_evaluator.core.broken_ways import mended, why_broken
from nemo_evaluator.sandbox import _forward
from nemo_evaluator.sandbox._forward import Forwards

# Connects until it may not, keeps all of it open, and asks for more again and again.
GREEDY = """
import os, socket, sys, time
from urllib.parse import urlsplit
parts = urlsplit(os.environ["MODEL_BASE_URL"])
held, until = [], time.monotonic() + 120
while time.monotonic() < until and not os.path.exists("/tmp/stop"):
    try:
        held.append(socket.create_connection((parts.hostname, parts.port), timeout=5))
    except OSError:
        time.sleep(0.01)
    if len(held) > 600:
        for each in held[:300]:
            each.close()
        del held[:300]
    if len(held) == 200:
        print("many", flush=True)
"""
HONEST = """
import json, os, urllib.request
for number in range(15):
    request = urllib.request.Request(os.environ["MODEL_BASE_URL"] + "/chat/completions", b'{"messages": []}')
    request.add_header("Authorization", "Bearer " + os.environ["KEY"])
    request.add_header("Content-Type", "application/json")
    with urllib.request.urlopen(request, timeout=60) as reply:
        assert json.load(reply)["choices"]
print("answered 15")
"""
CHILD = f"""
import asyncio, resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (100, 256))
from nemo_evaluator.adapters import Proxy
from nemo_evaluator.core.types import SandboxSpec
from nemo_evaluator.models import CallScope, Endpoint
from nemo_evaluator.sandbox.base import OutsideEndpoint
from nemo_evaluator.sandbox.local import LocalSandbox
from nemo_evaluator.testing import ScriptedServer

async def main():
    many = asyncio.Event()
    async with ScriptedServer("ok") as server, Proxy(Endpoint("m", server.url, model="m")) as proxy:
        names = ["greedy", "honest", "honest-too"]
        boxes = []
        for name in names:
            endpoint = OutsideEndpoint(proxy.session(CallScope(name)), variables={{"KEY": proxy.key_of(name).reveal()}})
            box = LocalSandbox(SandboxSpec(image="", workdir="/workspace"), "run")
            await box.start(outside_endpoints=[endpoint])
            boxes.append(box)
        attack = boxes[0].exec(["python3", "-c", {GREEDY!r}], 150, on_output=lambda *_: many.set())
        greedy = asyncio.ensure_future(attack)
        async with asyncio.timeout(100):
            await many.wait()
        results = await asyncio.gather(*(box.exec(["python3", "-c", {HONEST!r}], 100) for box in boxes[1:]))
        for result in results:
            print(result.stdout, result.stderr)
        await boxes[0].exec("touch /tmp/stop")
        await greedy
        for box in boxes:
            await box.stop()

asyncio.run(main())
"""


@pytest.mark.needs("bwrap")
def test_an_agent_that_opens_connections_takes_none_from_others(tmp_path: Path) -> None:
    ended = subprocess.run([sys.executable, "-c", CHILD], capture_output=True, text=True, timeout=300, cwd=tmp_path)
    assert ended.stdout.count("answered 15") == 2, ended.stdout + ended.stderr


def _listening() -> socket.socket:
    sock = socket.create_server(("127.0.0.1", 0))
    sock.setblocking(False)
    return sock


async def _opened(forwards: Forwards, url: str) -> tuple[str, int]:
    sock = _listening()
    port = sock.getsockname()[1]

    async def listen() -> tuple[int, int]:
        return sock.detach(), port

    await forwards.add(url, listen)
    return "127.0.0.1", port


async def _is_closed(reader: asyncio.StreamReader) -> bool:
    try:
        return await reader.read() == b""
    except ConnectionError:
        return True


async def test_a_way_without_a_proxy_behind_it_is_noted_as_broken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    url = f"http://127.0.0.1:{port}/s/one/v1"
    forwards = Forwards()
    try:
        reader, writer = await asyncio.open_connection(*await _opened(forwards, url))
        async with asyncio.timeout(20):
            assert await _is_closed(reader)
        writer.close()
        assert why_broken(url) == os.strerror(errno.ECONNREFUSED)
    finally:
        mended(url)
        await forwards.close()


async def test_over_its_cap_a_sandbox_is_refused_and_nothing_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_forward, "_MOST_OF_ONE", 4)
    reached = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal reached
        reached += 1
        await reader.read()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/s/one/v1"
    forwards = Forwards()
    try:
        address = await _opened(forwards, url)
        kept = [await asyncio.open_connection(*address) for _ in range(4)]
        async with asyncio.timeout(20):
            while reached < 4:
                await asyncio.sleep(0.01)
        for _ in range(5):
            reader, writer = await asyncio.open_connection(*address)
            async with asyncio.timeout(20):
                assert await _is_closed(reader)
            writer.close()
        assert reached == 4 and why_broken(url) is None
        kept[0][1].close()
        async with asyncio.timeout(20):
            while len(forwards.carried) == 4:
                await asyncio.sleep(0.01)
            kept.append(await asyncio.open_connection(*address))
            while reached < 5:
                await asyncio.sleep(0.01)
        for _, writer in kept:
            writer.close()
    finally:
        await forwards.close()
        server.close()


async def test_accepting_survives_a_lack_of_files(monkeypatch: pytest.MonkeyPatch) -> None:
    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"here")
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/s/one/v1"
    forwards = Forwards()
    loop = asyncio.get_running_loop()
    accept = loop.sock_accept
    failures = [errno.EMFILE, errno.ENFILE, errno.ENOBUFS]

    async def failing(sock: socket.socket) -> object:
        if failures:
            number = failures.pop()
            raise OSError(number, os.strerror(number))
        return await accept(sock)

    monkeypatch.setattr(loop, "sock_accept", failing)
    try:
        reader, writer = await asyncio.open_connection(*await _opened(forwards, url))
        async with asyncio.timeout(20):
            assert await reader.readexactly(4) == b"here"
        writer.close()
        assert not failures
    finally:
        await forwards.close()
        server.close()


async def test_a_sandbox_with_few_connections_gets_a_place_of_one_with_many(monkeypatch: pytest.MonkeyPatch) -> None:
    places = _forward._Places()
    greedy = Forwards()
    honest = Forwards()
    places.enter(greedy)
    places.enter(honest)
    monkeypatch.setattr(places, "_most", 8)
    tasks = [asyncio.ensure_future(asyncio.sleep(60)) for _ in range(8)]
    greedy.carried = dict.fromkeys(tasks)
    assert not places.take(greedy)
    assert places.take(honest)
    assert len(greedy.carried) == 7
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
