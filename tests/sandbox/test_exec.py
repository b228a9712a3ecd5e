"""The contract of exec and of transfers, the same for every kind."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from nemo_evaluator.core.errors import SandboxError
from nemo_evaluator.core.types import SandboxSpec
from nemo_evaluator.sandbox import _wrapper
from nemo_evaluator.sandbox.base import Sandbox
from nemo_evaluator.sandbox.local import LocalSandbox

HERE = [
    pytest.param("local", marks=pytest.mark.needs("bwrap")),
    pytest.param("docker", marks=pytest.mark.needs("docker")),
]
LISTING = "for f in /proc/[0-9]*/cmdline; do tr '\\0' ' ' < $f; echo; done"
KINDS = [
    *HERE,
    *(pytest.param(kind, marks=pytest.mark.needs(kind)) for kind in ("apptainer", "slurm")),
]


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    """Every kind that can be had, those of a cluster too."""
    return str(request.param)


async def test_output_and_exit_code_are_the_commands_own(sandbox: Sandbox) -> None:
    result = await sandbox.exec("echo out; echo err >&2; exit 3")
    assert (result.exit_code, result.stdout, result.stderr, result.ok) == (
        3,
        "out\n",
        "err\n",
        False,
    )
    assert (await sandbox.exec(["printf", "%s", "a b;c"])).stdout == "a b;c"
    assert (await sandbox.exec("kill -TERM $$")).exit_code == 128 + 15
    assert (await sandbox.exec(["no-such-command"])).exit_code == 127
    assert (await sandbox.exec(["/etc/passwd"])).exit_code == 126


FORGE = r"""
words=$(cat /proc/*/environ /proc/*/cmdline 2>/dev/null | tr '\0=' '\n\n' | grep -xE '[0-9a-f]{16}|[0-9]{5,}' | sort -u)
for word in $words; do
  for tag in '' ' 0' $(printf ' %s' $words); do
    printf '\0NEL-END %s 0 0 0%s\0\n' "$word" "$tag"; printf '\0NEL-END %s 0 0 0%s\0\n' "$word" "$tag" >&2
  done
done
sleep 0.3; exit 3"""


@pytest.mark.parametrize("background", [False, True])
async def test_an_exit_code_cannot_be_made_up(sandbox: Sandbox, background: bool) -> None:
    """Neither with all that can be read from inside, nor by taking the wrapper's last words out of its pipes."""
    made_up = await sandbox.exec(FORGE, timeout=20, background=background)
    assert made_up.exit_code == 3
    thief = "for fd in 1 2; do cat /proc/$PPID/fd/$fd > /dev/null & done; exit 3"
    assert (await sandbox.exec(thief, timeout=2, background=background)).exit_code != 0


async def test_options(sandbox: Sandbox) -> None:
    result = await sandbox.exec(
        "pwd; echo $A; cat", cwd="/tmp", env={"A": "1 2;$x"}, stdin=b"in\xff"
    )
    assert result.stdout == "/tmp\n1 2;$x\nin\ufffd"
    missing = await sandbox.exec("true", cwd="/no/such/folder")
    assert missing.exit_code == 126
    seen: list[tuple[str, bytes]] = []
    await sandbox.exec(
        "echo a; sleep 0.3; echo b", on_output=lambda stream, data: seen.append((stream, data))
    )
    assert seen == [("stdout", b"a\n"), ("stdout", b"b\n")]


async def test_files_stay_from_one_command_to_the_next(sandbox: Sandbox) -> None:
    await sandbox.exec("mkdir d && echo hi > d/f")
    assert (await sandbox.exec("cat d/f")).stdout == "hi\n"


@pytest.mark.parametrize(
    "command", ["echo said; sleep 60", "trap '' TERM INT; echo said; while :; do sleep 60; done"]
)
async def test_a_deadline_is_a_deadline_and_keeps_what_was_said(
    sandbox: Sandbox, command: str
) -> None:
    began = time.perf_counter()
    result = await sandbox.exec(command, timeout=1)
    took = time.perf_counter() - began
    assert result.timed_out
    assert (result.stdout, result.stderr) == ("said\n", "")
    assert 1 <= took <= 1.3


async def test_what_may_stay_does_not_end_with_a_slow_client(sandbox: Sandbox) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_wrapper, "_WRAP", _wrapper._WRAP.replace("exit 0\n", "sleep 0.5; exit 0\n"))
        await sandbox.exec("sleep 1005 & echo started", background=True, timeout=5)
    assert "sleep 1005" in (await sandbox.exec(LISTING, background=True)).stdout


