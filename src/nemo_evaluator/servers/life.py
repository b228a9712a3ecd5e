"""The life of one server, however it is started: wait until it answers, notice a crash, restart it."""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar
from urllib.parse import urlsplit

from nemo_evaluator.core.errors import TransportError
from nemo_evaluator.core.files import safe_name
from nemo_evaluator.core.lazy import Lazy
from nemo_evaluator.core.secrets import Secret, scrub
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.models.endpoint import PATHS
from nemo_evaluator.models.http.http_proxy import proxy_url
from nemo_evaluator.servers.launch import Launch, Say

if TYPE_CHECKING:
    import aiohttp
else:
    # Most runs start no server.
    aiohttp = Lazy("aiohttp")

E = TypeVar("E", bound=TransportError)
_POLL_FIRST = 0.05
_POLL_LAST = 1.0
# Timeout of one request of the health check, in seconds.
_HEALTH_TIMEOUT: Final = 5.0
# The first progress message appears after so many seconds, the later ones at growing intervals.
_PROGRESS_EVERY: Final = 10.0
_TAIL_LINES: Final = 15
_TAIL_BYTES: Final = 64 << 10
_TAIL_WIDTH: Final = 500
# Seconds to wait for a server that nel does not start: long enough for a restart of that server.
_EXTERNAL_WAIT: Final = 20.0
# The shortest request of each protocol.
_ONE_TOKEN: Final[dict[str, JsonDict]] = {
    "chat_completions": {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1},
    "completions": {"prompt": "Hi", "max_tokens": 1},
    "responses": {"input": "Hi", "max_output_tokens": 16},
}


def log_file(folder: Path, name: str) -> Path:
    """The path of the log of a server with that name."""
    return folder / f"server-{safe_name(name)}.log"


class CrashError(TransportError):
    """A server ended by itself. It may be restarted."""


class Server(ABC):
    """One server of a service.

    Attributes:
        name: The name of the service, with the number of the replica where there are several.
        launch: How the server is started and reached.
        log_path: The server's log.
    """

    def __init__(self, name: str, launch: Launch, log_path: Path) -> None:
        self.name = name
        self.launch = launch
        self.log_path = log_path
        self._crashes = 0

    @abstractmethod
    async def _begin(self) -> None:
        """Start the server, if nel starts servers of this kind."""

    @abstractmethod
    def _exit_code(self) -> int | None:
        """The exit code of the server; None while it runs."""

    @abstractmethod
    async def _ended(self) -> None:
        """Return when the server has ended by itself."""

    @abstractmethod
    async def stop(self) -> None:
        """Stop the server with everything it started, if nel started it; safe to call twice."""

    async def start(self, say: Say) -> None:
        """Start the server and wait until it is ready; restart it after a crash as often as its plan allows.

        Args:
            say: Prints the progress.

        Raises:
            TransportError: The server did not become ready; the message holds the last lines of its log.
        """
        while True:
            started = time.monotonic()
            try:
                await self._begin()
                await self._wait_ready(say, started)
            except CrashError as error:
                await self.stop()
                self._count_crash(error, say)
            except BaseException:
                await self.stop()
                raise
            else:
                say(f"{self.name} ready at {self.launch.url} ({time.monotonic() - started:.1f} s)")
                return

    async def keep(self, say: Say) -> None:
        """Restart the server whenever it crashes.

        Raises:
            CrashError: It has crashed more often than its plan allows.
        """
        while True:
            await self._ended()
            await self.stop()
            self._count_crash(self._crashed(), say)
            await self.start(say)

    def _count_crash(self, error: CrashError, say: Say) -> None:
        """Announce the restart. Raises the error when no restarts are left."""
        self._crashes += 1
        allowed = self.launch.restarts
        if self._crashes > allowed:
            raise error
        say(f"{error.message}\nStarting {self.name} again ({self._crashes} of {allowed})")

    async def _wait_ready(self, say: Say, started: float) -> None:
        launch = self.launch
        pause = _POLL_FIRST
        deadline = started + launch.startup_timeout
        next_message = started + _PROGRESS_EVERY
        healthy = False
        timeout = aiohttp.ClientTimeout(total=_HEALTH_TIMEOUT)
        async with aiohttp.ClientSession(timeout=timeout) as session:
            while True:
                if self._exit_code() is not None:
                    raise self._crashed()
                now = time.monotonic()
                healthy = healthy or await answers(session, launch.health_urls, launch.api_key)
                # The first token of a big model takes long, and that time is part of the start.
                if healthy and await answers_a_token(session, launch, max(1.0, deadline - now)):
                    return
                now = time.monotonic()
                if now >= deadline:
                    raise self._late(healthy=healthy)
                if now >= next_message:
                    elapsed = now - started
                    say(f"{self.name}: still starting after {elapsed:.0f} s; log: {self.log_path}")
                    next_message = now + max(_PROGRESS_EVERY, elapsed)
                await asyncio.sleep(min(pause, deadline - now))
                pause = min(pause * 1.5, _POLL_LAST)

    def crash(self) -> CrashError | None:
        """The error of a server that ended by itself; None while it runs."""
        if self._exit_code() is None:
            return None
        return self._crashed()

    def _crashed(self) -> CrashError:
        return self._failed(f"exited with code {self._exit_code()}", CrashError)

    def _late(self, *, healthy: bool) -> TransportError:
        """The error of a server that was not ready in time."""
        problem = "was healthy, but answered no token," if healthy else "was not ready"
        limit = self.launch.startup_timeout
        return self._failed(f"{problem} after {limit:g} s (startup_timeout)", TransportError)

    def _failed(self, problem: str, error_class: type[E]) -> E:
        """An error that names the service and shows the end of its log."""
        return error_class(
            f"service {self.name!r} {problem}; last lines:\n{self._log_tail()}",
            hint=f"full log: {self.log_path}",
        )

    def _log_tail(self) -> str:
        """The last lines of the log, without secrets."""
        lines: list[str] = []
        if self.log_path.is_file():
            with self.log_path.open("rb") as log:
                log.seek(max(0, self.log_path.stat().st_size - _TAIL_BYTES))
                text = log.read().decode("utf-8", "replace")
            lines = text.splitlines()[-_TAIL_LINES:]
        if not lines:
            return "  (the log is empty)"
        clean_lines = [scrub(line.rstrip())[-_TAIL_WIDTH:] for line in lines]
        return "\n".join(f"  | {line}" for line in clean_lines)


