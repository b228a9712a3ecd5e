"""What a sandbox costs: starting one, running a command in it, and scoring code, beside the bare command."""

from __future__ import annotations

import asyncio
import os
import statistics
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from nemo_evaluator.core.errors import SandboxError
from nemo_evaluator.core.types import SandboxSpec, SeedResult
from nemo_evaluator.sandbox._backend import Limits
from nemo_evaluator.sandbox._keeper_client import KeeperClient
from nemo_evaluator.sandbox.docker import DockerSandbox
from nemo_evaluator.sandbox.local import LocalConfig, LocalSandbox
from nemo_evaluator.sandbox.manager import SandboxManager
from nemo_evaluator.scoring import ScorerInput, code_sandbox_async

COMMAND = ["/usr/bin/python3", "-c", "print(1)"]
IMAGE = "nel-test/python:bookworm"
ROUNDS = 30
PROBLEMS = 200
PROGRAM = "def add(a, b):\n    return a + b\n"
META = {"_prompt": "", "_test": "def check(f):\n    assert f(1, 2) == 3\n", "_entry_point": "add"}

Act = Callable[[], Awaitable[None]]


def rows() -> list[dict[str, object]]:
    """Start and exec costs per backend as ratios to the bare command, and code problems per second."""
    found = asyncio.run(_local())
    if _engine():
        found += asyncio.run(_docker())
    return found


def _engine() -> bool:
    # The engine of the test parts, where no other is named.
    own = f"/tmp/nel-docker-{os.getuid()}/docker.sock"
    if (
        "DOCKER_HOST" not in os.environ
        and not Path("/var/run/docker.sock").exists()
        and Path(own).exists()
    ):
        os.environ["DOCKER_HOST"] = f"unix://{own}"
    return "DOCKER_HOST" in os.environ or Path("/var/run/docker.sock").exists()


async def _bare() -> None:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*COMMAND, stdout=pipe, stderr=pipe)
    await process.communicate()


async def _medians(acts: dict[str, Act], rounds: int) -> dict[str, float]:
    """The median of each act in milliseconds; taken in turn, so that a busy moment falls on all alike."""
    times: dict[str, list[float]] = {name: [] for name in acts}
    for _ in range(rounds):
        for name, act in acts.items():
            began = time.perf_counter()
            await act()
            times[name].append((time.perf_counter() - began) * 1e3)
    return {name: statistics.median(values) for name, values in times.items()}


async def _local() -> list[dict[str, object]]:
    keeper = KeeperClient()
    warm_box = LocalSandbox(SandboxSpec(), keeper=keeper)

    async def fresh() -> None:
        async with LocalSandbox(SandboxSpec(), keeper=keeper) as box:
            assert (await box.exec(COMMAND)).stdout == "1\n"

    async def warm() -> None:
        assert (await warm_box.exec(COMMAND)).stdout == "1\n"

    try:
        await warm_box.start()
        cost = await _medians({"bare": _bare, "warm": warm, "fresh": fresh}, ROUNDS)
    finally:
        await warm_box.stop()
        await keeper.close()
    bare = cost["bare"]
    speed, ceiling = await _problems_per_second(), await _bare_per_second()
    return [
        {"name": "sandbox: bare python", "value": bare, "unit": "ms"},
        {
            "name": "sandbox: local, fresh",
            "value": cost["fresh"] / bare,
            "unit": "x bare",
            "limit": 1.8,
        },
        {
            "name": "sandbox: local, warm",
            "value": cost["warm"] / bare,
            "unit": "x bare",
            "limit": 1.2,
        },
        {
            "name": "sandbox: code, local",
            "value": speed,
            "unit": "problems/s",
            "limit": 40,
            "at_least": True,
        },
        {"name": "sandbox: bare python, four at once", "value": ceiling, "unit": "runs/s"},
    ]


async def _problems_per_second() -> float:
    manager = SandboxManager(LocalConfig(type="local"), "bench")

    async def one(_: int) -> None:
        async with manager.session(SeedResult("", "")) as session:
            score = await code_sandbox_async(
                ScorerInput(PROGRAM, "add", META), await session.for_verify()
            )
            assert score["correct"], score

    try:
        await one(0)
        began = time.perf_counter()
        await asyncio.gather(*map(one, range(PROBLEMS)))
        return PROBLEMS / (time.perf_counter() - began)
    finally:
        await manager.close()


async def _bare_per_second() -> float:
    """The ceiling: how many interpreters this machine starts per second at this moment."""
    room = asyncio.Semaphore(4)

    async def one(_: int) -> None:
        async with room:
            await _bare()

    began = time.perf_counter()
    await asyncio.gather(*map(one, range(PROBLEMS // 2)))
    return PROBLEMS / 2 / (time.perf_counter() - began)


async def _docker() -> list[dict[str, object]]:
    settings = Limits(network="none", memory=2**28)
    spec = SandboxSpec(image=IMAGE)
    warm_box = DockerSandbox(spec, settings=settings)

    async def fresh() -> None:
        async with DockerSandbox(spec, settings=settings) as box:
            assert (await box.exec(["python3", "-c", "print(1)"])).stdout == "1\n"

    async def warm() -> None:
        assert (await warm_box.exec(["python3", "-c", "print(1)"])).stdout == "1\n"

    try:
        await warm_box.start()
    except SandboxError:
        return []
    try:
        cost = await _medians({"bare": _bare, "warm": warm, "fresh": fresh}, 8)
    finally:
        await warm_box.stop()
    return [
        {"name": "sandbox: docker, fresh", "value": cost["fresh"] / cost["bare"], "unit": "x bare"},
        {"name": "sandbox: docker, warm", "value": cost["warm"] / cost["bare"], "unit": "x bare"},
    ]
