"""One managed server: start, wait until it answers, stop. It dies with the evaluator, whatever ends the evaluator."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import time
from collections import deque
from pathlib import Path
from typing import IO

from nemo_evaluator.core.errors import TransportError
from nemo_evaluator.core.secrets import scrub
from nemo_evaluator.services.base import Launch, RunningService, Say
from nemo_evaluator.services.health import answers, health_session

_GUARD = "nemo_evaluator.services._guard"
_POLL_FIRST, _POLL_LAST = 0.05, 1.0
_SAY_EVERY = 10.0
_TAIL_LINES = 15


def free_port() -> int:
    """A port on loopback that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def port_is_busy(port: int, host: str = "127.0.0.1") -> bool:
    """Whether somebody listens on a port."""
    with socket.socket() as probe:
        probe.settimeout(1.0)
        return probe.connect_ex((host, port)) == 0


class ManagedServer:
    """The life of one server process; see ``_guard.py`` for how its end is made sure."""

    def __init__(self, name: str, launch: Launch, log_path: Path) -> None:
        self.name = name
        self.launch = launch
        self.log_path = log_path
        self._process: asyncio.subprocess.Process | None = None
        self._lifeline: int | None = None

    @property
    def running(self) -> RunningService:
        """The address to use."""
        return RunningService(self.name, self.launch.url, self.launch.api_key)

    async def start(self, say: Say) -> RunningService:
        """Start and wait until healthy. Raises TransportError with the last log lines when it does not come up."""
        if port_is_busy(self.launch.port, self.launch.host):
            raise TransportError(
                f"service {self.name!r}: port {self.launch.port} is busy",
                hint=f"stop what listens there, or leave out services.{self.name}.port to get a free one",
            )
        started = time.monotonic()
        try:
            await self._spawn()
            await self._wait_healthy(say, started)
        except BaseException:
            await self.stop()
            raise
        say(f"{self.name} ready at {self.launch.url} ({time.monotonic() - started:.1f} s)")
        return self.running

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
            await asyncio.wait_for(process.wait(), self.launch.stop_grace + 30.0)
        except TimeoutError:
            process.kill()
            await process.wait()

    async def _spawn(self) -> None:
        self.log_path.parent.mkdir(parents=True, exist_ok=True)
        lifeline, self._lifeline = os.pipe()
        secret = _secret_pipe(self.launch)
        kept = [fd for fd in (lifeline, secret) if fd is not None]
        argv = [word.replace("{secret_fd}", str(secret)) for word in self.launch.argv]
        env = {**os.environ, "PYTHONUNBUFFERED": "1", **self.launch.env}
        if secret is not None:
            env["NEL_GUARD_FDS"] = str(secret)
        try:
            with self.log_path.open("ab") as log:
                self._process = await self._guarded(argv, env, kept, log)
        finally:
            for fd in kept:
                os.close(fd)

    async def _guarded(
        self, argv: list[str], env: dict[str, str], kept: list[int], log: IO[bytes]
    ) -> asyncio.subprocess.Process:
        grace = str(self.launch.stop_grace)
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", _GUARD, str(kept[0]), grace, *argv),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=env,
            pass_fds=kept,
            start_new_session=True,
        )

    async def _wait_healthy(self, say: Say, started: float) -> None:
        deadline, next_word, pause = started + self.launch.startup_timeout, started + _SAY_EVERY, _POLL_FIRST
        async with health_session() as session:
            while True:
                if self._process is None or self._process.returncode is not None:
                    raise self._failed(f"exited with code {self._process.returncode if self._process else '?'}")
                if await answers(session, self.launch.health_urls, self.launch.api_key):
                    return
                now = time.monotonic()
                if now >= deadline:
                    raise self._failed(f"was not ready after {self.launch.startup_timeout:g} s (startup_timeout)")
                if now >= next_word:
                    say(f"{self.name}: still starting after {now - started:.0f} s; log: {self.log_path}")
                    next_word = now + _SAY_EVERY
                await asyncio.sleep(min(pause, deadline - now))
                pause = min(pause * 1.5, _POLL_LAST)

    def _failed(self, what: str) -> TransportError:
        tail = "\n".join(f"  | {line}" for line in self._tail()) or "  (the log is empty)"
        return TransportError(f"service {self.name!r} {what}; last lines:\n{tail}", hint=f"full log: {self.log_path}")

    def _tail(self) -> list[str]:
        with self.log_path.open(encoding="utf-8", errors="replace") as log:
            return [scrub(line.rstrip()) for line in deque(log, maxlen=_TAIL_LINES)]


def _secret_pipe(launch: Launch) -> int | None:
    """The read end of a pipe that holds the key; small enough to fit the pipe's buffer."""
    if launch.api_key is None or not any("{secret_fd}" in word for word in launch.argv):
        return None
    reader, writer = os.pipe()
    with os.fdopen(writer, "wb") as pipe:
        pipe.write(launch.api_key.reveal().encode() + b"\n")
    return reader
