"""Commands under our shell wrapper, as in docker, gVisor, Apptainer and Pyxis: their end is told in words, and nothing
that they started is left."""

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
_ROOM: Final = 1024
# The longest last words that can be true.
_LONGEST: Final = 64
# What becomes of processes that a command leaves: killed, left alone, or kept alive by a wrapper that does not end.
Rest: TypeAlias = Literal["kill", "leave", "hold"]
_WRAP: Final = script("wrap")
_KILL: Final = f'token=$1 keep=" $2 "\n{script("reap")}exit 0'
_UNPACK: Final = script("unpack_env")

SIGKILL: Final = 137
# How long after its deadline a command may take to give back its output; the kill goes on behind it.
_GRACE: Final = 0.2


def carried(argv: list[str], env: Mapping[str, str]) -> tuple[list[str], dict[str, str]]:
    """``argv`` so that it finds ``env`` inside, and the variables that the client must carry there for it, under names
    that nobody else sets: an image's own value, or a runtime's, would win over ours."""
    bad = [name for name in env if not (name.isidentifier() and name.isascii())]
    if bad:
        raise SandboxError(
            f"{bad[0]!r} cannot be a variable in a shell", hint="use letters, digits and _"
        )
    variables = {f"NEL_ENV_{name}": value for name, value in env.items()}
    return ["/bin/sh", "-c", _UNPACK, "sh", *env, "--", *argv], variables


def killer(token: str, keep: str) -> list[str]:
    """The argument list that kills a command and, in a process space of our own, everything that is not in ``keep``."""
    return ["/bin/sh", "-c", _KILL, "sh", token, keep]


class Command:
    """A job on its way under our wrapper: the argument list to launch, and a filter that takes the wrapper's first and
    last words out of its output. What comes before the first is the client's own (a runtime that greets or warns). The
    last stand at the end of both streams, because an engine carries each at its own pace: the end is here only when
    both have said so. ``own`` is how many processes there are where a command left none: the container's (a shell and
    its sleep) and the wrapper. With more than those, what the command left is looked for.

    The token of a command stands in its environment, so anything inside can print last words with it. They count only
    with the tag ``factor * words + offset`` (modulo a prime) of two secret numbers, which the wrapper reads before the
    command's own stdin; a tag that was read from the output fits no other end."""

    def __init__(self, job: BackendCommand, emit: Emit, rest: Rest = "kill", own: int = 3) -> None:
        self.job = job
        self.token = secrets.token_hex(8)
        self.until = time.monotonic() + job.timeout
        # The wrapper's own exit code says nothing: a client that sees another than 0 would add remarks to the output.
        given = "no" if job.stdin is None else "yes"
        self.argv = [
            "/bin/sh",
            "-c",
            _WRAP,
            "sh",
            self.token,
            rest,
            str(own),
            job.cwd,
            given,
            *job.argv,
        ]
        self._factor = 1 + secrets.randbelow(_PRIME - 1)
        self._offset = secrets.randbelow(_PRIME)
        self.secret = f"{self._factor} {self._offset}\n".encode()
        self._first = b"\0NEL-BEGIN " + self.token.encode() + b"\0\n"
        self._mark = b"\0NEL-END " + self.token.encode() + b" "
        self._emit = emit
        self._before = {"stdout": b"", "stderr": b""}
        self._held = {"stdout": b"", "stderr": b""}
        self._ended: set[str] = set()
        self.code: int | None = None
        self.oom_kills = 0
        # How many processes there are besides the container's own and the wrapper.
        self.left_behind = 0

    @property
    def left(self) -> float:
        """Seconds until the deadline."""
        return max(0.0, self.until - time.monotonic())

    @property
    def begun(self) -> bool:
        """True when the command was run."""
        return len(self._before) < len(self._held)

    @property
    def greeting(self) -> str:
        """What the client said of its own before the command, or instead of it."""
        return b"".join(self._before.values()).decode("utf-8", "replace").strip()

    @property
    def complete(self) -> bool:
        """True when both streams have come to their end."""
        return len(self._ended) == len(self._held)

    async def feed(self, writer: asyncio.StreamWriter) -> None:
        """Write its stdin and close; a command that ends without reading it is none of our business."""
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
        """More output."""
        if stream in self._ended:
            # Something that was left running still writes; it is not the command's.
            return
        if stream in self._before:
            said = self._before[stream] + data
            at = said.find(self._first)
            if at < 0:
                self._before[stream] = said
                return
            del self._before[stream]
            data = said[at + len(self._first) :]
        held = self._held[stream] + data
        at = held.find(self._mark)
        while at >= 0:
            begin = at + len(self._mark)
            end = held.find(b"\0", begin, begin + _LONGEST)
            if end < 0 and len(held) < begin + _LONGEST:
                break
            if end > 0:
                ended = self._opened(held[begin:end])
            else:
                ended = None
            if ended is not None:
                self.code, self.oom_kills, self.left_behind = ended
                self._ended.add(stream)
                self._pass(stream, held[:at])
                self._held[stream] = b""
                return
            # Somebody else's words: output like any other.
            at = held.find(self._mark, begin)
        # The words may come in two pieces: hold back what could be their beginning.
        if at >= 0:
            size = at
        else:
            size = self._safe(held)
        self._pass(stream, held[:size])
        self._held[stream] = held[size:]

    def flush(self) -> None:
        """No more is coming: pass on what was held back."""
        for stream, said in self._before.items():
            self._pass(stream, said)
        for stream, held in self._held.items():
            self._pass(stream, held)
            self._held[stream] = b""

    def _opened(self, words: bytes) -> tuple[int, int, int] | None:
        """(exit code, kills for want of memory, processes left), if the wrapper said so."""
        numbers = words.split()
        if len(numbers) != 4 or not all(number.isdigit() for number in numbers):
            return None
        code, kills, left, tag = map(int, numbers)
        value = (code * _ROOM + kills) * _ROOM + left
        if (self._factor * value + self._offset) % _PRIME == tag:
            return (code, kills, left)
        return None

    def _safe(self, held: bytes) -> int:
        at = held.rfind(b"\0")
        if at >= 0 and self._mark.startswith(held[at : at + len(self._mark)]):
            return at
        return len(held)

    def _pass(self, stream: str, data: bytes) -> None:
        if data:
            self._emit(stream, data)


