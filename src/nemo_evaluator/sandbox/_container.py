"""Sandboxes that are entered by a command of their own (runsc, apptainer, srun): everything but how they start."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import signal
import subprocess
import tempfile
import time
from abc import abstractmethod
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final

from nemo_evaluator.core.errors import SandboxError
from nemo_evaluator.sandbox import _fresh
from nemo_evaluator.sandbox._backend import Backend, Emit, Exit, Job
from nemo_evaluator.sandbox._pump import Pump
from nemo_evaluator.sandbox._wrapper import Rest, Trailer, killer, wrapped

_SIGKILL: Final = 137
_GRACE: Final = 0.2


@dataclass(frozen=True, slots=True)
class Client:
    """A command of the host that runs one inside; ``env`` is the client's own."""

    argv: list[str]
    env: dict[str, str]


@dataclass(eq=False)
class ContainerSandbox(Backend):
    """A sandbox with processes of its own, reached by starting a client per command."""

    _kept: set[str] = field(default_factory=lambda: {"main"}, init=False)
    _killing: asyncio.Task[None] | None = field(default=None, init=False)

    @abstractmethod
    def _client(self, argv: list[str], env: dict[str, str], user: str | None) -> Client:
        """The client that runs ``argv`` inside. Values of ``env`` may be secrets: not for its arguments."""

    async def _post_mortem(self) -> Exit | None:
        """Asked when a command ended without its last words: None when the sandbox lives, else how the command ended.

        Raises SandboxError when the sandbox was lost for another reason than what the command did.
        """
        return None

    def _rest(self, job: Job) -> Rest:
        """What becomes of processes that the command leaves."""
        return "leave" if job.background else "kill"

    def _is_over(self, job: Job, trailer: Trailer) -> bool:
        """Whether a command has ended although its client runs on: what it left may hold the client back."""
        return trailer.complete

    def _dismiss(self, client: subprocess.Popen[bytes], job: Job, trailer: Trailer) -> None:
        """Let go of a client that still runs."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(client.pid, signal.SIGKILL)

    async def _run(self, job: Job, emit: Emit) -> Exit:
        if self._killing is not None:
            await asyncio.wait({self._killing})
        argv, stdin = job.argv, job.stdin
        if job.memory is not None:
            argv = ["sh", "-c", f'ulimit -v {job.memory // 1024} && exec "$@"', "sh", *argv]
        if job.private is not None:
            argv, stdin = _fresh.as_command(argv, job.private)
        token = secrets.token_hex(8)
        self._kept.add(token)
        # The mark goes inside: a client that carried it would be taken for a process of the command.
        inside = ["env", f"NEL_EXEC={token}", *wrapped(argv, token, job.cwd, self._rest(job))]
        client = self._client(inside, job.env, job.user)
        trailer = Trailer(token, emit)
        until = time.monotonic() + job.timeout
        try:
            code, timed_out = await self._spawn(client, stdin, trailer, job, until)
        except asyncio.CancelledError:
            self._kill_later(token)
            raise
        finally:
            if not (job.background and trailer.complete):
                self._kept.discard(token)
        if timed_out:
            await asyncio.wait({self._kill_later(token)}, timeout=max(0.0, until + _GRACE - time.monotonic()))
        if not trailer.begun:
            await self._post_mortem()
            why = trailer.greeting[-500:] or (f"no answer in {job.timeout:g} s" if timed_out else f"exit code {code}")
            raise SandboxError(f"{client.argv[0]} did not run the command: {why}")
        trailer.flush()
        if timed_out:
            return Exit(_SIGKILL, timed_out=True)
        if trailer.code is not None:
            return Exit(trailer.code, out_of_memory=trailer.code != 0 and trailer.oom_kills > 0)
        ended = await self._post_mortem()
        if ended is not None:
            return ended
        # The command killed its own wrapper; what it left goes too.
        await self._kill_later(token)
        return Exit(code if code > 0 else _SIGKILL)

    async def _spawn(
        self, client: Client, stdin: bytes | IO[bytes] | None, trailer: Trailer, job: Job, until: float
    ) -> tuple[int, bool]:
        pump = Pump(trailer.take)
        process: subprocess.Popen[bytes] | None = None
        dismissed = False
        try:
            fds = pump.open(stdin, None)
            process = await asyncio.to_thread(start_client, client, fds)
            pump.close_far_ends()
            ending = asyncio.ensure_future(asyncio.to_thread(process.wait))
            try:
                async with asyncio.timeout(max(0.0, until - time.monotonic())):
                    while not ending.done() and not self._is_over(job, trailer):
                        await asyncio.wait({ending}, timeout=0.02)
                    await _settle(pump, trailer)
            except TimeoutError:
                self._dismiss(process, job, trailer)
                dismissed = True
                # What it said until now may still be on its way.
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(max(0.0, until + _GRACE - time.monotonic())):
                        await pump.drained()
                return 0, True
            return (ending.result() if ending.done() else 0), False
        finally:
            if process is not None and process.poll() is None and not dismissed:
                self._dismiss(process, job, trailer)
            pump.drain_now()
            pump.close()

    def _kill_later(self, token: str) -> asyncio.Task[None]:
        """Kill what a command left; the next command waits for it."""
        keep = " ".join(sorted(self._kept - {token}))
        client = self._client(killer(token, keep), self._env(None), None)

        async def kill() -> None:
            with contextlib.suppress(SandboxError):
                await call(client, timeout=30)

        self._killing = asyncio.ensure_future(kill())
        return self._killing


async def _settle(pump: Pump, trailer: Trailer) -> None:
    """Output may trail behind the end of the client."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(1.0):
            while not trailer.complete:
                try:
                    async with asyncio.timeout(0.02):
                        return await pump.drained()
                except TimeoutError:
                    continue


def start_client(client: Client, fds: list[int]) -> subprocess.Popen[bytes]:
    """Start a client with the given stdin, stdout and stderr, in a group of its own."""
    stdin, stdout, stderr = fds[:3]
    try:
        return subprocess.Popen(
            client.argv, stdin=stdin, stdout=stdout, stderr=stderr, env=client.env, start_new_session=True
        )
    except OSError as error:
        raise SandboxError(f"cannot run {client.argv[0]}: {error.strerror}", hint="is it installed?") from error


async def call(client: Client, *, timeout: float = 120.0) -> str:
    """Run a client to its end: its stdout. A failure is a SandboxError with its stderr."""
    # Files, not pipes: a client that leaves a container behind leaves its stdout with it, and a pipe would never end.
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, Path(os.devnull).open("rb") as nothing:
        process = await asyncio.to_thread(start_client, client, [nothing.fileno(), out.fileno(), err.fileno()])
        try:
            code = await asyncio.to_thread(process.wait, timeout)
        except subprocess.TimeoutExpired as error:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise SandboxError(f"{client.argv[0]} did not end in {timeout:g} s") from error
        out.seek(0)
        err.seek(0)
        if code != 0:
            tail = err.read().decode("utf-8", "replace").strip()[-500:]
            raise SandboxError(f"{client.argv[0]} failed with exit code {code}: {tail}")
        return out.read().decode("utf-8", "replace")
