"""The life of one server, however it is started: wait until it answers, notice when it crashes, start it again."""

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
    # Most runs have no server to ask.
    aiohttp = Lazy("aiohttp")

E = TypeVar("E", bound=TransportError)
_POLL_FIRST = 0.05
_POLL_LAST = 1.0
# Seconds for a question about health.
_ASK: Final = 5.0
_SAY_EVERY: Final = 10.0
_TAIL_LINES: Final = 15
_TAIL_BYTES: Final = 64 << 10
_TAIL_WIDTH: Final = 500

# Somebody else's server is up or it is not: this only bridges a restart.
_EXTERNAL_WAIT: Final = 20.0
# The shortest question of each protocol.
_ONE_TOKEN: Final[dict[str, JsonDict]] = {
    "chat_completions": {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1},
    "completions": {"prompt": "Hi", "max_tokens": 1},
    "responses": {"input": "Hi", "max_output_tokens": 16},
}


def log_file(folder: Path, name: str) -> Path:
    """Where a server of that name writes."""
    return folder / f"server-{safe_name(name)}.log"


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
        say(
            f"{error.message}\nStarting {self.name} again ({self._crashes} of {self.launch.restarts})"
        )

    async def _wait_ready(self, say: Say, started: float) -> None:
        launch = self.launch
        pause = _POLL_FIRST
        deadline = started + launch.startup_timeout
        next_word = started + _SAY_EVERY
        healthy = False
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=_ASK)) as session:
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
                    if healthy:
                        what = "was healthy, but answered no token,"
                    else:
                        what = "was not ready"
                    raise self._failed(
                        f"{what} after {launch.startup_timeout:g} s (startup_timeout)",
                        TransportError,
                    )
                if now >= next_word:
                    say(
                        f"{self.name}: still starting after {now - started:.0f} s; log: {self.log_path}"
                    )
                    next_word = now + max(_SAY_EVERY, now - started)
                await asyncio.sleep(min(pause, deadline - now))
                pause = min(pause * 1.5, _POLL_LAST)

    def crash(self) -> CrashError | None:
        """How it ended by itself; None while it runs."""
        if self._exit_code() is not None:
            return self._crashed()
        return None

    def _crashed(self) -> CrashError:
        return self._failed(f"exited with code {self._exit_code()}", CrashError)

    def _failed(self, what: str, kind: type[E]) -> E:
        lines: list[str] = []
        if self.log_path.is_file():
            with self.log_path.open("rb") as log:
                log.seek(max(0, self.log_path.stat().st_size - _TAIL_BYTES))
                lines = log.read().decode("utf-8", "replace").splitlines()[-_TAIL_LINES:]
        tail = (
            "\n".join(f"  | {scrub(line.rstrip())[-_TAIL_WIDTH:]}" for line in lines)
            or "  (the log is empty)"
        )
        return kind(
            f"service {self.name!r} {what}; last lines:\n{tail}", hint=f"full log: {self.log_path}"
        )


def _headers(key: Secret | None) -> dict[str, str]:
    if key:
        return {"Authorization": f"Bearer {key.reveal()}"}
    return {}


async def answers(session: aiohttp.ClientSession, urls: Sequence[str], key: Secret | None) -> bool:
    """Whether one of the URLs answers 200."""
    for url in urls:
        try:
            async with session.get(url, headers=_headers(key), proxy=proxy_url(url)) as response:
                if response.status == 200:
                    return True
        except (aiohttp.ClientError, TimeoutError, OSError):
            return False
    return False


async def answers_a_token(session: aiohttp.ClientSession, launch: Launch, bound: float) -> bool:
    """Whether the model gives one token; True at once for a server that is no model."""
    if launch.model is None:
        return True
    body = {"model": launch.model, **_ONE_TOKEN[launch.protocol]}
    url = f"{launch.url}{PATHS[launch.protocol]}"
    timeout = aiohttp.ClientTimeout(total=bound)
    try:
        async with session.post(
            url, json=body, headers=_headers(launch.api_key), proxy=proxy_url(url), timeout=timeout
        ) as response:
            # Anything but "not ready" and "broken" is the server's word on the request: the run will say it better.
            return response.status < 500 and response.status not in (404, 408, 425, 429)
    except (aiohttp.ClientError, TimeoutError, OSError):
        return False


async def expect_external(name: str, url: str, health_path: str, key: Secret | None) -> None:
    """Wait a little for a server that somebody else runs. Raises TransportError when it stays down."""
    parts = urlsplit(url)
    health_url = f"{parts.scheme}://{parts.netloc}/{health_path.lstrip('/')}"
    deadline = time.monotonic() + _EXTERNAL_WAIT
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=_ASK)) as session:
        while not await answers(session, [health_url], key):
            if time.monotonic() >= deadline:
                raise TransportError(
                    f"service {name!r} is not up: {health_url} did not answer 200 within {_EXTERNAL_WAIT:.0f} s",
                    hint=f"start it, or correct services.{name}.url or .health_path",
                )
            await asyncio.sleep(0.5)
