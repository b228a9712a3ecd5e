"""Sandboxes in a real Apptainer, here and on the nodes of a SLURM job."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from nemo_evaluator.core.errors import SandboxError
from nemo_evaluator.core.processes import start_time
from nemo_evaluator.core.types import SandboxSpec, SeedResult
from nemo_evaluator.sandbox import _wrapper
from nemo_evaluator.sandbox._backend import Limits
from nemo_evaluator.sandbox._clients import NodeSlots
from nemo_evaluator.sandbox.apptainer import ApptainerConfig, ApptainerSandbox
from nemo_evaluator.sandbox.base import ImageBuildRequest, ImageSpec, OutsideEndpoint
from nemo_evaluator.sandbox.manager import SandboxManager

PARTS = Path(os.environ.get("NEL_PARTS_DIR") or Path(__file__).parents[2] / ".parts")
SIF = PARTS / "images" / "python-bookworm.sif"
MEMORY = 128 * 2**20
HOLDER = """
import asyncio, sys
from nemo_evaluator.config import ApptainerSandbox
from nemo_evaluator.sandbox.manager import SandboxManager

async def main():
    manager = SandboxManager(ApptainerSandbox(type="apptainer", image=sys.argv[1], memory="64m", cpus=1), "r")
    boxes = await asyncio.gather(*(manager.acquire(manager.resolve(None)) for _ in range(2)))
    for box in boxes:
        await box.exec(f"sleep {sys.argv[2]} & true", background=True)
        asyncio.ensure_future(box.exec("env -i setsid sleep {0} & sleep {0}".format(sys.argv[2]), timeout=600))
    await asyncio.sleep(1)
    print(" ".join(box.name for box in boxes), flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""

pytestmark = pytest.mark.needs("apptainer")


def _sleepers(seconds: str) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if path.read_bytes().startswith(b"sleep\x00" + seconds.encode()):
                found.append(int(path.parent.name))
        except OSError:
            continue
    return [pid for pid in found if start_time(pid)]


@pytest.fixture
def tiny(tmp_path: Path) -> Iterator[str]:
    """An image in the docker engine that is small enough to be converted in a moment."""
    tree = tmp_path / "tiny.tar"
    needed = {
        "bin/sh",
        "usr/bin/dash",
        "usr/bin/sh",
        "usr/bin/env",
        "usr/bin/cat",
        "usr/bin/mkdir",
        "usr/bin/sleep",
    }
    with (
        tarfile.open(PARTS / "images" / "python-bookworm.tar") as whole,
        tarfile.open(tree, "w") as small,
    ):
        for member in whole:
            name = member.name.removeprefix("./")
            library = "/libc.so" in name or "/ld-linux" in name or "/libc-" in name
            if (
                name in needed
                or library
                or (member.issym() and "/" not in name)
                or (member.isdir() and name.count("/") < 3)
            ):
                small.addfile(member, whole.extractfile(member) if member.isreg() else None)
    name = f"nel-test/tiny:{os.getpid()}"
    subprocess.run(
        ["docker", "import", str(tree), name], check=True, capture_output=True, timeout=60
    )
    yield name
    subprocess.run(["docker", "rmi", name], check=True, capture_output=True, timeout=60)


@pytest.mark.needs("docker")
async def test_images_are_converted_once_and_whole_or_not_at_all(tiny: str, tmp_path: Path) -> None:
    cache = tmp_path / "sif"
    image = f"docker-daemon://{tiny}"
    manager = SandboxManager(
        ApptainerConfig(type="apptainer", sif_cache_dir=str(cache), memory="64m", cpus=1), "run"
    )
    try:
        with pytest.raises(SandboxError, match="apptainer failed"):
            await manager.acquire(SandboxSpec(image="docker-daemon://nel-test/nowhere:1"))
        assert list(cache.iterdir()) == []
        with pytest.raises(SandboxError, match="does not exist"):
            await manager.acquire(SandboxSpec(image="/nowhere.sif"))
        under_way = asyncio.ensure_future(manager._provider.ensure_image(image))
        while not list(cache.iterdir()):
            await asyncio.sleep(0.01)
        under_way.cancel()
        with pytest.raises(asyncio.CancelledError):
            await under_way
        assert list(cache.iterdir()) == []
        sandbox = await manager.acquire(SandboxSpec(image=image))
        assert (await sandbox.exec(["cat"], stdin=b"in")).stdout == "in"
        await manager.release(sandbox)
        (made,) = cache.iterdir()
        before = made.stat()
        await SandboxManager(manager.config, "again").ensure_image(image)
        assert made.stat() == before
        made.unlink()
        built: list[str] = []
        request = ImageBuildRequest(
            [ImageSpec(tiny)], lambda specs: built.extend(spec.image for spec in specs)
        )
        await manager._provider.build_images([request])
        assert built == [tiny]
        assert [path.suffix for path in cache.iterdir()] == [".sif"]
    finally:
        await manager.close()


async def test_values_reach_the_inside_as_they_are_and_never_a_command_line() -> None:
    value = "x y; $(touch /workspace/evil) `id` ${HOME} 'q' \"d\"\\n\nnext"
    async with ApptainerSandbox(
        SandboxSpec(), settings=Limits(memory=MEMORY, cpus=1), image_file=SIF
    ) as box:
        running = asyncio.ensure_future(box.exec("sleep 1", env={"A": value}))
        await asyncio.sleep(0.6)
        lines = b"".join(
            path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()
        )
        assert b"touch /workspace/evil" not in lines
        await running
        result = await box.exec('printf %s "$A"; ls /workspace', env={"A": value, "token": "t"})
        assert (result.stdout, result.stderr) == (value, "")
        assert (
            await box.exec("echo $token $HOME $PWD", env={"token": "t"})
        ).stdout == "t /tmp/.home /workspace\n"
        with pytest.raises(SandboxError, match="no user"):
            await box.exec("true", user="root")


async def test_want_of_memory_is_told() -> None:
    async with ApptainerSandbox(
        SandboxSpec(), settings=Limits(memory=MEMORY, cpus=1), image_file=SIF
    ) as box:
        for _ in range(2):
            result = await box.exec(["python3", "-c", "x = bytearray(300 * 2**20)"])
            assert (result.exit_code, result.out_of_memory) == (137, True)
        assert (await box.exec("false")).out_of_memory is False


@pytest.mark.needs("root")
async def test_the_kernel_of_the_host_cannot_be_changed() -> None:
    async with ApptainerSandbox(
        SandboxSpec(), settings=Limits(memory=MEMORY, cpus=1), image_file=SIF
    ) as box:
        # The value it has, so that a hole does no harm.
        script = (
            "cat /proc/sys/kernel/panic > /tmp/v; cat /tmp/v > /proc/sys/kernel/panic && echo changed; "
            "find /proc/sys /proc/irq /sys -type f -writable 2>/dev/null | head -n 3"
        )
        assert (await box.exec(script)).stdout == ""


async def test_what_a_command_hides_does_not_outlive_it() -> None:
    async with ApptainerSandbox(
        SandboxSpec(), settings=Limits(memory=MEMORY, cpus=1), image_file=SIF
    ) as box:
        await box.exec("env -i setsid sleep 976532 & sleep 60", timeout=0.8)
        await box.exec("(env -i setsid sleep 976532 >/dev/null 2>&1 &); sleep 0.1")
        listing = "for f in /proc/[0-9]*/cmdline; do tr '\\0' ' ' < $f; echo; done"
        assert "sleep 976532" not in (await box.exec(listing)).stdout


async def test_an_instance_that_is_gone_is_no_failure_of_the_command() -> None:
    box = ApptainerSandbox(SandboxSpec(), settings=Limits(memory=MEMORY, cpus=1), image_file=SIF)
    await box.start()
    subprocess.run(
        ["apptainer", "instance", "stop", box.name], check=True, capture_output=True, timeout=60
    )
    with pytest.raises(SandboxError, match="no instance found"):
        await box.exec("true")
    await box.stop()


async def test_a_command_that_takes_all_words_of_its_wrapper_has_failed_and_not_its_sandbox() -> (
    None
):
    """It may read its own stdout and stderr, which are pipes, before we do."""
    async with ApptainerSandbox(
        SandboxSpec(), settings=Limits(memory=MEMORY, cpus=1), image_file=SIF
    ) as box:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(_wrapper, "_WRAP", _wrapper._WRAP.replace("printf", ": printf"))
            result = await box.exec("echo said; exit 0")
        assert (result.exit_code, result.timed_out) == (137, False)
        assert (await box.exec("echo alive")).stdout == "alive\n"


@pytest.mark.parametrize("nodes", [False, pytest.param(True, marks=pytest.mark.needs("slurm"))])
def test_kill_9_leaves_no_instance(nodes: bool, request: pytest.FixtureRequest) -> None:
    if nodes:
        request.getfixturevalue("slurm_nodes")
    # No other test's.
    seconds = str(900_000_000 + os.getpid())
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(SIF), seconds], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    names = process.stdout.readline().split()
    assert len(names) == 2
    assert len(_sleepers(seconds)) >= 4
    began = time.monotonic()
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()
    while _sleepers(seconds):
        assert time.monotonic() - began < 15
        time.sleep(0.1)
    listed = subprocess.run(
        ["apptainer", "instance", "list"], capture_output=True, text=True, timeout=30
    ).stdout
    assert not any(name in listed for name in names)
    if nodes:
        steps = ["squeue", "-h", "-s", "-o", "%j"]
        while set(names) & set(
            subprocess.run(steps, capture_output=True, text=True, timeout=30).stdout.split()
        ):
            assert time.monotonic() - began < 15
            time.sleep(0.1)


