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

from nemo_evaluator.config import DockerSandbox as DockerConfig
from nemo_evaluator.core.broken_ways import mended, why_broken
from nemo_evaluator.core.types import SandboxSpec
from nemo_evaluator.sandbox import _forward
from nemo_evaluator.sandbox._backend import Limits
from nemo_evaluator.sandbox._docker_api import DockerApi
from nemo_evaluator.sandbox._docker_network import (
    POOL,
    ROOM,
    create_network,
    remove_network,
    rules,
    subnet_of,
)
from nemo_evaluator.sandbox._forward import Forwards
from nemo_evaluator.sandbox.docker import DockerSandbox

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
    ended = subprocess.run(
        [sys.executable, "-c", CHILD], capture_output=True, text=True, timeout=300, cwd=tmp_path
    )
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


async def test_over_its_cap_a_sandbox_is_refused_and_nothing_is_noted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
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


async def test_a_sandbox_with_few_connections_gets_a_place_of_one_with_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
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


IMAGE = "nel-test/python:bookworm"
ALL = os.environ.get("NEL_TEST_ALL") == "1"
SERVE = "import http.server as h; h.HTTPServer(('0.0.0.0', 8000), h.SimpleHTTPRequestHandler).serve_forever()"
CONNECT = """
import socket, sys
for place in sys.argv[1:]:
    host, _, port = place.rpartition(":")
    try:
        socket.create_connection((host, int(port)), 5).close()
        print(place, "reached")
    except OSError as error:
        print(place, type(error).__name__)
"""
KILLED = """
import asyncio, os, signal
from nemo_evaluator.core.types import SandboxSpec
from nemo_evaluator.sandbox._backend import Limits
from nemo_evaluator.sandbox._reaper import Reaper
from nemo_evaluator.sandbox.docker import DockerSandbox

async def main():
    box = DockerSandbox(SandboxSpec(image="nel-test/python:bookworm"), "r", settings=Limits(network="bridge"))
    box.reaper = Reaper()
    await box.start()
    print(box.name, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


async def _networks() -> set[str]:
    api = DockerApi()
    try:
        listed = await api.call("GET", "/networks", filters={"label": ["nel.owner"]})
        return {one["Name"] for one in listed or ()}
    finally:
        await api.aclose()


@pytest.mark.needs("docker", "root")
async def test_agents_of_two_tasks_do_not_meet_and_reach_neither_host_nor_metadata() -> None:
    limits = Limits(memory=256 * 2**20, pids=48, network="bridge")
    boxes = [DockerSandbox(SandboxSpec(image=IMAGE), "test", settings=limits) for _ in range(2)]
    try:
        for box in boxes:
            await box.start()
        serving, asking = boxes
        assert {box.name for box in boxes} <= await _networks()
        await serving.exec(f'python3 -c "{SERVE}" >/dev/null 2>&1 &', background=True)
        own = await serving.exec(["python3", "-c", CONNECT, "127.0.0.1:8000"])
        for _ in range(100):
            if "reached" in own.stdout:
                break
            own = await serving.exec(["python3", "-c", CONNECT, "127.0.0.1:8000"])
        assert "reached" in own.stdout
        # What the host itself can reach, a solver for instance.
        _, writer = await asyncio.open_connection(str(serving.container_ip), 8000)
        writer.close()
        gateway = str(asking.container_ip).rpartition(".")[0]
        last = int(str(asking.container_ip).rpartition(".")[2])
        with socket.create_server((f"{gateway}.{last - 1}", 0)) as host:
            places = [
                f"{serving.container_ip}:8000",
                f"{gateway}.{last - 1}:{host.getsockname()[1]}",
            ]
            places += [
                "169.254.169.254:80",
                "172.17.0.1:1",
                "10.0.0.1:1",
                "192.168.0.1:1",
                "100.100.100.200:80",
            ]
            found = await asking.exec(["python3", "-c", CONNECT, *places], timeout=60)
        assert found.stdout.splitlines() == [f"{place} ConnectionRefusedError" for place in places]
        six = await asking.exec(["python3", "-c", CONNECT, "fd00:ec2::254:80"])
        assert "reached" not in six.stdout
        changed = await asking.exec(
            "iptables -F OUTPUT; ip route; nft flush ruleset; true", user="0"
        )
        assert changed.return_code == 0
        again = await asking.exec(["python3", "-c", CONNECT, places[0]], user="0", timeout=60)
        assert "reached" not in again.stdout
    finally:
        for box in boxes:
            await box.stop()
    assert not {box.name for box in boxes} & await _networks()


@pytest.mark.needs("docker", "root")
async def test_a_killed_evaluator_leaves_no_network() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", KILLED], capture_output=True, text=True, timeout=120
    )
    name = ended.stdout.strip()
    assert name, ended.stderr
    async with asyncio.timeout(60):
        while name in await _networks():
            await asyncio.sleep(0.1)


def test_there_is_room_for_more_networks_than_sandboxes() -> None:
    assert ROOM == 16_384
    subnets = {subnet_of(number) for number in range(ROOM)}
    assert len(subnets) == ROOM
    assert all(subnet.subnet_of(POOL) and subnet.num_addresses == 8 for subnet in subnets)


@pytest.mark.needs("docker", "root")
async def test_many_networks_are_there_at_once() -> None:
    api = DockerApi()
    # Docker's own pools have room for about thirty.
    names = [f"nel-test-{os.getpid()}-{number}" for number in range(64 if ALL else 4)]
    try:
        await asyncio.gather(*(create_network(api, name, {"nel.test": "1"}) for name in names))
    finally:
        for name in names:
            await remove_network(api, name)
        await api.aclose()


def test_what_a_config_allows_is_reached_and_metadata_never_is() -> None:
    lines = rules(["10.1.0.0/16"]).splitlines()
    assert lines.index("-A OUTPUT -d 10.1.0.0/16 -j ACCEPT") < lines.index(
        "-A OUTPUT -d 10.0.0.0/8 -j REJECT"
    )
    assert lines.index("-A OUTPUT -d 169.254.0.0/16 -j REJECT") < lines.index(
        "-A OUTPUT -d 10.1.0.0/16 -j ACCEPT"
    )
    assert not [line for line in rules().splitlines() if "ACCEPT" in line and " -d 10.1" in line]


def test_a_range_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match=r"10\.1\.0\.0/16"):
        DockerConfig(type="docker", private_networks=["10.0.0.1/8; x"])
