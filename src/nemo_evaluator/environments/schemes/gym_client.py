"""An HTTP client for Gym servers, with a cookie jar per rollout and an error class per kind of failure."""

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

# A server that refuses connections may be restarting. nel gives up on an external server after these pauses. For a
# server that nel manages, it waits as long as for a model server, because it learns if that server has ended.
_PAUSES: Final = (0.2, 0.5, 1.0, 2.0)
_PATIENCE: Final = Timeouts().outage
_PROBE: Final = 10.0
_SHOWN: Final = 300
Lost: TypeAlias = Callable[[], str | None]


class GymClient:
    """A client for one server.

    Args:
        base: The base URL of the server.
        token: The bearer token, if the server requires one.
        timeout: The total timeout of a request in seconds; None for no limit.
        lost: For a server that nel manages: returns why it will not come back, else None.
        keep: Whether to keep connections open between requests.
    """

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
        """Send a GET request and return the parsed JSON reply."""
        return self._parsed(path, await self._reply("GET", path))

    async def post(
        self, path: str, body: JsonDict, cookies: aiohttp.CookieJar | None = None
    ) -> JsonDict:
        """Send a JSON object and return the JSON object of the reply.

        Args:
            path: The path of the route.
            body: The object to send.
            cookies: The cookie jar of the rollout; it stores the cookies that the server sets.

        Raises:
            TransportError: The reply is not a JSON object.
        """
        value = self._parsed(path, await self._reply("POST", path, body, cookies=cookies))
        if not isinstance(value, dict):
            raise TransportError(
                f"{self.base}{path} answered with no JSON object: {str(value)[:_SHOWN]}"
            )
        return value

    async def post_text(self, path: str, body: JsonDict) -> str:
        """Send a JSON object and return the reply as text."""
        return (await self._reply("POST", path, body)).decode("utf-8", "replace")

    async def close(self) -> None:
        """Close the connections."""
        if self._connector is not None:
            await self._connector.close()

    def _parsed(self, path: str, raw: bytes) -> Any:
        """Parse a JSON reply; raise TransportError if it is not JSON."""
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
        """Send a request and return the body of the reply; wait for a server that refuses connections.

        Raises:
            OutageError: The server is gone.
            TransportError: The request failed for another reason.
        """
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
                # The server may have processed the request, so nel does not resend it; it only checks who is at fault.
                await self._expect_somebody()
                raise TransportError(
                    f"{self.base}{path}: {type(error).__name__}: {error}"
                ) from error
        raise AssertionError("unreachable")

    def _pauses(self) -> Iterator[float | None]:
        """Yield the pause before each further attempt, then None when the patience is over."""
        deadline = monotonic() + (0.0 if self._lost is None else _PATIENCE)
        yield from _PAUSES
        while monotonic() < deadline:
            yield _PAUSES[-1]
        yield None

    async def _waited(self, pause: float | None, error: Exception) -> None:
        """Wait for a server that may come back; raise OutageError if it will not, or took too long."""
        if self._lost is not None:
            reason = self._lost()
        else:
            reason = None
        if reason or pause is None:
            hint = "start the server again, then run the same command with --resume"
            raise OutageError(
                reason or f"nothing answers at {self.base}: {error}", hint=hint
            ) from error
        await asyncio.sleep(pause)

    async def _expect_somebody(self) -> None:
        """Return if the server responds at all; raise OutageError if it is gone.

        A dying process breaks its connections first, may accept new ones for a moment, and is known to have ended only
        later. So a broken connection alone says nothing about the problem that it carried.
        """
        for pause in self._pauses():
            try:
                await self.send("GET", "/health", timeout=_PROBE)
                return
            except TimeoutError:
                # The server accepted the connection, so it is busy, not gone.
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
        """Send one request without retries.

        Returns:
            The status and the body of the reply.

        Raises:
            aiohttp.ClientError: The request failed.
            TimeoutError: The server did not reply in time.
        """
        if self._connector is None:
            self._connector = aiohttp.TCPConnector(limit=0, force_close=not self._keep)
        if data is not None:
            headers = {"Content-Type": "application/json"}
        else:
            headers = {}
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token.reveal()}"
        client_timeout = aiohttp.ClientTimeout(total=timeout or self._timeout)
        request_options: JsonDict = {"data": data, "headers": headers, "timeout": client_timeout}
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
        async with session, session.request(method, self.base + path, **request_options) as reply:
            return reply.status, await reply.read()

    def _checked(self, path: str, status: int, body: bytes) -> bytes:
        """Return the body of a successful reply; raise the error that fits any other status."""
        text = scrub(body[:_SHOWN].decode("utf-8", "replace"))
        message = f"{self.base}{path} answered {status}: {text}"
        if status in (401, 403):
            hint = "give the token that `nel serve` printed: set NEL_SERVE_TOKEN, or params.token"
            raise AuthError(message, hint=hint, status=status)
        if status in (404, 405):
            hint = "is this a Gym server of that protocol? (protocol=evaluator or protocol=native)"
            raise NotFoundError(message, hint=hint, status=status)
        if 400 <= status < 500 and status not in (408, 429):
            raise RequestRejectedError(message, status=status)
        if status != 200:
            raise TransportError(message, status=status)
        return body


def new_jar() -> aiohttp.CookieJar:
    """Create the cookie jar of a rollout; it accepts cookies from servers addressed by IP too."""
    return aiohttp.CookieJar(unsafe=True)
