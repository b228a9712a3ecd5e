"""Sandboxes in a real SLURM job; only Pyxis is stood in for, by a SPANK plugin of the test cluster."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from nemo_evaluator.core.errors import SandboxError
from nemo_evaluator.core.types import SandboxSpec, SeedResult
from nemo_evaluator.sandbox._backend import Limits
from nemo_evaluator.sandbox._clients import NodeSlots
from nemo_evaluator.sandbox.base import OutsideEndpoint
from nemo_evaluator.sandbox.manager import SandboxManager
from nemo_evaluator.sandbox.slurm import SlurmConfig, SlurmSandbox

IMAGE = "nel-test/python:bookworm"
INSIDE = """
import asyncio, json
from nemo_evaluator.config import SlurmSandbox
from nemo_evaluator.sandbox.manager import SandboxManager

async def main():
    manager = SandboxManager(SlurmSandbox(type="slurm", image="nel-test/python:bookworm", memory="100m", cpus=1), "r")
    boxes = await asyncio.gather(*(manager.acquire(manager.resolve(None)) for _ in range(2)))
    said = [(await box.exec("echo $SLURMD_NODENAME; echo problem >&2; exit 3")) for box in boxes]
    await manager.close()
    print(json.dumps([[one.exit_code, one.stdout.strip(), one.stderr] for one in said]))

asyncio.run(main())
"""
HOLDER = """
import asyncio
from nemo_evaluator.config import SlurmSandbox
from nemo_evaluator.sandbox.manager import SandboxManager

