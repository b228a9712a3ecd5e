"""Sandboxes of every kind that can be had, small ones, each stopped after its test."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from nemo_evaluator.core.types import SandboxSpec
from nemo_evaluator.sandbox._backend import Limits
from nemo_evaluator.sandbox._clients import NodeSlots
from nemo_evaluator.sandbox._keeper_client import KeeperClient
from nemo_evaluator.sandbox.apptainer import ApptainerSandbox
from nemo_evaluator.sandbox.base import OutsideEndpoint, Sandbox
from nemo_evaluator.sandbox.docker import DockerSandbox
from nemo_evaluator.sandbox.local import LocalSandbox
from nemo_evaluator.sandbox.slurm import SlurmSandbox

IMAGE = "nel-test/python:bookworm"
PARTS = Path(os.environ.get("NEL_PARTS_DIR") or Path(__file__).parents[2] / ".parts")
SIF = PARTS / "images" / "python-bookworm.sif"
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


@pytest.fixture(scope="session")
def slurm_job() -> Iterator[str]:
    """A job on two nodes of the cluster: its number."""
    asked = ["salloc", "--no-shell", "--nodes=2", "--ntasks-per-node=2", "--mem=1500M", "--time=30"]
    said = subprocess.run(asked, capture_output=True, text=True, timeout=60, check=True).stderr
    job = re.findall(r"job allocation (\d+)", said)[-1]
    yield job
    subprocess.run(["scancel", job], check=True, timeout=60)


@pytest.fixture
def slurm_nodes(slurm_job: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The nodes of the job, as the batch script names them."""
    asked = ["squeue", "-h", "-j", slurm_job, "-o", "%N"]
    text = subprocess.run(
        asked, capture_output=True, text=True, timeout=60, check=True
    ).stdout.strip()
    names = subprocess.run(
        ["scontrol", "show", "hostnames", text], capture_output=True, text=True, check=True
    ).stdout
    monkeypatch.setenv("SLURM_JOB_ID", slurm_job)
    monkeypatch.setenv("NEL_SANDBOX_NODES", ",".join(names.split()))
    # Where the nodes of this cluster find enroot.
    monkeypatch.setenv("PATH", f"{Path(os.environ['SLURM_CONF']).parent}/bin:{os.environ['PATH']}")
    return names.split()


@pytest.fixture
async def make(
    kind: str, keeper: KeeperClient, request: pytest.FixtureRequest
) -> AsyncIterator[Make]:
    """Start a sandbox of the kind."""
    started: list[Sandbox] = []

    async def start(
        spec: SandboxSpec | None = None,
        endpoints: tuple[OutsideEndpoint, ...] = (),
        **settings: Any,
    ) -> Sandbox:
        spec = spec or SandboxSpec()
        sandbox: Sandbox
        if kind == "local":
            limits = {"memory": MEMORY, "pids": PIDS, **settings}
            sandbox = LocalSandbox(spec, "test", settings=Limits(**limits), keeper=keeper)
        elif kind == "slurm":
            spec.image = spec.image or IMAGE
            slots = NodeSlots(request.getfixturevalue("slurm_nodes"), 2)
            sandbox = SlurmSandbox(
                spec, "test", settings=Limits(memory=MEMORY, cpus=1), slots=slots
            )
        elif kind == "apptainer":
            sandbox = ApptainerSandbox(
                spec, "test", settings=Limits(memory=MEMORY, cpus=1), image_file=SIF
            )
        else:
            spec.image = spec.image or IMAGE
            limits = {"memory": MEMORY, "pids": PIDS, "network": "none", **settings}
            sandbox = DockerSandbox(spec, "test", settings=Limits(**limits))
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
