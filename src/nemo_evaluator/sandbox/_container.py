"""Sandboxes that a client command enters (runsc, apptainer, srun): everything but how they start."""

import asyncio
import contextlib
import logging
import os
import signal
import subprocess
import time
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field

from nemo_evaluator.core.errors import SandboxError
from nemo_evaluator.sandbox._backend import BackendCommand, Emit
from nemo_evaluator.sandbox._clients import (
    EntryCommand,
    NodeSlot,
    NodeSlots,
    Quiet,
    call,
    start_client,
)
from nemo_evaluator.sandbox._pump import Pump, stdin_pipe
from nemo_evaluator.sandbox._wrapper import SIGKILL, Command, Leftovers, WrappedSandbox, killer
from nemo_evaluator.sandbox.base import Exit, OutsideEndpoint
from nemo_evaluator.sandbox.workspace import script

log = logging.getLogger(__name__)


@dataclass(eq=False)
class ContainerSandbox(WrappedSandbox):
    """A sandbox with processes of its own, reached by starting a client per command."""

    # In a SLURM job: the free slots, and the one of this sandbox.
    slots: NodeSlots | None = None
    place: NodeSlot | None = field(default=None, init=False)
    _booted: bool = field(default=False, init=False)

    @abstractmethod
    async def _boot(self, outside_endpoints: Sequence[OutsideEndpoint]) -> None:
        """Start it, in its slot; the reaper already watches it."""

    @abstractmethod
    def _removal(self) -> EntryCommand:
        """The command that ends the sandbox and removes its files."""

    @abstractmethod
    def _client(self, argv: list[str], env: dict[str, str], user: str | None) -> EntryCommand:
        """The client that runs ``argv`` inside as ``user``. No value of ``env`` may appear in its arguments."""

    async def _open(self, outside_endpoints: Sequence[OutsideEndpoint]) -> None:
        """Take a slot if there are slots, let the reaper watch the sandbox, and start it."""
        if self.slots is not None:
            self.place = await self.slots.take()
            self._ending.callback(self._leave, self.slots, self.place)
        if self.reaper is not None:
            argv = self._removal().argv
            if self.place is not None:
                # All steps with its name end first, whichever process started them.
                argv = ["/bin/sh", "-c", script("clean_up"), "sh", self.name, *argv]
            await self.reaper.watch_command(self.name, argv, kind=self.kind, run_id=self.run_id)
        self._ending.push_async_callback(self._forget)
        self._ending.push_async_callback(self._remove)
        await self._boot(outside_endpoints)
        self._booted = True

    async def _remove(self) -> None:
        try:
            if self.place is not None:
                await self.place.close()
            await call(self._removal(), timeout=60)
        except SandboxError as error:
            # One that did not start may have left nothing to remove.
            if self._booted:
                log.warning("a sandbox was not removed: %s", error)

    def _leave(self, slots: NodeSlots, place: NodeSlot) -> None:
        self.place = None
        slots.give(place)

    def _check_user(self, user: str | None, known: tuple[str | None, ...] = (None,)) -> None:
        if user not in known:
            raise SandboxError(
                f"this kind of sandbox has no user {user!r}", hint="leave user out, or use docker"
            )

    def _leftovers(self, job: BackendCommand) -> Leftovers:
        if job.background and self.place is not None:
            return "hold"
        return super()._leftovers(job)

    def _dismiss(self, client: subprocess.Popen[bytes], command: Command) -> None:
        """Let go of a client that still runs."""
        keeps_running = command.job.background and command.complete
        if self.place is None:
            # Background processes may be in the client's own group.
            kill = os.kill if keeps_running else os.killpg
            with contextlib.suppress(ProcessLookupError):
                kill(client.pid, signal.SIGKILL)
        elif keeps_running:
            self.place.kept.append(client)
        else:
            self.place.end(client)

    def _check_usable(self) -> None:
        if self.place is not None:
            self.place.check()

    def _check_begun(self, command: Command, launched: int | None) -> None:
        """Raise SandboxError when the client did not run the command, with the reason that it printed."""
        # Only the wrapper makes a client end with 0: a command may have read the begin marker out of the pipes.
        if command.begun or launched == 0:
            return
        self._check_usable()
        reason = command.greeting[-500:]
        if not reason and launched is None:
            reason = f"no answer in {command.job.timeout:g} s"
        raise SandboxError(
            f"the sandbox did not run the command: {reason or f'exit code {launched}'}"
        )

    async def _run(self, job: BackendCommand, emit: Emit) -> Exit:
        if self.place is None:
            return await super()._run(job, emit)
        output_filter = Quiet(emit)
        exit_state = await super()._run(job, output_filter.take)
        output_filter.flush()
        return exit_state

    async def _launch(self, command: Command) -> int:
        """Run a command through a client; returns 0, or the exit code of the client."""
        # The mark goes inside: a client that carried it would be taken for a process of the command.
        argv = ["env", f"NEL_EXEC={command.token}", *command.argv]
        client = self._client(argv, command.job.env, command.job.user)
        process: subprocess.Popen[bytes] | None = None
        reading_end, writer = await stdin_pipe()
        feeding = asyncio.ensure_future(command.feed(writer))
        with Pump(command.take) as pump:
            try:
                with pump.far_ends(reading_end) as fds:
                    process = await asyncio.to_thread(start_client, client, fds)
                ending = asyncio.ensure_future(asyncio.to_thread(process.wait))
                # A command may have ended while its client still runs, because background processes keep it.
                lingers = command.job.background or self.place is None
                async with asyncio.timeout(command.seconds_left):
                    while not ending.done() and not (lingers and command.complete):
                        await asyncio.wait({ending}, timeout=0.02)
                    await _settle(pump, command)
                if ending.done():
                    return ending.result()
                return 0
            finally:
                if process is not None and process.poll() is None:
                    self._dismiss(process, command)
                feeding.cancel()
                await asyncio.gather(feeding, return_exceptions=True)
                writer.close()
                pump.drain_now()

    async def _lost(self, launched: int, token: str) -> Exit:
        # The command killed its own wrapper; its other processes are killed too.
        await self._kill_later(token)
        return Exit(launched if launched > 0 else SIGKILL)

    async def _kill(self, token: str, keep: str) -> None:
        with contextlib.suppress(SandboxError):
            if self.place is not None:
                await self.place.settle()
            await call(self._client(killer(token, keep), self._env(), None), timeout=30)


async def _settle(pump: Pump, command: Command) -> None:
    """Wait up to a second for output that arrives after the end of the client."""
    deadline = time.monotonic() + 1.0
    while not command.complete and time.monotonic() < deadline:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.02):
                return await pump.drained()