@dataclass(eq=False)
class WrappedSandbox(Backend):
    """Runs wrapped commands; a backend says how one is launched, and how what it left is killed."""

    # Processes of a container in which one command runs.
    _own: ClassVar[int] = 3
    _kept: set[str] = field(default_factory=lambda: {"main"}, init=False)
    _killing: asyncio.Task[None] | None = field(default=None, init=False)

    @abstractmethod
    async def _launch(self, command: Command) -> Any:
        """Run a command to its end and hand its output over. Raises TimeoutError at its deadline. What it gives back is
        asked for again when the command did not live to say how it ended."""

    @abstractmethod
    async def _lost(self, launched: Any, token: str) -> Exit:
        """How a command ended that did not say so. Raises SandboxError when it was the sandbox that ended."""

    @abstractmethod
    async def _kill(self, token: str, keep: str) -> None:
        """Kill what a command left."""

    def _rest(self, job: BackendCommand) -> Rest:
        """What becomes of processes that the command leaves."""
        return "leave" if job.background else "kill"

    def _check_usable(self) -> None:
        """Raise SandboxError when no further command can run."""

    def _check_begun(self, command: Command, launched: Any) -> None:
        """Raise SandboxError for a command that was never run."""

    def _over(self, command: Command) -> None:
        """A command has said how it ended."""

    async def _run(self, job: BackendCommand, emit: Emit) -> Exit:
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
        if command.code is None:
            return await self._lost(launched, command.token)
        self._over(command)
        return Exit(command.code, out_of_memory=command.code != 0 and command.oom_kills > 0)

    def _kill_later(self, token: str) -> asyncio.Task[None]:
        """Kill what a command left, behind the caller's back; the next command waits for it."""
        before = self._killing
        keep = " ".join(sorted(self._kept - {token}))

        async def kill() -> None:
            if before is not None:
                await asyncio.wait({before})
            await self._kill(token, keep)

        self._killing = asyncio.ensure_future(kill())
        return self._killing
