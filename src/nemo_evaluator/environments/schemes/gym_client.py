"""Talking to a Gym server: one jar of cookies per rollout, and every way to fail by its name."""

import asyncio
from collections.abc import Callable, Iterator
from time import monotonic
from typing import Any, Final, TypeAlias

import aiohttp
import orjson

from nemo_evaluator.core.errors import (
    AuthError,
    NotFoundError,
    OutageError,
    RequestRejectedError,
    TransportError,
)
from nemo_evaluator.core.secrets import Secret, scrub
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.models.endpoint import Timeouts
from nemo_evaluator.models.http.http_proxy import proxy_url

# A server that refuses connections may be starting again. Somebody else's is gone after these pauses; one of ours, of
# which we are told when it will not come back, is waited for as long as a model's server.
_PAUSES: Final = (0.2, 0.5, 1.0, 2.0)
_PATIENCE: Final = Timeouts().outage
_PROBE: Final = 10.0
_SHOWN: Final = 300
Lost: TypeAlias = Callable[[], str | None]


class GymClient:
    """One server. ``lost`` is given where it is ours: it says why the server will not come back, if that is so.
    Connections are used again, unless they are not to be kept."""

    def __init__(
        self,
        base: str,
        *,
        token: Secret | None = None,
        timeout: float | None = None,
        lost: Lost | None = None,
        keep: bool = True,
    ) -> None:
        self.base = base.rstrip("/")
        self._token = token
        self._timeout = timeout
        self._lost = lost
        self._keep = keep
        self._connector: aiohttp.TCPConnector | None = None

    async def get(self, path: str) -> Any:
        return self._parsed(path, await self._reply("GET", path))

    async def post(
        self, path: str, body: JsonDict, cookies: aiohttp.CookieJar | None = None
    ) -> JsonDict:
        """POST a JSON value; ``cookies`` are those of the rollout, and keep what the server sets."""
        value = self._parsed(path, await self._reply("POST", path, body, cookies=cookies))
        if not isinstance(value, dict):
            raise TransportError(
                f"{self.base}{path} answered with no JSON object: {str(value)[:_SHOWN]}"
            )
        return value

    async def post_text(self, path: str, body: JsonDict) -> str:
        return (await self._reply("POST", path, body)).decode("utf-8", "replace")

    async def close(self) -> None:
        if self._connector is not None:
            await self._connector.close()

    def _parsed(self, path: str, raw: bytes) -> Any:
        try:
            return orjson.loads(raw)
        except orjson.JSONDecodeError as error:
            text = scrub(raw[:_SHOWN].decode("utf-8", "replace"))
            raise TransportError(
                f"{self.base}{path} answered with something that is not JSON: {text}"
            ) from error

    async def _reply(
        self,
        method: str,
        path: str,
        body: JsonDict | None = None,
        cookies: aiohttp.CookieJar | None = None,
    ) -> bytes:
        if body is None:
            data: bytes | None = None
        else:
            data = orjson.dumps(body, default=str, option=orjson.OPT_NON_STR_KEYS)
        for pause in self._pauses():
            try:
                return self._checked(path, *await self.send(method, path, data, cookies=cookies))
            except aiohttp.ClientConnectorError as error:
                await self._waited(pause, error)
            except TimeoutError as error:
                raise TransportError(
                    f"{self.base}{path} did not answer in {self._timeout} s"
                ) from error
            except (aiohttp.ClientError, OSError) as error:
                # The request may have been seen, so it is not sent again here; whose fault it is, is asked.
                await self._expect_somebody()
                raise TransportError(
                    f"{self.base}{path}: {type(error).__name__}: {error}"
                ) from error
        raise AssertionError("unreachable")

    def _pauses(self) -> Iterator[float | None]:
        """How long to wait before each further look; None when it was waited for long enough."""
        until = monotonic() + (0.0 if self._lost is None else _PATIENCE)
        yield from _PAUSES
        while monotonic() < until:
            yield _PAUSES[-1]
        yield None

    async def _waited(self, pause: float | None, error: Exception) -> None:
        """Wait for a server that may come back. Raises OutageError when it will not, or has not."""
        if self._lost is not None:
            why = self._lost()
        else:
            why = None
        if why or pause is None:
            hint = "start the server again, then run the same command with --resume"
            raise OutageError(
                why or f"nothing answers at {self.base}: {error}", hint=hint
            ) from error
        await asyncio.sleep(pause)

    async def _expect_somebody(self) -> None:
        """Return when the server says anything at all. Raises OutageError when it is gone.

        A process that dies breaks its connections first, may take new ones for a moment, and is known to have ended
        only later: one broken connection tells nothing about the problem that was on it.
        """
        for pause in self._pauses():
            try:
                await self.send("GET", "/health", timeout=_PROBE)
                return
            except TimeoutError:
                # It took the connection: busy, not gone.
                return
            except (aiohttp.ClientError, OSError) as error:
                await self._waited(pause, error)

    async def send(
        self,
        method: str,
        path: str,
        data: bytes | None = None,
        cookies: aiohttp.CookieJar | None = None,
        timeout: float | None = None,
    ) -> tuple[int, bytes]:
        """One request, once: the status and the body of the reply. Raises what aiohttp does."""
        if self._connector is None:
            self._connector = aiohttp.TCPConnector(limit=0, force_close=not self._keep)
        if data is not None:
            headers = {"Content-Type": "application/json"}
        else:
            headers = {}
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token.reveal()}"
        limit = aiohttp.ClientTimeout(total=timeout or self._timeout)
        about: JsonDict = {"data": data, "headers": headers, "timeout": limit}
        if cookies is None:
            jar = new_jar()
        else:
            jar = cookies
        session = aiohttp.ClientSession(
            connector=self._connector,
            connector_owner=False,
            cookie_jar=jar,
            proxy=proxy_url(self.base),
        )
        async with session, session.request(method, self.base + path, **about) as reply:
            return reply.status, await reply.read()

    def _checked(self, path: str, status: int, body: bytes) -> bytes:
        text = scrub(body[:_SHOWN].decode("utf-8", "replace"))
        said = f"{self.base}{path} answered {status}: {text}"
        if status in (401, 403):
            hint = "give the token that `nel serve` printed: set NEL_SERVE_TOKEN, or params.token"
            raise AuthError(said, hint=hint, status=status)
        if status in (404, 405):
            hint = "is this a Gym server of that protocol? (protocol=evaluator or protocol=native)"
            raise NotFoundError(said, hint=hint, status=status)
        if 400 <= status < 500 and status not in (408, 429):
            raise RequestRejectedError(said, status=status)
        if status != 200:
            raise TransportError(said, status=status)
        return body


def new_jar() -> aiohttp.CookieJar:
    """Cookies of one rollout; those of servers known by address count too."""
    return aiohttp.CookieJar(unsafe=True)