def _headers(key: Secret | None) -> dict[str, str]:
    if key:
        return {"Authorization": f"Bearer {key.reveal()}"}
    return {}


async def answers(session: aiohttp.ClientSession, urls: Sequence[str], key: Secret | None) -> bool:
    """Whether one of the URLs answers 200.

    Args:
        session: The HTTP session.
        urls: The URLs, tried in order until one cannot be reached.
        key: The API key of the server, if it has one.
    """
    for url in urls:
        try:
            async with session.get(url, headers=_headers(key), proxy=proxy_url(url)) as response:
                if response.status == 200:
                    return True
        except (aiohttp.ClientError, TimeoutError, OSError):
            return False
    return False


async def answers_a_token(session: aiohttp.ClientSession, launch: Launch, bound: float) -> bool:
    """Whether the model generates one token within ``bound`` seconds; always True for a server without a model."""
    if launch.model is None:
        return True
    body = {"model": launch.model, **_ONE_TOKEN[launch.protocol]}
    url = f"{launch.url}{PATHS[launch.protocol]}"
    timeout = aiohttp.ClientTimeout(total=bound)
    try:
        async with session.post(
            url, json=body, headers=_headers(launch.api_key), proxy=proxy_url(url), timeout=timeout
        ) as response:
            # Any other status is about the request itself; the run reports such errors better.
            is_broken = response.status >= 500
            is_not_ready = response.status in (404, 408, 425, 429)
            return not is_broken and not is_not_ready
    except (aiohttp.ClientError, TimeoutError, OSError):
        return False


async def expect_external(name: str, url: str, health_path: str, key: Secret | None) -> None:
    """Wait a few seconds for a server that nel does not start.

    Args:
        name: The name of the service.
        url: The base URL of its API.
        health_path: The path of the health check, from the root of the host.
        key: The API key of the server, if it has one.

    Raises:
        TransportError: The server stays down.
    """
    parts = urlsplit(url)
    health_url = f"{parts.scheme}://{parts.netloc}/{health_path.lstrip('/')}"
    deadline = time.monotonic() + _EXTERNAL_WAIT
    timeout = aiohttp.ClientTimeout(total=_HEALTH_TIMEOUT)
    async with aiohttp.ClientSession(timeout=timeout) as session:
        while not await answers(session, [health_url], key):
            if time.monotonic() >= deadline:
                raise TransportError(
                    f"service {name!r} is not up: {health_url} did not answer 200 within {_EXTERNAL_WAIT:.0f} s",
                    hint=f"start it, or correct services.{name}.url or .health_path",
                )
            await asyncio.sleep(0.5)
