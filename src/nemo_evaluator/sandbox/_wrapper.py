"""Commands under our shell wrapper, as in docker, gVisor, Apptainer and Pyxis: the wrapper reports how they end, and
kills what they leave running."""

import asyncio
import contextlib
import secrets
import time
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Literal, TypeAlias

from nemo_evaluator.core.errors import SandboxError
from nemo_evaluator.sandbox._backend import Backend, BackendCommand, Emit
from nemo_evaluator.sandbox.base import Exit
from nemo_evaluator.sandbox.workspace import script

_PRIME: Final = 2**31 - 1
# Each count in a report is below this number.
_ROOM: Final = 1024
# The longest report, in bytes, and how many numbers it has: exit code, OOM kills, processes left, tag.
_LONGEST: Final = 64
_REPORT_NUMBERS: Final = 4
# The fate of processes that a command leaves: killed, left alone, or kept alive by a wrapper that does not end.
Rest: TypeAlias = Literal["kill", "leave", "hold"]
_WRAP: Final = script("wrap")
_KILL: Final = f'token=$1 keep=" $2 "\n{script("reap")}exit 0'
_UNPACK: Final = script("unpack_env")

SIGKILL: Final = 137
# Seconds after its deadline that a command may take to return its output; the kill continues in the background.
_GRACE: Final = 0.2


def carried(argv: list[str], env: Mapping[str, str]) -> tuple[list[str], dict[str, str]]:
    """Prepare a command and its environment for a client that passes on its own environment.

    The variables travel under names that nobody else sets: an image's own value, or a runtime's, would override ours.

    Args:
        argv: The command.
        env: Its environment.

    Returns:
        The command with a prefix that restores its variables inside, and the variables that the client must carry.

    Raises:
        SandboxError: A name cannot be a variable of a shell.
    """
    bad = [name for name in env if not (name.isidentifier() and name.isascii())]
    if bad:
        raise SandboxError(
            f"{bad[0]!r} cannot be a variable in a shell", hint="use letters, digits and _"
        )
    variables = {f"NEL_ENV_{name}": value for name, value in env.items()}
    return ["/bin/sh", "-c", _UNPACK, "sh", *env, "--", *argv], variables


def killer(token: str, keep: str) -> list[str]:
    """Return the command that kills the processes of another command.

    Args:
        token: The token of the command to kill.
        keep: The tokens of the commands that stay; where the process space is the sandbox's own, everything else is
            killed too.
    """
    return ["/bin/sh", "-c", _KILL, "sh", token, keep]


@dataclass(frozen=True, slots=True)
class WrapperReport:
    """What the wrapper reports at the end of a command."""

    code: int
    #: Processes that the kernel killed because memory ran out.
    oom_kills: int
    #: Processes besides the container's own and the wrapper.
    left_behind: int


