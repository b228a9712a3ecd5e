"""``slurm``: containers on nodes of a SLURM allocation, through Pyxis."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
import secrets
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final

from nemo_evaluator.core.errors import SandboxError
from nemo_evaluator.sandbox._backend import Emit, Exit, Job, keepalive
from nemo_evaluator.sandbox._container import Client, ContainerSandbox, call, start_client
from nemo_evaluator.sandbox._nodes import NodeSlots, Place
from nemo_evaluator.sandbox._reaper import Reaper
from nemo_evaluator.sandbox._wrapper import Rest, Trailer
from nemo_evaluator.sandbox.base import OutsideEndpoint, VolumeMount

log = logging.getLogger(__name__)

_START: Final = 600.0
# How long SLURM may take to end a step (a site's KillWait is 30 s unless set).
_END: Final = 60.0
NO_NODES: Final = "set node_pool, so that NEL_SANDBOX_NODES is set in the job"
_PREFIX: Final = "NEL_ENV_"
# Variables travel under names that no image sets: those of the image would win over ours.
_UNPACK: Final = """while [ "$1" != -- ]; do
  eval "export $1=\\"\\$NEL_ENV_$1\\""; unset "NEL_ENV_$1"; shift
done
shift
exec "$@"
"""
_MAIN: Final = 'word=$1; shift; mkdir -p "$@" && cd "$1" && echo "$word"; unset word\n'
# Pyxis puts the job's number into the name where names belong to jobs, and does not where they belong to users.
_REMOVE: Final = 'enroot remove -f "pyxis_$1" || enroot remove -f "pyxis_${SLURM_JOB_ID}_$1"'
_CLEAN_UP: Final = 'for s in $(squeue -h -s -n "$1" -o %i); do scancel -s KILL "$s"; done; shift; exec "$@"'


class _Quiet:
    """Passes output on without the lines that srun and its daemon put between those of the command."""

    _THEIRS: Final = re.compile(rb"(srun|slurmstepd[^ :]*): ")

    def __init__(self, emit: Emit) -> None:
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
class SlurmSandbox(ContainerSandbox):
    """A named Pyxis container that a step of its own keeps alive; every command is a step that joins it.

    The name is new for every sandbox: Pyxis takes an existing name for the container itself and would hand one
    problem the files of another. A command's step ends with all that the command started, so nothing is searched for
    among the processes of the node, which containers share.
    """

    memory: int = 4 * 2**30
    cpus: float = 2.0
    slots: NodeSlots | None = None
    reaper: Reaper | None = None
    _place: Place | None = field(default=None, init=False)
    _holder: subprocess.Popen[bytes] | None = field(default=None, init=False)
    _said: IO[bytes] | None = field(default=None, init=False)
    # Clients whose steps go on: those of background commands, and those that were told to end.
    _clients: list[subprocess.Popen[bytes]] = field(default_factory=list, init=False)
    _leaving: list[subprocess.Popen[bytes]] = field(default_factory=list, init=False)

    async def start(self, *, outside_endpoints: Sequence[OutsideEndpoint] = ()) -> None:
        """Start the holding step and wait until the container answers."""
        if self.started:
            return
        if self.slots is None:
            raise SandboxError("no nodes for sandboxes", hint=NO_NODES)
        self._place = await self.slots.take()
        self.endpoints = {one.env_var: self.resolve_outside_endpoint(one.url) for one in outside_endpoints}
        try:
            if self.reaper is not None:
                clean_up = ["/bin/sh", "-c", _CLEAN_UP, "sh", self.name, *self._removal(self._place)]
                await self.reaper.watch_command(self.name, clean_up)
            await self._hold()
            self.started = True
            await self._prepare_files()
        except BaseException:
            with contextlib.suppress(SandboxError):
                await self.stop()
            raise

    async def stop(self) -> None:
        """End the container's steps, remove its files and give the slot back."""
        self.started = False
        place, self._place = self._place, None
        if place is None:
            return
        holder, self._holder = self._holder, None
        clients = [*self._clients, *([holder] if holder is not None else [])]
        try:
            for client in clients:
                client.terminate()
            await self._wait_for([*clients, *self._leaving])
            if holder is not None:
                await call(Client(self._removal(place), dict(os.environ)), timeout=60)
        except SandboxError as error:
            log.warning("a container on node %s was not removed: %s", place.node, error)
        finally:
            if self._said is not None:
                self._said.close()
            if self.reaper is not None:
                await self.reaper.forget(self.name)
            if self.slots is not None:
                self.slots.give(place)

    def resolve_outside_endpoint(self, url: str) -> str:
        """From a node the evaluator is reached by its name."""
        return NodeSlots.from_node(url)

    async def _run(self, job: Job, emit: Emit) -> Exit:
        await self._post_mortem()
        quiet = _Quiet(emit)
        ended = await super()._run(job, quiet.take)
        quiet.flush()
        return ended

    async def _post_mortem(self) -> None:
        # Pyxis would start a container that ended anew, without the processes that were in it.
        if self._holder is not None and self._holder.poll() is not None:
            raise SandboxError(f"the container on its node ended: {self._heard()[-500:]}")

    def _client(self, argv: list[str], env: dict[str, str], user: str | None) -> Client:
        if user is not None:
            raise SandboxError(f"a Pyxis container has no user {user!r}", hint="leave user out, or use docker")
        return self._step([], argv, env)

    def _step(self, flags: list[str], argv: list[str], env: Mapping[str, str]) -> Client:
        assert self._place is not None
        if bad := [name for name in env if not (name.isidentifier() and name.isascii())]:
            raise SandboxError(f"{bad[0]!r} cannot be a variable in a shell", hint="use letters, digits and _")
        # Names stand on the command line, values only in the environment of srun.
        inside = {f"{_PREFIX}{name}": value for name, value in env.items()}
        command = [*self._place.step(), f"--job-name={self.name}", f"--export={','.join(inside) or 'NONE'}"]
        # Every step has a limit of its own: that of the holding step would not bind the commands.
        command += [f"--mem={self.memory // 2**20}M", f"--cpus-per-task={max(1, round(self.cpus))}"]
        command += [f"--container-name={self.name}", *flags, "/bin/sh", "-c", _UNPACK, "sh", *env, "--", *argv]
        return Client(command, {**os.environ, **inside})

    def _rest(self, job: Job) -> Rest:
        return "hold" if job.background else "leave"

    def _is_over(self, job: Job, trailer: Trailer) -> bool:
        return job.background and trailer.complete

    def _dismiss(self, client: subprocess.Popen[bytes], job: Job, trailer: Trailer) -> None:
        if job.background and trailer.complete:
            self._clients.append(client)
            return
        # srun ends the step, whatever the command does about signals.
        client.terminate()
        self._leaving.append(client)

    def _kill_later(self, token: str) -> asyncio.Task[None]:
        leaving = list(self._leaving)

        async def wait() -> None:
            with contextlib.suppress(SandboxError):
                await self._wait_for(leaving)

        self._killing = asyncio.ensure_future(wait())
        return self._killing

    async def _wait_for(self, clients: list[subprocess.Popen[bytes]]) -> None:
        for client in clients:
            try:
                await asyncio.to_thread(client.wait, _END)
            except subprocess.TimeoutExpired as error:
                client.kill()
                raise SandboxError(f"a step did not end in {_END:g} s") from error
        self._clients = [one for one in self._clients if one not in clients]
        self._leaving = [one for one in self._leaving if one not in clients]

    def _volumes(self) -> list[VolumeMount]:
        mounts = [one if isinstance(one, VolumeMount) else VolumeMount(**one) for one in self.spec.volumes]
        return [mount for mount in mounts if not mount.is_efs]

    def _mounts(self) -> list[str]:
        text = ",".join(
            f"{mount.host_path}:{mount.container_path}:{'ro' if mount.readonly else 'rw'}"
            for mount in self._volumes()
            if mount.host_path
        )
        return [f"--container-mounts={text}"] if text else []

    def _removal(self, place: Place) -> list[str]:
        return [*place.step(), "--export=PATH", "/bin/sh", "-c", _REMOVE, "sh", self.name]

    async def _hold(self) -> None:
        ready = f"nel-ready-{secrets.token_hex(4)}"
        flags = [f"--container-image={self.spec.image}", "--no-container-mount-home", "--container-writable"]
        # Not --container-workdir: it must be there, and in most images is not.
        folders = [self.spec.workdir, *(mount.container_path for mount in self._volumes() if not mount.host_path)]
        main = ["/bin/sh", "-c", _MAIN + keepalive(self.spec), "sh", ready, *folders]
        client = self._step([*flags, *self._mounts()], main, self._env(None))
        # A file, not a pipe: srun speaks up at any time, and nobody listens later.
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - closed by stop
        with Path(os.devnull).open("rb") as nothing:
            fds = [nothing.fileno(), self._said.fileno(), self._said.fileno()]
            self._holder = await asyncio.to_thread(start_client, client, fds)
        until = time.monotonic() + _START
        while ready not in (said := self._heard()):
            if self._holder.poll() is not None:
                raise SandboxError(f"the container of {self.spec.image} did not start: {said[-500:]}")
            if time.monotonic() > until:
                raise SandboxError(f"the container of {self.spec.image} did not start in {_START:g} s: {said[-500:]}")
            await asyncio.sleep(0.02)

    def _heard(self) -> str:
        """What the holding step has said so far."""
        assert self._said is not None
        # srun writes where the file stands: read without moving it.
        return os.pread(self._said.fileno(), 1 << 16, 0).decode("utf-8", "replace").strip()
