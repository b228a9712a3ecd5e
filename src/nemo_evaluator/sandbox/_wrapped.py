"""Sandboxes whose commands run under our shell wrapper: what docker, gVisor, Apptainer and Pyxis share."""

import asyncio
import contextlib
import secrets
import time
from abc import abstractmethod
from dataclasses import dataclass, field
from typing import IO, Any, ClassVar, Final

from nemo_evaluator.sandbox import _fresh
from nemo_evaluator.sandbox._backend import Backend, Emit, Job
from nemo_evaluator.sandbox._wrapper import Rest, Seal, Trailer, wrapped
from nemo_evaluator.sandbox.base import Exit

SIGKILL: Final = 137
# How long after its deadline a command may take to give back its output; the kill goes on behind it.
_GRACE: Final = 0.2


@dataclass(slots=True)
class Command:
    """A job on its way: the wrapped command, its stdin behind the line of the seal, and where its output goes."""

    job: Job
    argv: list[str]
    token: str
    stdin: bytes | IO[bytes] | None
    seal: Seal
    trailer: Trailer
    until: float

    @property
    def left(self) -> float:
        """Seconds until the deadline."""
        return max(0.0, self.until - time.monotonic())


@dataclass(eq=False)
class WrappedSandbox(Backend):
    """Runs wrapped commands; a backend says how one is launched, and how what it left is killed."""

    # Processes of a container in which one command runs.
    _own: ClassVar[int] = 3
    _kept: set[str] = field(default_factory=lambda: {"main"}, init=False)
    _killing: asyncio.Task[None] | None = field(default=None, init=False)

    @abstractmethod
    async def _launch(self, command: Command) -> Any:
        """Run a command to its end and hand its output over. Raises TimeoutError at its deadline.

        What it gives back is asked for again when the command did not live to say how it ended.
        """

    @abstractmethod
    async def _lost(self, launched: Any, token: str) -> Exit:
        """How a command ended that did not say so. Raises SandboxError when it was the sandbox that ended."""

    @abstractmethod
    async def _kill(self, token: str, keep: str) -> None:
        """Kill what a command left."""

    def _rest(self, job: Job) -> Rest:
        """What becomes of processes that the command leaves."""
        return "leave" if job.background else "kill"

    def _check_usable(self) -> None:
        """Raise SandboxError when no further command can run."""

    def _check_begun(self, command: Command, launched: Any) -> None:
        """Raise SandboxError for a command that was never run."""

    def _over(self, command: Command) -> None:
        """A command has said how it ended."""

    async def _run(self, job: Job, emit: Emit) -> Exit:
        if self._killing is not None:
            await asyncio.wait({self._killing})
        self._check_usable()
        argv, stdin = _fresh.prepared(job)
        token, seal = secrets.token_hex(8), Seal()
        self._kept.add(token)
        trailer = Trailer(token, seal, emit)
        inside = wrapped(argv, token, job.cwd, self._rest(job), self._own, stdin=stdin is not None)
        command = Command(job, inside, token, stdin, seal, trailer, time.monotonic() + job.timeout)
        launched, timed_out = None, False
        try:
            launched = await self._launch(command)
        except TimeoutError:
            timed_out = True
        except asyncio.CancelledError:
            self._kill_later(token)
            raise
        finally:
            if not (job.background and trailer.complete):
                self._kept.discard(token)
        if timed_out:
            await asyncio.wait({self._kill_later(token)}, timeout=max(0.0, command.until + _GRACE - time.monotonic()))
        self._check_begun(command, launched)
        trailer.flush()
        if timed_out:
            return Exit(SIGKILL, timed_out=True)
        if trailer.code is None:
            return await self._lost(launched, token)
        self._over(command)
        return Exit(trailer.code, out_of_memory=trailer.code != 0 and trailer.oom_kills > 0)

    def _kill_later(self, token: str) -> asyncio.Task[None]:
        """Kill what a command left, behind the caller's back; the next command waits for it."""
        before, keep = self._killing, " ".join(sorted(self._kept - {token}))

        async def kill() -> None:
            if before is not None:
                await asyncio.wait({before})
            await self._kill(token, keep)

        self._killing = asyncio.ensure_future(kill())
        return self._killing


async def feed(writer: asyncio.StreamWriter, seal: Seal, stdin: bytes | IO[bytes] | None) -> None:
    """Write it all and close; a command that ends without reading it is none of our business."""
    with contextlib.suppress(ConnectionError):
        writer.write(seal.line)
        if isinstance(stdin, bytes):
            writer.write(stdin)
        elif stdin is not None:
            while data := stdin.read(1 << 18):
                writer.write(data)
                await writer.drain()
        await writer.drain()
        writer.write_eof()
