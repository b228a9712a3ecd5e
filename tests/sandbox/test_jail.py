"""The small parts under a local sandbox: filter, control groups of both layouts, messages, output."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from nemo_evaluator.core.errors import SandboxError
from nemo_evaluator.core.files import read_json
from nemo_evaluator.core.types import SandboxSpec
from nemo_evaluator.sandbox._backend import BackendCommand, parse_size
from nemo_evaluator.sandbox._keeper_client import KeeperClient, state_root
from nemo_evaluator.sandbox._pump import Capped
from nemo_evaluator.sandbox._wrapper import Command, killer
from nemo_evaluator.sandbox._wrapper_output import WrapperReport
from nemo_evaluator.sandbox.jail import cgroups, init, seccomp, wire
from nemo_evaluator.sandbox.local import LocalSandbox

ALLOW, EPERM, ENOSYS, NO_FAMILY, KILL = 0x7FFF0000, 0x50001, 0x50026, 0x50061, 0x80000000
ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}


def _verdict(program: bytes, nr: int, arch: int, *args: int) -> int:
    """What the kernel would answer: a small interpreter of the instructions that the filter uses."""
    data = struct.pack("<IIQ6Q", nr, arch, 0, *args, *([0] * (6 - len(args))))
    at = accumulator = 0
    while True:
        code, yes, no, value = struct.unpack_from("=HBBI", program, at * 8)
        at += 1
        if code == 0x20:
            accumulator = struct.unpack_from("<I", data, value)[0]
        elif code == 0x06:
            return int(value)
        else:
            test = {
                0x15: accumulator == value,
                0x35: accumulator >= value,
                0x45: bool(accumulator & value),
            }[code]
            at += yes if test else no


@pytest.mark.parametrize(
    ("arch", "numbers"),
    [
        (
            "x86_64",
            {
                "read": 0,
                "ptrace": 101,
                "mount": 165,
                "clone": 56,
                "socket": 41,
                "ioctl": 16,
                "execve": 59,
            },
        ),
        (
            "aarch64",
            {
                "read": 63,
                "ptrace": 117,
                "mount": 40,
                "clone": 220,
                "socket": 198,
                "ioctl": 29,
                "execve": 221,
            },
        ),
    ],
)
def test_the_filter(arch: str, numbers: dict[str, int]) -> None:
    program = seccomp.build_filter(arch)
    assert program is not None

    def says(name: str | int, *args: int) -> int:
        return _verdict(
            program, numbers[name] if isinstance(name, str) else name, ARCH[arch], *args
        )

    assert says("read") == says("execve") == ALLOW
    assert says("ptrace") == says("mount") == EPERM
    assert says("clone", 0x11) == ALLOW
    assert says("clone", 0x10000011) == EPERM
    assert says(435) == ENOSYS
    assert says(425) == EPERM
    assert [says("socket", family) for family in (1, 2, 10, 16)] == [ALLOW] * 4
    assert says("socket", 40) == says("socket", 17) == NO_FAMILY
    assert says("ioctl", 0, 0x5412) == EPERM
    assert says("ioctl", 0, 0x5401) == ALLOW
    assert _verdict(program, 0, 0x40000003) == KILL
    if arch == "x86_64":
        assert says(0x40000000 | 101) == ENOSYS


async def test_an_unknown_architecture_has_no_filter_and_no_sandbox(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert seccomp.build_filter("riscv64") is None
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    with pytest.raises(SandboxError, match="riscv64"):
        await LocalSandbox(SandboxSpec()).start()


def _proc(tmp: Path, mounts: str, own: str) -> Path:
    (tmp / "self").mkdir(parents=True)
    (tmp / "mounts").write_text(mounts)
    (tmp / "self" / "cgroup").write_text(own)
    return tmp


def test_the_v2_layout(tmp_path: Path) -> None:
    top = tmp_path / "cg"
    own = top / "user.slice" / "session.scope"
    own.mkdir(parents=True)
    (own / "cgroup.subtree_control").write_text("")
    (own.parent / "cgroup.subtree_control").write_text("cpu memory pids")
    (top / "cgroup.subtree_control").write_text("cpu io memory pids")
    proc = _proc(
        tmp_path / "proc", f"cgroup2 {top} cgroup2 rw 0 0\n", "0::/user.slice/session.scope\n"
    )
    found = cgroups.parents(proc)
    # Our own group holds processes and hands out nothing: the nearest one that does is where to go.
    assert found == [cgroups.Folder(own.parent, 2, ("memory", "pids", "cpu"))]
    group = cgroups.create("nel-1", found)
    folder = own.parent / "nel-1"
    (folder / "memory.swap.max").write_text("max")
    group.limit(memory=1000, pids=7, cpus=1.5)
    said = {
        name: (folder / name).read_text()
        for name in ("memory.max", "memory.swap.max", "pids.max", "cpu.max")
    }
    assert said == {
        "memory.max": "1000",
        "memory.swap.max": "0",
        "pids.max": "7",
        "cpu.max": "150000 100000",
    }
    (folder / "memory.events").write_text("low 0\noom 3\noom_kill 2\n")
    assert cgroups.oom_kills([str(folder)]) == 2


def test_the_v1_layout(tmp_path: Path) -> None:
    points = {name: tmp_path / name for name in ("memory", "pids", "cpu,cpuacct")}
    for point in points.values():
        (point / "job").mkdir(parents=True)
    mounts = "".join(f"cgroup {point} cgroup rw,{name} 0 0\n" for name, point in points.items())
    own = "3:memory:/job\n2:pids:/job\n1:cpu,cpuacct:/elsewhere\n"
    found = cgroups.parents(_proc(tmp_path / "proc", mounts, own))
    assert {(parent.path, parent.controllers) for parent in found} == {
        (points["memory"] / "job", ("memory",)),
        (points["pids"] / "job", ("pids",)),
        (points["cpu,cpuacct"], ("cpu",)),
    }
    cgroups.create("nel-1", found).limit(memory=1000, pids=7, cpus=0.5)
    assert (points["memory"] / "job/nel-1/memory.limit_in_bytes").read_text() == "1000"
    assert (points["cpu,cpuacct"] / "nel-1/cpu.cfs_quota_us").read_text() == "50000"


def test_nowhere_to_make_groups(tmp_path: Path) -> None:
    assert cgroups.parents(_proc(tmp_path, "tmpfs /tmp tmpfs rw 0 0\n", "0::/\n")) == []


@pytest.mark.parametrize("size", [10, 1_000_000])
def test_messages_of_any_size_with_descriptors(size: int) -> None:
    ours, theirs = wire.pair()
    reader, writer = os.pipe()
    with ours, theirs:
        wire.send(ours, {"data": "x" * size, "raw": b"\xff"}, [writer])
        message = wire.receive(theirs)
        assert message is not None
        assert message[0] == {"data": "x" * size, "raw": b"\xff"}
        # A command must not find it among its own.
        assert not os.get_inheritable(message[1][0])
        os.write(message[1][0], b"through")
        assert os.read(reader, 10) == b"through"
        for fd in (reader, writer, *message[1]):
            os.close(fd)
        ours.close()
        assert wire.receive(theirs) is None


def test_output_keeps_head_and_tail() -> None:
    capped = Capped(10)
    for piece in (b"01234", b"56", b"789"):
        capped.add(piece)
    assert (capped.text(), capped.truncated) == ("0123456789", False)
    capped.add(b"abcdef")
    assert capped.truncated
    assert capped.text() == "01234\n[... 6 bytes left out ...]\nbcdef"
    none = Capped(0)
    none.add(b"x")
    assert none.truncated


def _command(emit: Callable[[str, bytes], None]) -> Command:
    return Command(BackendCommand(["true"], 1.0, "/", {}), emit)


def _end(command: Command, *numbers: int, token: str | None = None) -> bytes:
    """The last words as the wrapper would say them."""
    factor, offset = map(int, command.secret.split())
    code, kills, left = numbers
    tag = (factor * ((code * 1024 + kills) * 1024 + left) + offset) % (2**31 - 1)
    return f"\0NEL-END {token or command.token} {code} {kills} {left} {tag}\0\n".encode()


def test_the_last_words_of_a_command_are_taken_out_of_its_output() -> None:
    seen: list[tuple[str, bytes]] = []
    trailer = _command(lambda stream, data: seen.append((stream, data)))
    end, token = _end(trailer, 3, 1, 0), trailer.token.encode()
    trailer.take("stdout", b"\0NEL-BEGIN %s\0\n" % token)
    trailer.take("stderr", b"a greeting\n\0NEL-BE")
    assert (trailer.begun, trailer.greeting) == (True, "a greeting\n\0NEL-BE")
    trailer.take("stderr", b"GIN %s\0\nwarn" % token + end[:6])
    trailer.take("stdout", b"a\0b")
    trailer.take("stderr", end[6:])
    assert not trailer.complete
    trailer.take("stdout", b"late" + end)
    assert trailer.complete
    assert trailer.report == WrapperReport(code=3, oom_kills=1, left_behind=0)
    assert b"".join(data for stream, data in seen if stream == "stderr") == b"warn"
    assert b"".join(data for stream, data in seen if stream == "stdout") == b"a\0blate"


def test_last_words_that_the_wrapper_did_not_say_are_output() -> None:
    said: list[bytes] = []
    trailer = _command(lambda stream, data: said.append(data))
    mark = b"\0NEL-END %s " % trailer.token.encode()
    trailer.take("stdout", b"\0NEL-BEGIN %s\0\n" % trailer.token.encode())
    true = _end(trailer, 3, 0, 0)
    other = _end(_command(lambda stream, data: None), 0, 0, 0, token=trailer.token)
    # Without a tag, with a wrong one, with that of another end, without an end, and one inside another.
    forged = [mark + b"0 0 0\0\n", other, true.replace(mark + b"3", mark + b"0"), mark * 50]
    for one in [*forged, mark + b"9" * 1000]:
        for at in range(0, len(one), 7):
            trailer.take("stdout", one[at : at + 7])
    trailer.take("stdout", true)
    assert trailer.report == WrapperReport(code=3, oom_kills=0, left_behind=0)
    assert b"".join(said) == b"".join(forged) + mark + b"9" * 1000


@pytest.mark.parametrize(
    ("text", "size"), [("512m", 2**29), ("4g", 2**32), ("1.5GiB", 3 * 2**29), ("1000", 1000)]
)
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.needs("bwrap")
async def test_cleaning_up_touches_no_stranger(keeper: KeeperClient) -> None:
    """Where process 1 is not a container's of ours, only what carries the command's number may be killed."""
    async with LocalSandbox(SandboxSpec(), keeper=keeper) as sandbox:
        kill, without = shlex.join(killer("abc", "main")), shlex.join(killer("", ""))
        script = (
            "sleep 2001 & env NEL_EXEC=abc sleep 2002 & env NEL_EXEC=other sleep 2003 & sleep 0.2; "
            f"{kill}; echo code $?; sleep 0.2; ps -o args= ax | grep '^sleep'; {without}; echo code $?"
        )
        said = (await sandbox.exec(script)).stdout.splitlines()
    assert said == ["code 0", "sleep 2001", "sleep 2003", "code 125"]


@pytest.mark.needs("bwrap")
async def test_a_slow_machine_does_not_cost_what_runs_in_the_background(
    keeper: KeeperClient,
) -> None:
    async with LocalSandbox(SandboxSpec(), keeper=keeper) as sandbox:
        await sandbox.exec("sleep 2718 &", background=True)
        # What begins in the same tick as a command goes with it.
        await asyncio.sleep(0.05)
        records = [read_json(file) for file in state_root().glob("*/*.json")]
        (warden,) = [record["pid"] for record in records if record["name"] == sandbox.name]
        inits = [
            int(pid) for pid in Path(f"/proc/{warden}/task/{warden}/children").read_text().split()
        ]
        late = asyncio.ensure_future(sandbox.exec("sleep 60", background=True, timeout=0.3))
        await asyncio.sleep(0.1)
        for pid in inits:
            os.kill(pid, signal.SIGSTOP)
        await asyncio.sleep(0.7)
        for pid in inits:
            os.kill(pid, signal.SIGCONT)
        assert (await late).timed_out
        left = await sandbox.exec("pgrep -xaf 'sleep 2718'", background=True)
        assert left.ok


def test_what_is_slow_to_die_costs_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine may take long to bury what was killed; only what breeds takes all of its neighbours along."""
    killed: list[int] = []
    monkeypatch.setattr(os, "kill", lambda pid, _signal: killed.append(pid))
    monkeypatch.setattr(init, "_DYING", 0.02)
    own = str(os.getpid())
    monkeypatch.setattr(init, "_start_time", lambda pid: 7 if pid == own else 0)
    init._kill_since(7, {})
    assert killed == [os.getpid()]
    ticks = iter(range(7, 1000))
    monkeypatch.setattr(init, "_start_time", lambda pid: next(ticks) if pid == own else 0)
    init._kill_since(7, {})
    assert killed[-1] == -1
