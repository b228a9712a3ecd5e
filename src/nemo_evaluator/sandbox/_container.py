"""Sandboxes that are entered by a command of their own (runsc, apptainer, srun): everything but how they start."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import signal
import subprocess
import time
from abc import abstractmethod
from dataclasses import dataclass, field
from typing import IO, ClassVar, Final

from nemo_evaluator.core.errors import SandboxError
from nemo_evaluator.sandbox import _fresh
from nemo_evaluator.sandbox._backend import Backend, Emit, Exit, Job
from nemo_evaluator.sandbox._entry_command import Client, call, start_client
from nemo_evaluator.sandbox._pump import Pump
from nemo_evaluator.sandbox._slurm_steps import Quiet, Steps
from nemo_evaluator.sandbox._stdin import feed, pipe
from nemo_evaluator.sandbox._wrapper import Rest, Seal, Trailer, killer, wrapped

_SIGKILL: Final = 137
_GRACE: Final = 0.2


@dataclass(eq=False)
class ContainerSandbox(Backend):
    """A sandbox with processes of its own, reached by starting a client per command."""

    # Processes of a container in which one command runs.
    _own: ClassVar[int] = 3
    _kept: set[str] = field(default_factory=lambda: {"main"}, init=False)
    _killing: asyncio.Task[None] | None = field(default=None, init=False)
    # Where the client is srun: a step cannot just be left alone.
    _steps: Steps | None = field(default=None, init=False)

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
        if not job.background:
            return "kill"
        return "leave" if self._steps is None else "hold"

    def _is_over(self, job: Job, trailer: Trailer) -> bool:
        """Whether a command has ended although its client runs on: what it left may hold the client back."""
        return trailer.complete and (job.background or self._steps is None)

    def _dismiss(self, client: subprocess.Popen[bytes], job: Job, trailer: Trailer) -> None:
        """Let go of a client that still runs."""
        stays = job.background and trailer.complete
        if self._steps is None:
            with contextlib.suppress(ProcessLookupError):
                # What may stay can be of the client's own group.
                (os.kill if stays else os.killpg)(client.pid, signal.SIGKILL)
        elif stays:
            self._steps.keep(client)
        else:
            self._steps.end(client)

    async def _run(self, job: Job, emit: Emit) -> Exit:
        if self._steps is None:
            return await self._run_one(job, emit)
        self._steps.check()
        quiet = Quiet(emit)
        ended = await self._run_one(job, quiet.take)
        quiet.flush()
        return ended

    async def _run_one(self, job: Job, emit: Emit) -> Exit:
        if self._killing is not None:
            await asyncio.wait({self._killing})
        argv, stdin = job.argv, job.stdin
        if job.memory is not None:
            argv = ["sh", "-c", f'ulimit -v {job.memory // 1024} && exec "$@"', "sh", *argv]
        if job.private is not None and stdin is None:
            argv, stdin = _fresh.as_command(argv, job.private)
        token = secrets.token_hex(8)
        self._kept.add(token)
        # The mark goes inside: a client that carried it would be taken for a process of the command.
        inside = wrapped(argv, token, job.cwd, self._rest(job), self._own, stdin=stdin is not None)
        client = self._client(["env", f"NEL_EXEC={token}", *inside], job.env, job.user)
        seal = Seal()
        trailer = Trailer(token, seal, emit)
        until = time.monotonic() + job.timeout
        try:
            code, timed_out = await self._spawn(client, (seal, stdin), trailer, job, until)
        except asyncio.CancelledError:
            self._kill_later(token)
            raise
        finally:
            if not (job.background and trailer.complete):
                self._kept.discard(token)
        if timed_out:
            await asyncio.wait({self._kill_later(token)}, timeout=max(0.0, until + _GRACE - time.monotonic()))
        if not trailer.begun:
            if self._steps is not None:
                self._steps.check()
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
        self,
        client: Client,
        given: tuple[Seal, bytes | IO[bytes] | None],
        trailer: Trailer,
        job: Job,
        until: float,
    ) -> tuple[int, bool]:
        pump = Pump(trailer.take)
        process: subprocess.Popen[bytes] | None = None
        far, writer = await pipe()
        feeding = asyncio.ensure_future(feed(writer, *given))
        try:
            try:
                process = await asyncio.to_thread(start_client, client, [far, *pump.open(None, None)[1:]])
            finally:
                os.close(far)
            pump.close_far_ends()
            ending = asyncio.ensure_future(asyncio.to_thread(process.wait))
            try:
                async with asyncio.timeout(max(0.0, until - time.monotonic())):
                    while not ending.done() and not self._is_over(job, trailer):
                        await asyncio.wait({ending}, timeout=0.02)
                    await _settle(pump, trailer)
            except TimeoutError:
                return 0, True
            return (ending.result() if ending.done() else 0), False
        finally:
            if process is not None and process.poll() is None:
                self._dismiss(process, job, trailer)
            feeding.cancel()
            await asyncio.gather(feeding, return_exceptions=True)
            writer.close()
            pump.drain_now()
            pump.close()

    def _kill_later(self, token: str) -> asyncio.Task[None]:
        """Kill what a command left; the next command waits for it."""
        keep = " ".join(sorted(self._kept - {token}))
        client = self._client(killer(token, keep), self._env(None), None)

        async def kill() -> None:
            with contextlib.suppress(SandboxError):
                if self._steps is not None:
                    await self._steps.settle()
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
