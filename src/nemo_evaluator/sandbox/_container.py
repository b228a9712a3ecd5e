"""Sandboxes that are entered by a command of their own (runsc, apptainer, srun): everything but how they start."""

import asyncio
import contextlib
import logging
import os
import re
import signal
import subprocess
import tempfile
import time
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final

from nemo_evaluator.core.errors import SandboxError
from nemo_evaluator.sandbox._backend import Emit, Job
from nemo_evaluator.sandbox._entry_command import Client, call, start_client
from nemo_evaluator.sandbox._nodes import NodeSlots, Place
from nemo_evaluator.sandbox._pump import Pump, stdin_pipe
from nemo_evaluator.sandbox._wrapped import SIGKILL, Command, WrappedSandbox, feed
from nemo_evaluator.sandbox._wrapper import Rest, Trailer, killer
from nemo_evaluator.sandbox.base import Exit, OutsideEndpoint
from nemo_evaluator.sandbox.workspace import script

log = logging.getLogger(__name__)


_START: Final = 600.0
# How long SLURM may take to end a step (a site's KillWait is 30 s unless set).
_END: Final = 60.0


def clean_up(name: str, removal: list[str]) -> list[str]:
    """The command that ends all steps with a name, whoever started them, and then runs ``removal``."""
    return ["/bin/sh", "-c", script("clean_up"), "sh", name, *removal]


class Steps:
    """Clients whose steps are under way. A step ends with everything that was started in it, so what shall stay (the
    container, background processes) needs a step that stays.
    """

    def __init__(self) -> None:
        self._holder: subprocess.Popen[bytes] | None = None
        self._said: IO[bytes] | None = None
        self._kept: list[subprocess.Popen[bytes]] = []
        self._leaving: list[subprocess.Popen[bytes]] = []

    async def hold(self, client: Client, ready: str) -> None:
        """Start the holding step and wait until it says ``ready``."""
        # A file, not a pipe: srun speaks up at any time, and nobody listens later.
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - closed by close
        with Path(os.devnull).open("rb") as nothing:
            fds = [nothing.fileno(), self._said.fileno(), self._said.fileno()]
            self._holder = await asyncio.to_thread(start_client, client, fds)
        until = time.monotonic() + _START
        while ready not in (said := self._heard()):
            if self._holder.poll() is not None:
                raise SandboxError(f"the container did not start: {said[-500:]}")
            if time.monotonic() > until:
                raise SandboxError(f"the container did not start in {_START:g} s: {said[-500:]}")
            await asyncio.sleep(0.02)

    def check(self) -> None:
        """Raise SandboxError when the holding step has ended, and the sandbox with it."""
        if self._holder is not None and self._holder.poll() is not None:
            raise SandboxError(f"the container on its node ended: {self._heard()[-500:]}")

    def keep(self, client: subprocess.Popen[bytes]) -> None:
        """The step of a command that left processes running stays until the sandbox stops."""
        self._kept.append(client)

    def end(self, client: subprocess.Popen[bytes]) -> None:
        """End a step: srun does, when it is told to go, whatever the command does about signals."""
        client.terminate()
        self._leaving.append(client)

    async def settle(self) -> None:
        """Wait until the steps that were told to end have ended."""
        leaving, self._leaving = self._leaving, []
        for client in leaving:
            try:
                await asyncio.to_thread(client.wait, _END)
            except subprocess.TimeoutExpired as error:
                client.kill()
                raise SandboxError(f"a step did not end in {_END:g} s") from error

    async def close(self) -> None:
        """End them all."""
        for client in [*self._kept, *([self._holder] if self._holder is not None else [])]:
            self.end(client)
        self._kept.clear()
        self._holder = None
        try:
            await self.settle()
        finally:
            if self._said is not None:
                self._said.close()

    def _heard(self) -> str:
        """What the holding step has said so far."""
        assert self._said is not None
        # srun writes where the file stands: read without moving it.
        return os.pread(self._said.fileno(), 1 << 16, 0).decode("utf-8", "replace").strip()


class Quiet:
    """Passes output on without the lines that srun and its daemon put between those of the command."""

    _THEIRS: Final = re.compile(rb"(srun|slurmstepd[^ :]*): ")

    def __init__(self, emit: Callable[[str, bytes], None]) -> None:
        self._emit = emit
        self._line = b""

    def take(self, stream: str, data: bytes) -> None:
        """More output."""
        if stream != "stderr":
            return self._emit(stream, data)
        *lines, self._line = (self._line + data).splitlines(keepends=True) + ([b""] if data.endswith(b"\n") else [])
        if own := b"".join(line for line in lines if not self._THEIRS.match(line)):
            self._emit(stream, own)

    def flush(self) -> None:
        """No more is coming."""
        if self._line and not self._THEIRS.match(self._line):
            self._emit("stderr", self._line)