async def test_what_a_command_leaves_running_dies_with_it_unless_it_may_stay(
    sandbox: Sandbox,
) -> None:
    await sandbox.exec("(setsid sleep 1001 >/dev/null 2>&1 &); sleep 0.1")
    await sandbox.exec("setsid sleep 1002 >/dev/null 2>&1 & disown; sleep 60", timeout=0.5)
    assert "sleep 100" not in (await sandbox.exec(LISTING)).stdout
    kept = await sandbox.exec("sleep 1003 & echo started", background=True, timeout=5)
    assert kept.stdout == "started\n"
    assert "sleep 1003" in (await sandbox.exec(LISTING, background=True)).stdout
    late = await sandbox.exec("sleep 1004 & sleep 60", background=True, timeout=0.5)
    assert late.timed_out
    after = (await sandbox.exec(LISTING, background=True)).stdout
    assert "sleep 1003" in after
    assert "sleep 1004" not in after


async def test_a_command_that_is_cancelled_ends(sandbox: Sandbox) -> None:
    running = asyncio.ensure_future(sandbox.exec("setsid sleep 1005 & sleep 1006; sleep 1007"))
    await asyncio.sleep(1)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    for _ in range(30):
        if "sleep 100" not in (said := (await sandbox.exec(LISTING)).stdout.replace(LISTING, "")):
            break
        await asyncio.sleep(0.1)
    assert "sleep 100" not in said


async def test_commands_run_side_by_side(sandbox: Sandbox) -> None:
    results = await asyncio.gather(*(sandbox.exec(f"sleep 0.2; echo {n}") for n in range(6)))
    assert [result.stdout for result in results] == [f"{n}\n" for n in range(6)]


async def test_a_judge_reads_what_it_is_given_and_leaves_nothing(sandbox: Sandbox) -> None:
    await sandbox.exec("echo theirs > other")
    assert (await sandbox.run_judge(["cat"], b"tests")).stdout == "tests"
    if isinstance(sandbox, LocalSandbox):
        for _ in range(2):
            look = "ls . /tmp /dev/shm; touch left /tmp/left /dev/shm/left"
            assert (
                await sandbox.run_judge(["sh", "-c", look], b"")
            ).stdout == ".:\n\n/dev/shm:\n\n/tmp:\n"
    assert (await sandbox.exec("ls")).stdout == "other\n"


async def test_files_go_in_and_come_out(sandbox: Sandbox, tmp_path: Path) -> None:
    source = tmp_path / "in"
    (source / "sub dir").mkdir(parents=True)
    (source / "sub dir" / "f\u00fc.txt").write_bytes(b"\x00\xffdata" * 100_000)
    (source / "run.sh").write_text("#!/bin/sh\necho ran\n")
    (source / "run.sh").chmod(0o755)
    (source / "link").symlink_to("run.sh")
    await sandbox.upload(source, "work")
    assert (await sandbox.exec("./work/link")).stdout == "ran\n"
    await sandbox.upload(b"bytes", "/tmp/a b/c.txt")
    await sandbox.upload(source / "run.sh", "solo.sh")
    await sandbox.download("/tmp/a b/c.txt", tmp_path / "c.txt")
    assert (tmp_path / "c.txt").read_bytes() == b"bytes"
    await sandbox.download("work", tmp_path / "out")
    assert (tmp_path / "out" / "sub dir" / "f\u00fc.txt").read_bytes() == b"\x00\xffdata" * 100_000
    assert (tmp_path / "out" / "link").readlink() == Path("run.sh")
    with pytest.raises(SandboxError, match="does not exist"):
        await sandbox.download("nowhere", tmp_path / "x")
    with pytest.raises(SandboxError, match="upload"):
        await sandbox.upload(b"x", "/proc/nowhere/x")


async def test_files_of_the_spec_are_there_from_the_start(make, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "task.txt").write_text("do it")
    spec = SandboxSpec(
        workdir="/app", env={"WHO": "me"}, files={str(tmp_path / "task.txt"): "/app/task.txt"}
    )
    sandbox = await make(spec)
    assert (await sandbox.exec("cat task.txt; echo; pwd; echo $WHO")).stdout == "do it\n/app\nme\n"


@pytest.mark.parametrize("kind", HERE, indirect=True)
async def test_read_only(make) -> None:  # type: ignore[no-untyped-def]
    sandbox = await make(read_only=True)
    result = await sandbox.exec("touch /usr/x; echo $?")
    assert result.stdout.strip() != "0"
    assert (await sandbox.exec("touch /tmp/x")).ok


async def test_stopped_is_stopped(sandbox: Sandbox) -> None:
    await sandbox.stop()
    await sandbox.stop()
    with pytest.raises(SandboxError, match="not started"):
        await sandbox.exec("true")


@pytest.mark.needs("bwrap")
async def test_a_local_sandbox_runs_no_image_that_it_has_not(keeper) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(SandboxError, match="cannot run the image"):
        await LocalSandbox(SandboxSpec(image="swebench/astropy:1"), keeper=keeper).start()
    with pytest.raises(SandboxError, match="no user"):
        async with LocalSandbox(SandboxSpec(image="python:3.12-slim"), keeper=keeper) as sandbox:
            await sandbox.exec("true", user="root")