class Command:
    """A job under our wrapper: the argument list to launch, and a filter for its output.

    The filter removes the wrapper's begin and end markers. Output before the begin marker is the client's own (a
    runtime that greets or warns). The end marker comes at the end of both streams, because an engine delivers them at
    different speeds: the command has ended when both have it.

    The command's token is in its environment, so anything inside can print an end marker. It counts only with the tag
    ``factor * report + offset`` (modulo a prime) of two secret numbers, which the wrapper reads before the command's
    own stdin; a tag that was read from the output fits no other report.

    Args:
        job: The command.
        emit: Receives the command's output.
        rest: What happens to the processes that the command leaves.
        own: How many processes exist where a command left none: the container's (a shell and its sleep) and the
            wrapper. With more than those, the wrapper looks for left processes.

    Attributes:
        token: Marks the command's processes, in their environment.
        until: The deadline, by the monotonic clock.
        argv: The command under the wrapper.
        secret: The line for the wrapper, at the beginning of its stdin.
        report: What the wrapper reported; None until it has.
    """

    def __init__(self, job: BackendCommand, emit: Emit, rest: Rest = "kill", own: int = 3) -> None:
        self.job = job
        self.token = secrets.token_hex(8)
        self.until = time.monotonic() + job.timeout
        has_stdin = "no" if job.stdin is None else "yes"
        options = [self.token, rest, str(own), job.cwd, has_stdin]
        # The wrapper's own exit code is always 0: a client that sees another adds remarks to the output.
        self.argv = ["/bin/sh", "-c", _WRAP, "sh", *options, *job.argv]
        self._factor = 1 + secrets.randbelow(_PRIME - 1)
        self._offset = secrets.randbelow(_PRIME)
        self.secret = f"{self._factor} {self._offset}\n".encode()
        self._begin_marker = b"\0NEL-BEGIN " + self.token.encode() + b"\0\n"
        self._end_marker = b"\0NEL-END " + self.token.encode() + b" "
        self._emit = emit
        # By stream: output before the begin marker, and output that may be the beginning of an end marker.
        self._before = {"stdout": b"", "stderr": b""}
        self._held = {"stdout": b"", "stderr": b""}
        self._ended: set[str] = set()
        self.report: WrapperReport | None = None

    @property
    def left(self) -> float:
        """Seconds until the deadline."""
        return max(0.0, self.until - time.monotonic())

    @property
    def begun(self) -> bool:
        """Return whether the command was started."""
        return len(self._before) < len(self._held)

    @property
    def greeting(self) -> str:
        """Return the output of the client before the command, or instead of it."""
        return b"".join(self._before.values()).decode("utf-8", "replace").strip()

    @property
    def complete(self) -> bool:
        """Whether both streams have ended."""
        return len(self._ended) == len(self._held)

    async def feed(self, writer: asyncio.StreamWriter) -> None:
        """Write the secret and the command's stdin, and close. A command may end without reading its input."""
        stdin = self.job.stdin
        with contextlib.suppress(ConnectionError):
            writer.write(self.secret)
            if isinstance(stdin, bytes):
                writer.write(stdin)
            elif stdin is not None:
                while data := stdin.read(1 << 18):
                    writer.write(data)
                    await writer.drain()
            await writer.drain()
            writer.write_eof()

    def take(self, stream: str, data: bytes) -> None:
        """Filter more output: what the client prints before the command, and the end marker, are not passed on.

        Args:
            stream: The stream, stdout or stderr.
            data: The next bytes.
        """
        if stream in self._ended:
            # A process that was left running still writes; it is not the command's output.
            return
        if stream in self._before:
            before = self._before[stream] + data
            _, marker, after_marker = before.partition(self._begin_marker)
            if not marker:
                self._before[stream] = before
                return
            del self._before[stream]
            data = after_marker
        unsent = self._held[stream] + data
        marker_at = unsent.find(self._end_marker)
        while marker_at >= 0:
            report_at = marker_at + len(self._end_marker)
            report_end = unsent.find(b"\0", report_at, report_at + _LONGEST)
            if report_end < 0 and len(unsent) < report_at + _LONGEST:
                # The rest of the marker may still come.
                break
            if report_end > 0:
                report = self._verified(unsent[report_at:report_end])
                if report is not None:
                    self.report = report
                    self._ended.add(stream)
                    self._pass(stream, unsent[:marker_at])
                    self._held[stream] = b""
                    return
            # A marker with a wrong tag is output like any other.
            marker_at = unsent.find(self._end_marker, report_at)
        size = marker_at if marker_at >= 0 else self._safe_size(unsent)
        self._pass(stream, unsent[:size])
        self._held[stream] = unsent[size:]

    def flush(self) -> None:
        """Pass on the output that might have been part of a marker, when no more output comes."""
        for stream, before in self._before.items():
            self._pass(stream, before)
        for stream, unsent in self._held.items():
            self._pass(stream, unsent)
            self._held[stream] = b""

    def _verified(self, text: bytes) -> WrapperReport | None:
        """The report in an end marker; None when the wrapper did not write it."""
        numbers = text.split()
        if len(numbers) != _REPORT_NUMBERS or not all(number.isdigit() for number in numbers):
            return None
        exit_code, oom_kills, left_behind, tag = map(int, numbers)
        value = (exit_code * _ROOM + oom_kills) * _ROOM + left_behind
        if (self._factor * value + self._offset) % _PRIME != tag:
            return None
        return WrapperReport(exit_code, oom_kills, left_behind)

    def _safe_size(self, held: bytes) -> int:
        """How many bytes cannot be part of an end marker that comes in two pieces."""
        marker_start = held.rfind(b"\0")
        if marker_start >= 0 and self._end_marker.startswith(
            held[marker_start : marker_start + len(self._end_marker)]
        ):
            return marker_start
        return len(held)

    def _pass(self, stream: str, data: bytes) -> None:
        if data:
            self._emit(stream, data)