@dataclass(eq=False)
class ContainerSandbox(WrappedSandbox):
    """A sandbox with processes of its own, reached by starting a client per command."""

    # Where it runs on a node of a SLURM job: the free places, its own, and its steps, which cannot just be left alone.
    slots: NodeSlots | None = None
    place: Place | None = field(default=None, init=False)
    _steps: Steps | None = field(default=None, init=False)
    _tried: bool = field(default=False, init=False)

    @abstractmethod
    async def _boot(self, outside_endpoints: Sequence[OutsideEndpoint]) -> None:
        """Start it, where it has a place; somebody watches over it already."""

    @abstractmethod
    def _removal(self) -> Client:
        """What ends it and removes what it left."""

    @abstractmethod
    def _client(self, argv: list[str], env: dict[str, str], user: str | None) -> Client:
        """The client that runs ``argv`` inside. Values of ``env`` may be secrets: not for its arguments."""

    async def _post_mortem(self) -> Exit | None:
        """Asked when a command ended without its last words: None when the sandbox lives, else how the command ended.

        Raises SandboxError when the sandbox was lost for another reason than what the command did.
        """
        return None

    async def _open(self, outside_endpoints: Sequence[OutsideEndpoint]) -> None:
        if self.slots is not None:
            self.place, self._steps = await self.slots.take(), Steps()
        if self.reaper is not None:
            ending = self._removal().argv
            argv = ending if self.place is None else clean_up(self.name, ending)
            await self.reaper.watch_command(self.name, argv, kind=self.kind, run_id=self.run_id)
        self._tried = True
        await self._boot(outside_endpoints)

    async def stop(self) -> None:
        """End it, remove what it left, and give its place back."""
        was, self.started = self.started, False
        tried, self._tried = self._tried, False
        try:
            if tried:
                if self._steps is not None:
                    await self._steps.close()
                await call(self._removal(), timeout=60)
        except SandboxError as error:
            # One that did not start may have left nothing to remove.
            if was:
                log.warning("a sandbox was not removed: %s", error)
        finally:
            if tried:
                await self._forget()
            place, self.place, self._steps = self.place, None, None
            if self.slots is not None and place is not None:
                self.slots.give(place)

    def _check_user(self, user: str | None, known: tuple[str | None, ...] = (None,)) -> None:
        if user not in known:
            raise SandboxError(f"this kind of sandbox has no user {user!r}", hint="leave user out, or use docker")

    def _rest(self, job: Job) -> Rest:
        return "hold" if job.background and self._steps is not None else super()._rest(job)

    def _is_over(self, command: Command) -> bool:
        """Whether a command has ended although its client runs on: what it left may hold the client back."""
        return command.trailer.complete and (command.job.background or self._steps is None)

    def _dismiss(self, client: subprocess.Popen[bytes], command: Command) -> None:
        """Let go of a client that still runs."""
        stays = command.job.background and command.trailer.complete
        if self._steps is None:
            with contextlib.suppress(ProcessLookupError):
                # What may stay can be of the client's own group.
                (os.kill if stays else os.killpg)(client.pid, signal.SIGKILL)
        elif stays:
            self._steps.keep(client)
        else:
            self._steps.end(client)

    def _check_usable(self) -> None:
        if self._steps is not None:
            self._steps.check()

    def _check_begun(self, command: Command, launched: int | None) -> None:
        # Only the wrapper makes a client end with 0: a command may have taken its words out of the pipes.
        if not command.trailer.begun and launched != 0:
            self._check_usable()
            late = f"no answer in {command.job.timeout:g} s" if launched is None else f"exit code {launched}"
            raise SandboxError(f"the sandbox did not run the command: {command.trailer.greeting[-500:] or late}")

    async def _run(self, job: Job, emit: Emit) -> Exit:
        if self._steps is None:
            return await super()._run(job, emit)
        quiet = Quiet(emit)
        ended = await super()._run(job, quiet.take)
        quiet.flush()
        return ended

    async def _launch(self, command: Command) -> int:
        # The mark goes inside: a client that carried it would be taken for a process of the command.
        argv = ["env", f"NEL_EXEC={command.token}", *command.argv]
        client = self._client(argv, command.job.env, command.job.user)
        pump = Pump(command.trailer.take)
        process: subprocess.Popen[bytes] | None = None
        far, writer = await stdin_pipe()
        feeding = asyncio.ensure_future(feed(writer, command.seal, command.stdin))
        try:
            try:
                process = await asyncio.to_thread(start_client, client, [far, *pump.open(None, None)[1:]])
            finally:
                os.close(far)
            pump.close_far_ends()
            ending = asyncio.ensure_future(asyncio.to_thread(process.wait))
            async with asyncio.timeout(command.left):
                while not ending.done() and not self._is_over(command):
                    await asyncio.wait({ending}, timeout=0.02)
                await _settle(pump, command.trailer)
            return ending.result() if ending.done() else 0
        finally:
            if process is not None and process.poll() is None:
                self._dismiss(process, command)
            feeding.cancel()
            await asyncio.gather(feeding, return_exceptions=True)
            writer.close()
            pump.drain_now()
            pump.close()

    async def _lost(self, launched: int, token: str) -> Exit:
        ended = await self._post_mortem()
        if ended is not None:
            return ended
        # The command killed its own wrapper; what it left goes too.
        await self._kill_later(token)
        return Exit(launched if launched > 0 else SIGKILL)

    async def _kill(self, token: str, keep: str) -> None:
        with contextlib.suppress(SandboxError):
            if self._steps is not None:
                await self._steps.settle()
            await call(self._client(killer(token, keep), self._env(None), None), timeout=30)


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
