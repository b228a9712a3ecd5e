"""Sandboxes of every kind that can be had, small ones, each stopped after its test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from nemo_evaluator.core.types import SandboxSpec
from nemo_evaluator.sandbox._keeper import KeeperClient
from nemo_evaluator.sandbox.base import OutsideEndpoint, Sandbox
from nemo_evaluator.sandbox.docker import DockerSandbox, DockerSettings
from nemo_evaluator.sandbox.local import LocalSandbox, LocalSettings

IMAGE = "nel-test/python:bookworm"
MEMORY = 256 * 2**20
PIDS = 48
KINDS = [
    pytest.param("local", marks=[pytest.mark.needs("bwrap")]),
    pytest.param("docker", marks=[pytest.mark.needs("docker")]),
]

Make = Callable[..., Awaitable[Sandbox]]


@pytest.fixture
async def keeper() -> AsyncIterator[KeeperClient]:
    """A keeper for local sandboxes; nothing of it is left afterwards."""
    client = KeeperClient()
    yield client
    await client.close()


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    """The kind of sandbox."""
    return str(request.param)


@pytest.fixture
async def make(kind: str, keeper: KeeperClient) -> AsyncIterator[Make]:
    """Start a sandbox of the kind."""
    started: list[Sandbox] = []

    async def start(
        spec: SandboxSpec | None = None, endpoints: tuple[OutsideEndpoint, ...] = (), **settings: Any
    ) -> Sandbox:
        spec = spec or SandboxSpec()
        sandbox: Sandbox
        if kind == "local":
            limits = {"memory": MEMORY, "pids": PIDS, **settings}
            sandbox = LocalSandbox(spec, "test", settings=LocalSettings(**limits), keeper=keeper)
        else:
            spec.image = spec.image or IMAGE
            limits = {"memory": MEMORY, "pids": PIDS, "network": "none", **settings}
            sandbox = DockerSandbox(spec, "test", settings=DockerSettings(**limits))
        started.append(sandbox)
        await sandbox.start(outside_endpoints=endpoints)
        return sandbox

    yield start
    for sandbox in started:
        await sandbox.stop()


@pytest.fixture
async def sandbox(make: Make) -> Sandbox:
    """A started sandbox."""
    return await make()