@pytest.mark.needs("slurm")
async def test_on_nodes_of_a_job(slurm_nodes: list[str]) -> None:
    config = ApptainerConfig(
        type="apptainer", image=str(SIF), memory="64m", cpus=1, slots_per_node=1
    )
    manager = SandboxManager(config, "run")
    endpoint = OutsideEndpoint("http://127.0.0.1:81/v1", "MODEL_BASE_URL")
    try:
        boxes = await asyncio.gather(
            *(manager.acquire(manager.resolve(None), [endpoint]) for _ in range(2))
        )
        said = [
            await box.exec("echo $MODEL_BASE_URL $A; echo oops >&2; exit 3", env={"A": "$x"})
            for box in boxes
        ]
        url = NodeSlots.from_node(endpoint.url)
        assert [(one.exit_code, one.stdout, one.stderr) for one in said] == [
            (3, f"{url} $x\n", "oops\n")
        ] * 2
        assert sorted(box.place.node for box in boxes) == slurm_nodes  # type: ignore[attr-defined]
        late = await boxes[0].exec("echo said; sleep 60", timeout=1.5)
        assert (late.timed_out, late.stdout, late.stderr) == (True, "said\n", "")
        await boxes[0].upload(b"bytes", "d/f")
        assert (await boxes[0].exec("cat d/f")).stdout == "bytes"
    finally:
        await manager.close()


async def test_it_says_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEL_SANDBOX_NODES", "a,b")
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    with pytest.raises(SandboxError, match="not inside a SLURM job"):
        await SandboxManager(ApptainerConfig(type="apptainer", image="x"), "run").check()
    monkeypatch.delenv("NEL_SANDBOX_NODES")
    (tmp_path / "apptainer").write_text("#!/bin/sh\necho apptainer version 1.0.3\n")
    (tmp_path / "apptainer").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    manager = SandboxManager(ApptainerConfig(type="apptainer", image="x"), "run")
    with pytest.raises(SandboxError, match="too old"):
        await manager.check()
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(SandboxError, match="not installed"):
        await manager.check()
    await manager.close()


async def test_work_is_carried_into_a_fresh_sandbox() -> None:
    config = ApptainerConfig(type="apptainer", image=str(SIF), memory="100m", cpus=1)
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