@dataclass(eq=False)
class WrappedSandbox(Backend):
    """Runs commands under the wrapper; a backend defines how to launch one, and how to kill what it left."""

    # Processes of a container in which one command runs.
    _own: ClassVar[int] = 3
    _kept: set[str] = field(default_factory=lambda: {"main"}, init=False)
    _killing: asyncio.Task[None] | None = field(default=None, init=False)

    @abstractmethod
    async def _launch(self, command: Command) -> Any:
        """Run a command to its end and pass its output to ``command.take``.

        Returns:
            What ``_lost`` and ``_check_begun`` need to know about the launch.

        Raises:
            TimeoutError: The deadline has passed.
        """

    @abstractmethod
    async def _lost(self, launched: Any, token: str) -> Exit:
        """Find out how a command without a report ended. Raises SandboxError when the sandbox itself ended."""

    @abstractmethod
    async def _kill(self, token: str, keep: str) -> None:
        """Kill the processes of a command, but not those of the commands whose tokens are in ``keep``."""

    def _rest(self, job: BackendCommand) -> Rest:
        """Decide what happens to processes that the command leaves."""
        return "leave" if job.background else "kill"

    def _check_usable(self) -> None:
        """Raise SandboxError when no further command can run."""

    def _check_begun(self, command: Command, launched: Any) -> None:
        """Raise SandboxError for a command that was never started."""

    def _finished(self, report: WrapperReport, command: Command) -> None:
        """Called when a command has ended with a report."""

    async def _run(self, job: BackendCommand, emit: Emit) -> Exit:
        """Run a command under the wrapper, and kill its processes when it exceeds its deadline."""
        if self._killing is not None:
            await asyncio.wait({self._killing})
        self._check_usable()
        command = Command(job, emit, self._rest(job), own=self._own)
        self._kept.add(command.token)
        launched = None
        timed_out = False
        try:
            launched = await self._launch(command)
        except TimeoutError:
            timed_out = True
        except asyncio.CancelledError:
            self._kill_later(command.token)
            raise
        finally:
            if not (job.background and command.complete):
                self._kept.discard(command.token)
        if timed_out:
            grace = max(0.0, command.until + _GRACE - time.monotonic())
            await asyncio.wait({self._kill_later(command.token)}, timeout=grace)
        self._check_begun(command, launched)
        command.flush()
        if timed_out:
            return Exit(SIGKILL, timed_out=True)
        report = command.report
        if report is None:
            return await self._lost(launched, command.token)
        self._finished(report, command)
        return Exit(report.code, out_of_memory=report.code != 0 and report.oom_kills > 0)

    def _kill_later(self, token: str) -> asyncio.Task[None]:
        """Kill the processes of a command in the background; the next command waits for it."""
        before = self._killing
        keep = " ".join(sorted(self._kept - {token}))

        async def kill() -> None:
            if before is not None:
                await asyncio.wait({before})
            await self._kill(token, keep)

        self._killing = asyncio.ensure_future(kill())
        return self._killing