async def main():
    manager = SandboxManager(SlurmSandbox(type="slurm", image="nel-test/python:bookworm", memory="64m", cpus=1), "r")
    boxes = await asyncio.gather(*(manager.acquire(manager.resolve(None)) for _ in range(3)))
    for box in boxes:
        asyncio.ensure_future(box.exec("env -i setsid sleep 986532 & sleep 986532", timeout=600))
        await box.exec("sleep 986532 & true", background=True)
    print(" ".join(box.name for box in boxes), flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""

pytestmark = pytest.mark.needs("slurm")


def _run(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout


def _containers() -> set[str]:
    return {path.name for path in Path(os.environ["SLURM_CONF"]).parent.glob("enroot/*/*")}


def _sleepers(seconds: str) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command, *arguments = path.read_bytes().split(b"\0")
            if command.endswith(b"sleep") and arguments[:1] == [seconds.encode()]:
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found


async def test_a_run_leaves_nothing_on_the_nodes(slurm_nodes: list[str]) -> None:
    config = SlurmConfig(type="slurm", image=IMAGE, memory="100m", cpus=1, slots_per_node=1)
    manager = SandboxManager(config, "run")
    before = _containers()
    try:
        first, second = await asyncio.gather(
            *(manager.acquire(manager.resolve(None)) for _ in range(2))
        )
        where = [
            (await box.exec("echo $SLURMD_NODENAME")).stdout.strip() for box in (first, second)
        ]
        assert sorted(where) == slurm_nodes
        assert len(_containers() - before) == 2
        # Every slot is taken: the third waits for one, and finds nothing of the one before.
        await first.exec("echo mine > /workspace/f; echo mine > /etc/f")
        third = asyncio.ensure_future(manager.acquire(manager.resolve(None)))
        await asyncio.sleep(0.3)
        assert not third.done()
        await manager.release(first)
        assert (await (await third).exec("cat /workspace/f /etc/f")).exit_code == 1
    finally:
        await manager.close()
    assert _containers() - before == set()
    step = second.name  # type: ignore[attr-defined]
    steps = _run("squeue", "-h", "-s", "-j", os.environ["SLURM_JOB_ID"], "-o", "%j").split()
    assert step not in steps


async def test_variables_arrive_whatever_the_image_sets_and_never_on_a_command_line(
    slurm_nodes: list[str],
) -> None:
    slots = NodeSlots(slurm_nodes, 1)
    secret = "x y; $(z) 'q' \"d\"\nnext"
    spec = SandboxSpec(
        image=IMAGE, env={"IMAGE": "ours"}, entrypoint="echo $IMAGE > /tmp/e; sleep 2147483647"
    )
    async with SlurmSandbox(spec, settings=Limits(memory=100 * 2**20, cpus=1), slots=slots) as box:
        script = "printf %s \"$A|$IMAGE|$token|$NEL_ENV_A\"; cat /tmp/e; tr '\\0' ' ' < /proc/self/cmdline"
        running = asyncio.ensure_future(box.exec("sleep 1", env={"A": secret}))
        await asyncio.sleep(0.5)
        lines = b"".join(
            path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()
        )
        assert b"$(z)" not in lines
        await running
        said = (await box.exec(script, env={"A": secret, "token": "t"})).stdout
        assert said.startswith(f"{secret}|ours|t|ours\n")
        with pytest.raises(SandboxError, match="cannot be a variable"):
            await box.exec("true", env={"A-B": "1"})
        with pytest.raises(SandboxError, match="no user"):
            await box.exec("true", user="root")


async def test_limits_hold_for_every_command(slurm_nodes: list[str]) -> None:
    if "task/cgroup" not in _run("scontrol", "show", "config"):
        pytest.skip("this cluster has no control groups")
    async with SlurmSandbox(
        SandboxSpec(image=IMAGE),
        settings=Limits(memory=100 * 2**20, cpus=1),
        slots=NodeSlots(slurm_nodes, 1),
    ) as box:
        for _ in range(2):
            result = await box.exec(["python3", "-c", "x = bytearray(300 * 2**20)"])
            assert (result.exit_code, result.out_of_memory) == (137, True)
            assert "srun" not in result.stderr
        fine = await box.exec("false")
        assert (fine.exit_code, fine.out_of_memory) == (1, False)


async def test_what_slurm_refuses_is_no_failure_of_the_command(slurm_nodes: list[str]) -> None:
    slots = NodeSlots(slurm_nodes, 1)
    with pytest.raises(SandboxError, match="Memory required"):
        await SlurmSandbox(
            SandboxSpec(image=IMAGE), settings=Limits(memory=2**40), slots=slots
        ).start()
    with pytest.raises(SandboxError, match="failed to import"):
        await SlurmSandbox(
            SandboxSpec(image="bad:1"), settings=Limits(memory=2**26, cpus=1), slots=slots
        ).start()
    with pytest.raises(SandboxError, match="/proc/nowhere"):
        nowhere = SandboxSpec(image=IMAGE, workdir="/proc/nowhere")
        await asyncio.wait_for(
            SlurmSandbox(nowhere, settings=Limits(memory=2**26, cpus=1), slots=slots).start(), 20
        )
    box = SlurmSandbox(SandboxSpec(image=IMAGE), settings=Limits(memory=2**26, cpus=1), slots=slots)
    await box.start()
    try:
        box.settings = Limits(memory=2**40, cpus=1)
        with pytest.raises(SandboxError, match=r"did not run the command.*Memory required"):
            await box.exec("true")
        box.settings = Limits(memory=2**26, cpus=1)
        listed = _run("squeue", "-h", "-s", "-o", "%j %i").splitlines()
        (step,) = (line.split()[1] for line in listed if line.startswith(box.name))
        subprocess.run(["scancel", "-s", "KILL", step], check=False, timeout=20)
        with pytest.raises(SandboxError, match="container on its node ended"):
            for _ in range(100):
                await box.exec("sleep 0.1")
    finally:
        await box.stop()
    taken = [await asyncio.wait_for(slots.take(), 1) for _ in slurm_nodes]
    assert len(taken) == len(slurm_nodes)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that everyone can reach: who is root inside is a plain user outside."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


async def test_folders_of_the_host_and_scratch_folders(
    slurm_nodes: list[str], open_folder: Path
) -> None:
    (open_folder / "f").write_text("hello")
    spec = SandboxSpec(
        image=IMAGE,
        workdir="/a/new/place",
        volumes=[
            {"host_path": str(open_folder), "container_path": "/in/data", "readonly": True},
            {"container_path": "/scratch"},
        ],
    )
    async with SlurmSandbox(
        spec, settings=Limits(memory=2**26, cpus=1), slots=NodeSlots(slurm_nodes, 1)
    ) as box:
        said = await box.exec(
            "pwd; cat /in/data/f; echo; touch /scratch/x && echo ok; touch /in/data/x || echo refused"
        )
    assert said.stdout == "/a/new/place\nhello\nok\nrefused\n"


@pytest.mark.parametrize("het", [False, True])
def test_from_within_a_batch_job(het: bool, tmp_path: Path) -> None:
    """With all that sbatch puts into the environment of a script, which srun reads too."""
    bin_dir = Path(os.environ["SLURM_CONF"]).parent / "bin"
    group = "NEL_SANDBOX_HET_GROUP=1 NEL_SANDBOX_NODES=$(scontrol show hostnames $SLURM_JOB_NODELIST_HET_GROUP_1)"
    alone = "NEL_SANDBOX_NODES=$(scontrol show hostnames | paste -sd,)"
    script = tmp_path / "job.sh"
    second = "#SBATCH hetjob\n#SBATCH --nodes=1 --mem=500M --ntasks=2\n" if het else ""
    script.write_text(
        f"#!/bin/bash\n#SBATCH --nodes={1 if het else 2} --ntasks-per-node=2 --mem-per-cpu=200M\n{second}"
        f"export PATH={bin_dir}:$PATH {group if het else alone}\n"
        f"exec {sys.executable} {tmp_path}/inside.py > {tmp_path}/out.json\n"
    )
    (tmp_path / "inside.py").write_text(INSIDE)
    log = tmp_path / "log"
    job = _run("sbatch", "--parsable", f"--output={log}", str(script)).split(";")[0].strip()
    until = time.monotonic() + 180
    # Not `sbatch --wait`, which looks every ten seconds.
    while _run("squeue", "-h", "-j", job, "-t", "pending,running,completing"):
        assert time.monotonic() < until, log.read_text()
        time.sleep(0.2)
    assert "JobState=COMPLETED" in _run("scontrol", "show", "job", job), log.read_text()
    rows = json.loads((tmp_path / "out.json").read_text())
    assert [(code, err) for code, _, err in rows] == [(3, "problem\n")] * 2
    assert len({node for _, node, _ in rows}) == (1 if het else 2)


def test_kill_9_leaves_nothing_on_the_nodes(slurm_nodes: list[str]) -> None:
    process = subprocess.Popen([sys.executable, "-c", HOLDER], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    names = process.stdout.readline().split()
    assert len(names) == 3
    # A step of somebody else in the same job, which is to live on.
    place = [
        "--overlap",
        f"--nodelist={slurm_nodes[0]}",
        "--nodes=1",
        "--ntasks=1",
        "--mem=10M",
        "--cpus-per-task=1",
    ]
    stranger = subprocess.Popen(["srun", *place, "sleep", "986533"])
    while not _sleepers("986533"):
        time.sleep(0.05)
    assert len(_sleepers("986532")) >= 6
    assert sum(any(name in one for name in names) for one in _containers()) == 3
    began = time.monotonic()
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()
    while _sleepers("986532") or any(name in one for one in _containers() for name in names):
        assert time.monotonic() - began < 15
        time.sleep(0.1)
    time.sleep(0.5)
    assert len(_sleepers("986533")) == 1
    stranger.terminate()
    stranger.wait(20)


async def test_it_says_what_is_missing(
    slurm_nodes: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = SlurmConfig(type="slurm", image="x")
    monkeypatch.delenv("SLURM_JOB_ID")
    with pytest.raises(SandboxError, match="not inside a SLURM job"):
        await SandboxManager(config, "run").check()
    monkeypatch.delenv("NEL_SANDBOX_NODES")
    with pytest.raises(SandboxError, match="no nodes"):
        await SandboxManager(config, "run").check()
    plain = tmp_path / "slurm.conf"
    lines = Path(os.environ["SLURM_CONF"]).read_text().splitlines()
    plain.write_text("\n".join(line for line in lines if not line.startswith("PlugStackConfig")))
    monkeypatch.setenv("SLURM_CONF", str(plain))
    with pytest.raises(SandboxError, match="no Pyxis"):
        await SandboxManager(config, "run").check()
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(SandboxError, match="srun is not installed"):
        await SandboxManager(config, "run").check()


async def test_an_endpoint_of_the_evaluator_is_reached_by_its_name(slurm_nodes: list[str]) -> None:
    box = SlurmSandbox(
        SandboxSpec(image=IMAGE),
        settings=Limits(memory=2**26, cpus=1),
        slots=NodeSlots(slurm_nodes, 1),
    )
    await box.start(
        outside_endpoints=[OutsideEndpoint("http://127.0.0.1:81/s/1", "MODEL_BASE_URL")]
    )
    try:
        said = (await box.exec("echo $MODEL_BASE_URL")).stdout.strip()
        assert (
            said
            == box.resolved_endpoint_url("MODEL_BASE_URL")
            == NodeSlots.from_node("http://127.0.0.1:81/s/1")
        )
    finally:
        await box.stop()


async def test_work_is_carried_into_a_fresh_sandbox(slurm_nodes: list[str]) -> None:
    config = SlurmConfig(type="slurm", image=IMAGE, memory="100m", cpus=1)
    manager = SandboxManager(config, "run")
    seed = SeedResult("p", "a", sandbox_spec=SandboxSpec(), verify_sandbox_spec=SandboxSpec())
    try:
        async with manager.session(seed) as session:
            assert session.agent is not None
            await session.agent.exec(
                "mkdir d; echo work > d/f; echo other > /tmp/not-carried; chmod 755 d/f"
            )
            verifier = await session.for_verify()
            assert verifier is not None
            said = (await verifier.exec("cat d/f; ls /tmp; test -x d/f && echo executable")).stdout
            assert said == "work\nexecutable\n"
        assert manager.live == 0
    finally:
        await manager.close()
