"""One server process of ours: started, stopped, and gone with the evaluator, whatever ends the evaluator."""

import asyncio
import os
import secrets
import socket
import sys
from pathlib import Path

from nemo_evaluator.core.errors import TransportError
from nemo_evaluator.core.files import safe_name
from nemo_evaluator.core.registry import load_object
from nemo_evaluator.services.base import Launch
from nemo_evaluator.services.forms import docker_argv, env_file_text
from nemo_evaluator.services.life import Server

_GUARD = "nemo_evaluator.services._guard"


def port_is_busy(port: int, host: str = "127.0.0.1") -> bool:
    """Whether somebody listens on a port."""
    with socket.socket() as probe:
        probe.settimeout(1.0)
        return probe.connect_ex((host, port)) == 0


class ManagedServer(Server):
    """A server process of ours, or a container; see ``_guard.py`` for how its end is made sure."""

    def __init__(self, name: str, launch: Launch, log_path: Path) -> None:
        super().__init__(name, launch, log_path)
        self._process: asyncio.subprocess.Process | None = None
        self._lifeline: int | None = None
        self._code: int | None = None

    async def _begin(self) -> None:
        if port_is_busy(self.launch.port, self.launch.host):
            hint = f"stop what listens there, or choose another services.{self.name}.port"
            raise TransportError(f"service {self.name!r}: port {self.launch.port} is busy", hint=hint)
        self._code = None
        await self._spawn()

    def _exit_code(self) -> int | None:
        return self._process.returncode if self._process is not None else self._code

    async def _ended(self) -> None:
        assert self._process is not None
        await self._process.wait()

    async def stop(self) -> None:
        """Stop the server and everything it started; safe to call twice."""
        process, self._process = self._process, None
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

    async def _spawn(self) -> None:
        self.log_path.parent.mkdir(parents=True, exist_ok=True)
        lifeline, self._lifeline = os.pipe()
        launch, env = self.launch, {**os.environ, "PYTHONUNBUFFERED": "1"}
        if launch.image is None:
            argv, told = launch.argv, launch.api_key.reveal() + "\n" if launch.api_key else ""
            env |= launch.env
        else:
            container = f"nel-{safe_name(self.name)}-{secrets.token_hex(4)}"
            # Loaded by name: most servers are no containers.
            owner = load_object("nemo_evaluator.sandbox.docker_provider:owner_label")
            labels = [f"nel.owner={owner()}", f"nel.sandbox=service {self.name}"]
            argv, told = docker_argv(launch, container, "/dev/fd/{secret_fd}", labels), env_file_text(launch.env)
            env["NEL_GUARD_CONTAINER"] = container
        secret = _pipe_with(told) if any("{secret_fd}" in word for word in argv) else None
        kept = [fd for fd in (lifeline, secret) if fd is not None]
        argv = [word.replace("{secret_fd}", str(secret)) for word in argv]
        if secret is not None:
            env["NEL_GUARD_FDS"] = str(secret)
        try:
            with self.log_path.open("ab") as log:
                self._process = await asyncio.create_subprocess_exec(
                    *(sys.executable, "-P", "-m", _GUARD, str(lifeline), str(launch.stop_grace), *argv),
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env=env,
                    pass_fds=kept,
                    start_new_session=True,
                )
        finally:
            for fd in kept:
                os.close(fd)


def _pipe_with(text: str) -> int:
    """The read end of a pipe that holds a text; short enough to fit the pipe's buffer."""
    reader, writer = os.pipe()
    with os.fdopen(writer, "wb") as pipe:
        pipe.write(text.encode())
    return reader
