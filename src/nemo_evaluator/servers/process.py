"""A server that nel starts and stops, and that ends with the evaluator, however the evaluator ends.

When a run was killed together with its guards, the next run ends the servers that it left behind.
"""

import asyncio
import os
import secrets
import signal
import socket
import stat
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from nemo_evaluator.core.errors import TransportError
from nemo_evaluator.core.files import replacing, safe_name
from nemo_evaluator.core.processes import (
    command_of,
    marked_processes,
    owner_label,
    processes_of_sessions,
)
from nemo_evaluator.core.secrets import scrub, scrub_bytes
from nemo_evaluator.servers._guard import MARK
from nemo_evaluator.servers.forms import docker_argv, env_file_text
from nemo_evaluator.servers.launch import Say
from nemo_evaluator.servers.life import CrashError, Server
from nemo_evaluator.servers.server_log import ServerLog

if TYPE_CHECKING:
    from nemo_evaluator.sandbox.inventory import ExistingSandbox

_GUARD: Final = "nemo_evaluator.servers._guard"
# Guards of earlier versions that may still run on this machine are called by the second name.
_GUARD_MODULES: Final = frozenset({_GUARD, "nemo_evaluator.services._guard"})
# Replaced in a command by the number of the pipe from which the server reads its secret.
_SECRET_FD: Final = "{secret_fd}"
# A shell that takes its script from the environment, which only its own user can read.
_SCRIPT: Final = "NEL_SERVER_SCRIPT"
_SHELL_FROM_VARIABLE: Final = f'nel_script=${_SCRIPT}; unset {_SCRIPT}; eval "$nel_script"'
# Seconds for the last lines of a server that has ended.
_LOG_S: Final = 5.0
# Seconds that a guard on a loaded machine may need beyond the grace period of its server.
_GUARD_SLACK_S: Final = 60.0


def port_is_busy(port: int, host: str = "127.0.0.1") -> bool:
    """Whether a process listens on a port."""
    with socket.socket() as probe:
        probe.settimeout(1.0)
        return probe.connect_ex((host, port)) == 0


@dataclass
class GuardedCommand:
    """What a guard starts: a command, its environment, and the text that it reads from a pipe."""

    argv: Sequence[str]
    env: dict[str, str]
    # Written to the pipe whose number replaces ``{secret_fd}`` in ``argv`` and in ``env``.
    secret_text: str


class ManagedServer(Server):
    """A server that nel starts: a process or a container. Its guard (``_guard.py``) ends it in any case."""

    _process: asyncio.subprocess.Process | None = None
    _lifeline: int | None = None
    _code: int | None = None
    _log: ServerLog | None = None

    async def _begin(self) -> None:
        launch = self.launch
        if port_is_busy(launch.port, launch.host):
            raise TransportError(
                f"service {self.name!r}: port {launch.port} is busy",
                hint=f"stop what listens there, or choose another services.{self.name}.port",
            )
        self._code = None
        self.log_path.parent.mkdir(parents=True, exist_ok=True)
        command = self._guarded_command()
        _hide_script(command)
        lifeline, self._lifeline = os.pipe()
        guard_fds = [lifeline]
        if _reads_secret(command):
            secret_fd = _pipe_with(command.secret_text)
            guard_fds.append(secret_fd)
            _set_secret_fd(command, secret_fd)
        try:
            # The log is scrubbed: a server may print its own settings.
            self._log = ServerLog(self.log_path)
            try:
                self._process = await asyncio.create_subprocess_exec(
                    sys.executable,
                    "-P",
                    "-m",
                    _GUARD,
                    str(lifeline),
                    str(launch.stop_grace),
                    *command.argv,
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=self._log.pipe,
                    stderr=self._log.pipe,
                    env=command.env,
                    pass_fds=guard_fds,
                    start_new_session=True,
                )
            finally:
                self._log.close()
        finally:
            for fd in guard_fds:
                os.close(fd)

    def _guarded_command(self) -> GuardedCommand:
        """The command that starts the server as a process, or as a container."""
        launch = self.launch
        env = {**os.environ, "PYTHONUNBUFFERED": "1"}
        if launch.image is None:
            key_line = launch.api_key.reveal() + "\n" if launch.api_key else ""
            return GuardedCommand(launch.argv, {**env, **launch.env}, secret_text=key_line)
        container = f"nel-{safe_name(self.name)}-{secrets.token_hex(4)}"
        labels = [f"nel.owner={owner_label()}", f"nel.sandbox=service {self.name}"]
        argv = docker_argv(launch, container, f"/dev/fd/{_SECRET_FD}", labels=labels)
        env["NEL_GUARD_CONTAINER"] = container
        return GuardedCommand(argv, env, secret_text=env_file_text(launch.env))

    def _exit_code(self) -> int | None:
        if self._process is not None:
            return self._process.returncode
        return self._code

    async def _ended(self) -> None:
        assert self._process is not None
        await self._process.wait()

    def _crashed(self) -> CrashError:
        if self._log is not None:
            self._log.wait(1.0)
        return super()._crashed()

    async def stop(self) -> None:
        process = self._process
        self._process = None
        if self._lifeline is not None:
            os.close(self._lifeline)
            self._lifeline = None
        if process is None:
            return
        try:
            # The guard bounds its own work.
            await asyncio.wait_for(process.wait(), self.launch.stop_grace + _GUARD_SLACK_S)
        except TimeoutError:
            process.kill()
            await process.wait()
        self._code = process.returncode
        if self._log is not None:
            await asyncio.to_thread(self._log.wait, _LOG_S)
        # Some secrets became known only after the server had printed them.
        await asyncio.to_thread(clean_log, self.log_path)


