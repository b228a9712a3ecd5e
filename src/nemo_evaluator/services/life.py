"""The life of one server, however it is started: wait until it answers, notice when it crashes, start it again."""

import asyncio
import time
from abc import ABC, abstractmethod
from collections import deque
from pathlib import Path
from typing import Final

from nemo_evaluator.core.errors import TransportError
from nemo_evaluator.core.secrets import scrub
from nemo_evaluator.services.base import Launch, Say
from nemo_evaluator.services.health import answers, answers_a_token, health_session

_POLL_FIRST, _POLL_LAST = 0.05, 1.0
_SAY_EVERY: Final = 10.0
_TAIL_LINES: Final = 15
_TAIL_BYTES: Final = 64 << 10
_TAIL_WIDTH: Final = 500


class CrashError(TransportError):
    """A server ended by itself. It may be started again."""


class Server(ABC):
    """One server of a service."""

    def __init__(self, name: str, launch: Launch, log_path: Path) -> None:
        self.name = name
        self.launch = launch
        self.log_path = log_path
        self._crashes = 0

    @abstractmethod
    async def _begin(self) -> None:
        """Start it, if that is ours to do."""

    @abstractmethod
    def _exit_code(self) -> int | None:
        """How it ended; None while it runs."""

    @abstractmethod
    async def _ended(self) -> None:
        """Return when it has ended by itself."""

    @abstractmethod
    async def stop(self) -> None:
        """Stop it with everything it started, if that is ours to do; safe to call twice."""

    async def start(self, say: Say) -> None:
        """Start and wait until ready. Raises TransportError with the last log lines when it does not come up."""
        while True:
            started = time.monotonic()
            try:
                await self._begin()
                await self._wait_ready(say, started)
            except CrashError as error:
                await self.stop()
                self._again(error, say)
            except BaseException:
                await self.stop()
                raise
            else:
                say(f"{self.name} ready at {self.launch.url} ({time.monotonic() - started:.1f} s)")
                return

    async def keep(self, say: Say) -> None:
        """Start it again whenever it crashes. Raises CrashError when that has happened too often."""
        while True:
            await self._ended()
            await self.stop()
            self._again(self._crashed(), say)
            await self.start(say)

    def _again(self, error: CrashError, say: Say) -> None:
        self._crashes += 1
        if self._crashes > self.launch.restarts:
            raise error
        say(f"{error.message}\nStarting {self.name} again ({self._crashes} of {self.launch.restarts})")

    async def _wait_ready(self, say: Say, started: float) -> None:
        launch, pause = self.launch, _POLL_FIRST
        deadline, next_word, healthy = started + launch.startup_timeout, started + _SAY_EVERY, False
        async with health_session() as session:
            while True:
                if self._exit_code() is not None:
                    raise self._crashed()
                now = time.monotonic()
                healthy = healthy or await answers(session, launch.health_urls, launch.api_key)
                # The first token of a big model takes its time, and that time is part of the start.
                if healthy and await answers_a_token(session, launch, max(1.0, deadline - now)):
                    return
                now = time.monotonic()
                if now >= deadline:
                    what = "healthy, but answered no token," if healthy else "not ready"
                    raise self._failed(f"was {what} after {launch.startup_timeout:g} s (startup_timeout)")
                if now >= next_word:
                    say(f"{self.name}: still starting after {now - started:.0f} s; log: {self.log_path}")
                    next_word = now + max(_SAY_EVERY, now - started)
                await asyncio.sleep(min(pause, deadline - now))
                pause = min(pause * 1.5, _POLL_LAST)

    def crash(self) -> CrashError | None:
        """How it ended by itself; None while it runs."""
        return self._crashed() if self._exit_code() is not None else None

    def _crashed(self) -> CrashError:
        error = self._failed(f"exited with code {self._exit_code()}")
        return CrashError(error.message, hint=error.hint)

    def _failed(self, what: str) -> TransportError:
        tail = "\n".join(f"  | {line}" for line in self._tail()) or "  (the log is empty)"
        return TransportError(f"service {self.name!r} {what}; last lines:\n{tail}", hint=f"full log: {self.log_path}")

    def _tail(self) -> list[str]:
        if not self.log_path.is_file():
            return []
        with self.log_path.open("rb") as log:
            log.seek(max(0, self.log_path.stat().st_size - _TAIL_BYTES))
            lines = log.read().decode("utf-8", "replace").splitlines()
        return [scrub(line.rstrip())[-_TAIL_WIDTH:] for line in deque(lines, maxlen=_TAIL_LINES)]
