"""Nothing outlives a killed run."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from nemo_evaluator.cli.sandbox import sandbox as sandbox_command
from nemo_evaluator.core.errors import SandboxError
from nemo_evaluator.core.processes import start_time, wait_gone
from nemo_evaluator.core.types import SandboxSpec
from nemo_evaluator.sandbox._backend import Limits
from nemo_evaluator.sandbox._clients import NodeSlots
from nemo_evaluator.sandbox._container import ContainerSandbox
from nemo_evaluator.sandbox._docker_api import DockerApi
from nemo_evaluator.sandbox._keeper_client import KeeperClient, state_root
from nemo_evaluator.sandbox._reaper import Reaper
from nemo_evaluator.sandbox.apptainer import ApptainerSandbox
from nemo_evaluator.sandbox.inventory import find_sandboxes, remove_sandboxes, sweep
from nemo_evaluator.sandbox.local import LocalSandbox
from nemo_evaluator.sandbox.slurm import SlurmSandbox

IMAGE = "nel-test/python:bookworm"
PARTS = Path(os.environ.get("NEL_PARTS_DIR") or Path(__file__).parents[2] / ".parts")
SIF = PARTS / "images" / "python-bookworm.sif"
HOLDER = """
import asyncio, sys
from nemo_evaluator.config import {config}
from nemo_evaluator.core.types import SandboxSpec
from nemo_evaluator.sandbox.manager import SandboxManager

async def main():
    manager = SandboxManager({config}(type="{kind}", {options}), "{run}")
    spec = SandboxSpec(image="{image}")
    boxes = await asyncio.gather(*(manager.acquire(spec) for _ in range({count})))
    for box in boxes:
        asyncio.ensure_future(box.exec("setsid sleep 987654 & sleep 987654", timeout=600))
    await asyncio.sleep(2)
    print("up", flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


def _hold(**values: object) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER.format(**values)], stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"up\n"
    return process


def _kill(process: subprocess.Popen[bytes]) -> None:
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert process.stdout is not None
    process.stdout.close()


def _records(pid: int) -> list[dict[str, object]]:
    return [json.loads(file.read_text()) for file in state_root().glob(f"{pid}-*/*.json")]


def _alive(folders: list[Path]) -> int:
    return sum(
        len((folder / "cgroup.procs").read_text().split()) for folder in folders if folder.exists()
    )


@pytest.mark.needs("bwrap")
def test_kill_9_leaves_no_local_sandbox() -> None:
    process = _hold(
        config="LocalSandbox", kind="local", options="concurrency=20", run="r", image="", count=20
    )
    records = _records(process.pid)
    wardens = [int(str(record["pid"])) for record in records]
    folders = [Path(path) for record in records for path, _ in record["groups"]]  # type: ignore[attr-defined]
    assert len(records) == 20
    assert all(start_time(pid) for pid in wardens)
    assert not folders or _alive(folders) >= 60
    began = time.monotonic()
    _kill(process)
    assert all(wait_gone(pid, 10) for pid in wardens)
    while any(folder.exists() for folder in folders) or _records(process.pid):
        assert time.monotonic() - began < 10
        time.sleep(0.05)


@pytest.mark.needs("docker")
async def test_kill_9_leaves_no_container() -> None:
    options = "concurrency=4, memory='64m', network='none'"
    image = "nel-test/python:bookworm"
    run = f"r{os.getpid()}"
    process = await asyncio.to_thread(
        _hold, config="DockerSandbox", kind="docker", options=options, run=run, image=image, count=4
    )
    api = DockerApi()
    try:
        query = {"all": True, "filters": {"label": [f"nel.run_id={run}"]}}
        assert len(await api.call("GET", "/containers/json", **query)) == 4
        began = time.monotonic()
        _kill(process)
        while await api.call("GET", "/containers/json", **query):
            assert time.monotonic() - began < 10
            await asyncio.sleep(0.1)
    finally:
        await api.aclose()


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=pytest.mark.needs(kind)) for kind in ("apptainer", "slurm")]
)
async def test_gc_knows_sandboxes_that_a_command_removes(
    kind: str, request: pytest.FixtureRequest
) -> None:
    limits, reaper = Limits(memory=2**27, cpus=1), Reaper()
    box: ContainerSandbox
    if kind == "slurm":
        slots = NodeSlots(request.getfixturevalue("slurm_nodes"), 1)
        box = SlurmSandbox(
            SandboxSpec(image=IMAGE), "gc", settings=limits, slots=slots, reaper=reaper
        )
    else:
        box = ApptainerSandbox(SandboxSpec(), "gc", settings=limits, image_file=SIF, reaper=reaper)
    await box.start()
    try:
        (found,) = (one for one in await find_sandboxes() if one.name == box.name)
        assert (found.kind, found.run_id, found.orphan) == (kind, "gc", False)
        # As if the run had been killed, and whoever cleans up behind it too.
        file, record = found.handle
        file.write_text(json.dumps({**record, "began": 1}))
        (orphan,) = (one for one in await find_sandboxes() if one.name == box.name)
        assert orphan.orphan
        assert await remove_sandboxes([orphan]) == [orphan]
        assert not any(one.name == box.name for one in await find_sandboxes())
        with pytest.raises(SandboxError):
            await box.exec("true")
    finally:
        await box.stop()
        await reaper.close()


@pytest.mark.needs("bwrap", "root")
async def test_gc_removes_what_a_dead_keeper_left(keeper: KeeperClient) -> None:
    box = LocalSandbox(SandboxSpec(), "test", keeper=keeper)
    await box.start()
    listed = [one for one in await find_sandboxes() if one.name == box.name]
    assert not listed[0].orphan
    assert listed[0].run_id == "test"
    assert keeper._process is not None
    pid = keeper._process.pid
    os.kill(pid, signal.SIGKILL)
    assert await asyncio.to_thread(wait_gone, pid, 5)
    orphan = next(one for one in await find_sandboxes() if one.name == box.name)
    assert orphan.orphan
    assert await remove_sandboxes([orphan]) == [orphan]
    assert not any(one.name == box.name for one in await find_sandboxes())
    await box.stop()
    # The sandbox that the keeper had ready for the next one has no record; its group is found by the keeper's number.
    assert sweep() >= 0
    assert not list(Path("/sys/fs/cgroup").glob(f"*/nel-{pid}-*"))


@pytest.mark.needs("bwrap")
def test_the_command_lists_sandboxes() -> None:
    process = _hold(
        config="LocalSandbox", kind="local", options="", run="shown-run", image="", count=1
    )
    try:
        lines = CliRunner().invoke(sandbox_command, ["ls", "--json"]).output.splitlines()
        mine = [json.loads(line) for line in lines if "shown-run" in line]
        assert [(one["kind"], one["orphan"], one["owner"]) for one in mine] == [
            ("local", False, f"pid {process.pid}")
        ]
        assert "shown-run" in CliRunner().invoke(sandbox_command, ["ls"]).output
    finally:
        _kill(process)
