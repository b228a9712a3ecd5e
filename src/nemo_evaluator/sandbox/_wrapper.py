"""Commands under our shell wrapper, as in docker, gVisor, Apptainer and Pyxis: the wrapper reports how they end, and
kills what they leave running."""

import asyncio
import contextlib
import secrets
import time
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Final, Literal, TypeAlias

from nemo_evaluator.core.errors import SandboxError
from nemo_evaluator.sandbox._backend import Backend, BackendCommand, Emit
from nemo_evaluator.sandbox._wrapper_output import MarkedStream, ReportKey, WrapperReport
from nemo_evaluator.sandbox.base import Exit
from nemo_evaluator.sandbox.workspace import script

#: What happens to the processes that a command leaves: they are killed, left alone, or kept alive by a wrapper that
#: does not end.
Leftovers: TypeAlias = Literal["kill", "leave", "hold"]
#: The exit code of a killed command.
SIGKILL: Final = 137
_WRAP: Final = script("wrap")
_KILL: Final = f'token=$1 keep=" $2 "\n{script("reap")}exit 0'
_UNPACK: Final = script("unpack_env")
#: The token of the container's own processes.
MAIN: Final = "main"
# Seconds after its deadline that a command may take to return its output; the kill continues in the background.
_GRACE: Final = 0.2
_STDIN_CHUNK: Final = 2**18


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
    for name in env:
        if not (name.isidentifier() and name.isascii()):
            raise SandboxError(
                f"{name!r} cannot be a variable in a shell", hint="use letters, digits and _"
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


class Command:
    """A job under our wrapper: the argument list to launch, its stdin, and a filter for its output.

    The filter removes the wrapper's begin and end markers, and the client's own output before them. The end marker
    comes at the end of both streams, because an engine delivers them at different speeds: the command has ended when
    both have it.

    Args:
        job: The command.
        emit: Receives the command's output.
        leftovers: What happens to the processes that the command leaves.
        own_processes: How many processes exist where a command left none: the container's (a shell and its sleep) and
            the wrapper. With more than those, the wrapper looks for left processes.

    Attributes:
        token: Marks the command's processes, in their environment.
        deadline: When the command must have ended, by the monotonic clock.
        argv: The command under the wrapper.
        secret: The line for the wrapper, at the beginning of its stdin.
    """

    def __init__(
        self, job: BackendCommand, emit: Emit, leftovers: Leftovers = "kill", own_processes: int = 3
    ) -> None:
        self.job = job
        self.token = secrets.token_hex(8)
        self.deadline = time.monotonic() + job.timeout
        has_stdin = "no" if job.stdin is None else "yes"
        options = [self.token, leftovers, str(own_processes), job.cwd, has_stdin]
        # The wrapper's own exit code is always 0: a client that sees another adds remarks to the output.
        self.argv = ["/bin/sh", "-c", _WRAP, "sh", *options, *job.argv]
        key = ReportKey.random()
        self.secret = key.line
        self._streams: dict[str, MarkedStream] = {}
        for name in ("stdout", "stderr"):
            self._streams[name] = MarkedStream(self.token, key, partial(emit, name))

    @property
    def seconds_left(self) -> float:
        """Seconds until the deadline."""
        return _seconds_until(self.deadline)

    @property
    def begun(self) -> bool:
        """Whether the command was started."""
        return any(stream.begun for stream in self._streams.values())

    @property
    def greeting(self) -> str:
        """The output of the client before the command, or instead of it."""
        output = b"".join(stream.greeting for stream in self._streams.values())
        return output.decode("utf-8", "replace").strip()

    @property
    def complete(self) -> bool:
        """Whether both streams have ended."""
        return all(stream.report is not None for stream in self._streams.values())

    @property
    def report(self) -> WrapperReport | None:
        """What the wrapper reported at the end; None until it has, on either stream."""
        for stream in self._streams.values():
            if stream.report is not None:
                return stream.report
        return None

    async def feed(self, writer: asyncio.StreamWriter) -> None:
        """Write the secret and the command's stdin, and close. A command may end without reading its input."""
        stdin = self.job.stdin
        with contextlib.suppress(ConnectionError):
            writer.write(self.secret)
            if isinstance(stdin, bytes):
                writer.write(stdin)
            elif stdin is not None:
                while data := stdin.read(_STDIN_CHUNK):
                    writer.write(data)
                    await writer.drain()
            await writer.drain()
            writer.write_eof()

    def take(self, stream: str, data: bytes) -> None:
        """Filter more output, and pass on what is the command's own.

        Args:
            stream: The stream, stdout or stderr.
            data: The next bytes.
        """
        self._streams[stream].take(data)

    def flush(self) -> None:
        """Pass on the output that might have been part of a marker, when no more output comes."""
        for stream in self._streams.values():
            stream.flush()


@dataclass(eq=False)
class WrappedSandbox(Backend):
    """Runs commands under the wrapper; a backend defines how to launch one, and how to kill what it left."""

    # Processes of a container in which one command runs.
    _own_processes: ClassVar[int] = 3
    # Tokens of the processes that no kill may hit: the container's own, and those of running commands.
    _protected_tokens: set[str] = field(default_factory=lambda: {MAIN}, init=False)
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
        """Find out how a command without a report ended.

        Args:
            launched: The result of ``_launch``.
            token: The token of the command.

        Raises:
            SandboxError: The sandbox itself has ended.
        """

    @abstractmethod
    async def _kill(self, token: str, keep: str) -> None:
        """Kill the processes of a command, but not those of the commands whose tokens are in ``keep``."""

    def _leftovers(self, job: BackendCommand) -> Leftovers:
        """Decide what happens to processes that the command leaves."""
        return "leave" if job.background else "kill"

    def _check_usable(self) -> None:
        """Raise SandboxError when no further command can run."""

    def _check_begun(self, command: Command, launched: Any) -> None:
        """Raise SandboxError for a command that was never started."""

    def _finished(self, report: WrapperReport, command: Command) -> None:
        """Called when a command has ended with a report."""

    def _only_main_runs(self) -> bool:
        """Return whether no command runs, not even in the background."""
        return self._protected_tokens == {MAIN}

    async def _run(self, job: BackendCommand, emit: Emit) -> Exit:
        """Run a command under the wrapper, and kill its processes when it exceeds its deadline."""
        if self._killing is not None:
            await asyncio.wait({self._killing})
        self._check_usable()
        command = Command(job, emit, self._leftovers(job), own_processes=self._own_processes)
        self._protected_tokens.add(command.token)
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
            keeps_running = job.background and command.complete
            if not keeps_running:
                self._protected_tokens.discard(command.token)
        if timed_out:
            killing = self._kill_later(command.token)
            await asyncio.wait({killing}, timeout=_seconds_until(command.deadline + _GRACE))
        self._check_begun(command, launched)
        command.flush()
        if timed_out:
            return Exit(SIGKILL, timed_out=True)
        report = command.report
        if report is None:
            return await self._lost(launched, command.token)
        self._finished(report, command)
        # A command may survive the kill of one of its processes.
        out_of_memory = report.code != 0 and report.oom_kills > 0
        return Exit(report.code, out_of_memory=out_of_memory)

    def _kill_later(self, token: str) -> asyncio.Task[None]:
        """Kill the processes of a command in the background; the next command waits for it."""
        previous_kill = self._killing
        keep = " ".join(sorted(self._protected_tokens - {token}))

        async def kill() -> None:
            if previous_kill is not None:
                await asyncio.wait({previous_kill})
            await self._kill(token, keep)

        self._killing = asyncio.ensure_future(kill())
        return self._killing


def _seconds_until(moment: float) -> float:
    """Return the seconds until a time of the monotonic clock; 0 if it has passed."""
    return max(0.0, moment - time.monotonic())
