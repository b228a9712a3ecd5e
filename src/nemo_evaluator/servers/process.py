"""One server process of ours: started, stopped, and gone with the evaluator, whatever ends the evaluator.

What a run left behind that was killed together with its guards is ended by the next.
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
from pathlib import Path
from typing import Final

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

_GUARD: Final = "nemo_evaluator.servers._guard"


# A shell that takes its script from the environment, which nobody else can read.
_SCRIPT: Final = "NEL_SERVER_SCRIPT"
# Seconds for the last lines of a server that has ended.
_LOG_S: Final = 5.0
_FROM_VARIABLE: Final = f'nel_script=${_SCRIPT}; unset {_SCRIPT}; eval "$nel_script"'


def port_is_busy(port: int, host: str = "127.0.0.1") -> bool:
    """Whether somebody listens on a port."""
    with socket.socket() as probe:
        probe.settimeout(1.0)
        return probe.connect_ex((host, port)) == 0


class ManagedServer(Server):
    """A server process of ours, or a container; see ``_guard.py`` for how its end is made sure."""

    _process: asyncio.subprocess.Process | None = None
    _lifeline: int | None = None
    _code: int | None = None
    _log: ServerLog | None = None

    async def _begin(self) -> None:
        if port_is_busy(self.launch.port, self.launch.host):
            hint = f"stop what listens there, or choose another services.{self.name}.port"
            raise TransportError(
                f"service {self.name!r}: port {self.launch.port} is busy", hint=hint
            )
        self._code = None
        self.log_path.parent.mkdir(parents=True, exist_ok=True)
        lifeline, self._lifeline = os.pipe()
        launch = self.launch
        env = {**os.environ, "PYTHONUNBUFFERED": "1"}
        if launch.image is None:
            argv = launch.argv
            if launch.api_key:
                told = launch.api_key.reveal() + "\n"
            else:
                told = ""
            env |= launch.env
        else:
            container = f"nel-{safe_name(self.name)}-{secrets.token_hex(4)}"
            labels = [f"nel.owner={owner_label()}", f"nel.sandbox=service {self.name}"]
            argv = docker_argv(launch, container, "/dev/fd/{secret_fd}", labels=labels)
            told = env_file_text(launch.env)
            env["NEL_GUARD_CONTAINER"] = container
        argv, carried = _without_script(argv)
        env |= carried
        kept = [lifeline]
        if any("{secret_fd}" in word for word in (*argv, *carried.values())):
            # Short enough to fit the pipe's buffer.
            secret, writer = os.pipe()
            with os.fdopen(writer, "wb") as pipe:
                pipe.write(told.encode())
            kept.append(secret)
            argv = [word.replace("{secret_fd}", str(secret)) for word in argv]
            for name, text in carried.items():
                env[name] = text.replace("{secret_fd}", str(secret))
            env["NEL_GUARD_FDS"] = str(secret)
        try:
            # A server may print its own settings.
            self._log = ServerLog(self.log_path)
            try:
                self._process = await asyncio.create_subprocess_exec(
                    sys.executable,
                    "-P",
                    "-m",
                    _GUARD,
                    str(lifeline),
                    str(launch.stop_grace),
                    *argv,
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=self._log.pipe,
                    stderr=self._log.pipe,
                    env=env,
                    pass_fds=kept,
                    start_new_session=True,
                )
            finally:
                self._log.close()
        finally:
            for fd in kept:
                os.close(fd)

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
            # The guard bounds its own work; the extra seconds are for a loaded machine.
            await asyncio.wait_for(process.wait(), self.launch.stop_grace + 60.0)
        except TimeoutError:
            process.kill()
            await process.wait()
        self._code = process.returncode
        if self._log is not None:
            await asyncio.to_thread(self._log.wait, _LOG_S)
        # Secrets that became known after they were printed.
        await asyncio.to_thread(clean_log, self.log_path)


def clean_log(path: Path) -> None:
    """Take the secrets out of what a server wrote."""
    if not path.is_file():
        return
    with path.open("rb") as old, replacing(path, mode=stat.S_IMODE(path.stat().st_mode)) as new:
        for line in old:
            new.write(scrub_bytes(line))


def _without_script(argv: Sequence[str]) -> tuple[Sequence[str], dict[str, str]]:
    """A command of which others may read the arguments, and the variables that it needs: the script of a shell, which
    may hold secrets, is in none of the former."""
    if list(argv[:2]) != ["bash", "-c"] or scrub(argv[2]) == argv[2]:
        return argv, {}
    return ["bash", "-c", _FROM_VARIABLE, *argv[3:]], {_SCRIPT: argv[2]}


async def sweep_leftovers(say: Say, *, containers: bool) -> None:
    """End the servers whose guard is gone and, if asked, remove the containers whose run is gone."""
    marked = marked_processes(MARK)
    gone = {guard for guard in marked.values() if _GUARD not in command_of(guard)}
    # Some servers write their title over the environment of their processes; their session is still the guard's.
    lost = {pid for pid, guard in marked.items() if guard in gone} | processes_of_sessions(gone)
    for pid in lost:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    if lost:
        say(f"Ended {len(lost)} server process(es) that a killed run had left behind")
    if containers:
        from nemo_evaluator.sandbox.inventory import find_sandboxes, remove_sandboxes  # noqa: PLC0415 - few have any

        found = await find_sandboxes()
        orphans = [one for one in found if one.orphan and one.name.startswith("service ")]
        removed = await remove_sandboxes(orphans)
        if removed:
            say(f"Removed {len(removed)} server container(s) that a killed run had left behind")


def sweep_now(say: Say) -> None:
    """The same from a command."""
    asyncio.run(sweep_leftovers(say, containers=True))