def clean_log(path: Path) -> None:
    """Rewrite the log of a server without the secrets that are known now."""
    if not path.is_file():
        return
    mode = stat.S_IMODE(path.stat().st_mode)
    with path.open("rb") as old, replacing(path, mode=mode) as new:
        for line in old:
            new.write(scrub_bytes(line))


def _hide_script(command: GuardedCommand) -> None:
    """Move a shell script that holds a secret from the arguments, which other users can read, to the environment."""
    argv = list(command.argv)
    if argv[:2] != ["bash", "-c"] or scrub(argv[2]) == argv[2]:
        return
    command.env[_SCRIPT] = argv[2]
    command.argv = ["bash", "-c", _SHELL_FROM_VARIABLE, *argv[3:]]


def _reads_secret(command: GuardedCommand) -> bool:
    """Whether a command names the pipe of its secret."""
    script = command.env.get(_SCRIPT, "")
    return any(_SECRET_FD in text for text in (*command.argv, script))


def _set_secret_fd(command: GuardedCommand, fd: int) -> None:
    """Tell a command and its guard the number of the pipe."""
    command.argv = [word.replace(_SECRET_FD, str(fd)) for word in command.argv]
    if _SCRIPT in command.env:
        command.env[_SCRIPT] = command.env[_SCRIPT].replace(_SECRET_FD, str(fd))
    command.env["NEL_GUARD_FDS"] = str(fd)


def _pipe_with(text: str) -> int:
    """The reading end of a pipe that holds a text, which is short enough for the pipe's buffer."""
    reader, writer = os.pipe()
    with os.fdopen(writer, "wb") as pipe:
        pipe.write(text.encode())
    return reader


async def sweep_leftovers(say: Say, *, containers: bool) -> None:
    """End the servers that a killed run left behind, which are those whose guard is gone.

    Args:
        say: Prints how many servers were ended.
        containers: Also remove the service containers whose run is gone.
    """
    guard_of_process = marked_processes(MARK)
    lost_guards = {guard for guard in guard_of_process.values() if not _is_guard(guard)}
    # Some servers write their title over the environment of their processes; their session is still the guard's.
    orphans = processes_of_sessions(lost_guards)
    for pid, guard in guard_of_process.items():
        if guard in lost_guards:
            orphans.add(pid)
    for pid in orphans:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    if orphans:
        say(f"Ended {len(orphans)} server process(es) that a killed run had left behind")
    if containers:
        await _sweep_containers(say)


def _is_guard(pid: int) -> bool:
    """Whether a process is a guard, of this version of nel or of an earlier one."""
    return not _GUARD_MODULES.isdisjoint(command_of(pid))


async def _sweep_containers(say: Say) -> None:
    """Remove the service containers whose run is gone."""
    from nemo_evaluator.sandbox.inventory import find_sandboxes, remove_sandboxes  # noqa: PLC0415 - few have any

    orphans: list[ExistingSandbox] = []
    for sandbox in await find_sandboxes():
        if sandbox.orphan and sandbox.name.startswith("service "):
            orphans.append(sandbox)
    removed = await remove_sandboxes(orphans)
    if removed:
        say(f"Removed {len(removed)} server container(s) that a killed run had left behind")


def sweep_now(say: Say) -> None:
    """Run ``sweep_leftovers`` from a command, containers included."""
    asyncio.run(sweep_leftovers(say, containers=True))
