"""The SSH side of a Fargate sandbox: the sidecar's definition, and a tunnel with ways in and out."""

import asyncio
import contextlib
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

from pydantic import Field

from nemo_evaluator.config.fields import Above0, Model, Name, Port
from nemo_evaluator.core.errors import SandboxError
from nemo_evaluator.core.processes import free_port
from nemo_evaluator.sandbox.workspace import script

_IMAGE: Final = "alpine:3.20"
_FIRST_PORT: Final = 20_000


class SshSidecar(Model):
    """The SSH sidecar of a Fargate task."""

    sshd_port: Port = Field(52222, description="Port of sshd.")
    ssh_ready_timeout_sec: Above0 = Field(300.0, description="Seconds until sshd must answer.")
    public_key_secret_arn: Name = Field(description="Secret with the public key.")
    private_key_secret_arn: Name = Field(description="Secret with the private key.")
    image: str | None = Field(None, description="Image of the sidecar.")
    exec_server_port: Port = Field(19542, description="Port of the exec server.")


def sidecar(settings: SshSidecar, life: int) -> dict[str, Any]:
    """The container definition of the sidecar."""
    return {
        "name": "ssh-tunnel",
        "image": settings.image or _IMAGE,
        "essential": True,
        "memory": 256,
        "entryPoint": ["sh", "-c"],
        "command": [f"set -- {settings.sshd_port} {life}\n{script('sidecar')}"],
        "portMappings": [{"containerPort": settings.sshd_port, "protocol": "tcp"}],
        "secrets": [{"name": "SSH_PUBLIC_KEY", "valueFrom": settings.public_key_secret_arn}],
        "healthCheck": {
            "command": ["CMD-SHELL", f"nc -z 127.0.0.1 {settings.sshd_port}"],
            "interval": 5,
            "retries": 10,
            "startPeriod": 30,
        },
    }


class Tunnel:
    """An ``ssh -N`` process that forwards the exec server to this machine, and the outside endpoints to the task.

    Args:
        address: The address of the task.
        settings: The SSH sidecar.
        key: The private key.
        outside: URLs of the host that the task may reach.

    Attributes:
        url: The address of the exec server on this machine, once the tunnel is open.
    """

    def __init__(self, address: str, settings: SshSidecar, key: str, outside: list[str]) -> None:
        self._address = address
        self._settings = settings
        self._key = key
        self._ports = _reverse_ports(outside, {settings.sshd_port, settings.exec_server_port})
        self._folder: Path | None = None
        self._process: asyncio.subprocess.Process | None = None
        self.url = ""

    def inside(self, url: str) -> str:
        """A URL of the host as the task reaches it."""
        parts = urlsplit(url)
        port = self._ports.get((parts.hostname or "", parts.port or 80))
        if port is None:
            return url
        return urlunsplit(
            (parts.scheme, f"127.0.0.1:{port}", parts.path, parts.query, parts.fragment)
        )

    async def open(self) -> None:
        """Connect; retried until the sidecar answers. Raises SandboxError when it does not in time."""
        self._folder = Path(tempfile.mkdtemp(prefix="nel-ssh-"))
        key_file = self._folder / "key"
        handle = os.open(key_file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w") as file:
            file.write(self._key if self._key.endswith("\n") else f"{self._key}\n")
        port = free_port()
        argv = ["ssh", "-N", "-i", str(key_file), "-p", str(self._settings.sshd_port)]
        options = [
            "ExitOnForwardFailure=yes",
            # The task is new and its host key unknown; but once seen, the key must not change.
            "StrictHostKeyChecking=accept-new",
            f"UserKnownHostsFile={self._folder / 'known'}",
            "BatchMode=yes",
            "ServerAliveInterval=30",
            "ServerAliveCountMax=20",
        ]
        for option in options:
            argv += ["-o", option]
        argv += ["-L", f"127.0.0.1:{port}:127.0.0.1:{self._settings.exec_server_port}"]
        for (host, host_port), task_port in self._ports.items():
            argv += ["-R", f"127.0.0.1:{task_port}:{host}:{host_port}"]
        argv.append(f"root@{self._address}")
        try:
            async with asyncio.timeout(self._settings.ssh_ready_timeout_sec):
                while not await self._try(argv, port):
                    await asyncio.sleep(2)
        except TimeoutError as error:
            await self.close()
            raise SandboxError(
                f"no SSH to the task within {self._settings.ssh_ready_timeout_sec:g} s"
            ) from error
        self.url = f"http://127.0.0.1:{port}"

    async def close(self) -> None:
        """End ssh and remove the key."""
        process = self._process
        self._process = None
        if process is not None and process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    async def _try(self, argv: list[str], port: int) -> bool:
        """Start ssh and wait until it forwards the port; returns False when it ends instead."""
        devnull = asyncio.subprocess.DEVNULL
        try:
            process = await asyncio.create_subprocess_exec(
                *argv, stdin=devnull, stdout=devnull, stderr=devnull
            )
        except OSError as error:
            raise SandboxError("ssh is not installed", hint="install an OpenSSH client") from error
        self._process = process
        while process.returncode is None:
            with contextlib.suppress(OSError):
                _reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.close()
                return True
            await asyncio.sleep(0.2)
        return False


def _reverse_ports(outside: list[str], taken: set[int]) -> dict[tuple[str, int], int]:
    """A port in the task for every host and port of the outside URLs: the same number if that is free."""
    ports: dict[tuple[str, int], int] = {}
    used_ports = set(taken)
    for url in outside:
        parts = urlsplit(url)
        target = (parts.hostname or "", parts.port or 80)
        if target in ports:
            continue
        port = target[1]
        if port < 1024 or port in used_ports:
            port = next(port for port in range(_FIRST_PORT, 65_536) if port not in used_ports)
        ports[target] = port
        used_ports.add(port)
    return ports
