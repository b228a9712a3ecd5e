"""The connections to one server; they are reused as long as the server behaves."""

import asyncio
import ssl
from functools import cache
from time import monotonic
from typing import Final
from urllib.parse import urlsplit

from nemo_evaluator.core.open_files import is_own_fault
from nemo_evaluator.models.endpoint import Timeouts
from nemo_evaluator.models.http.answer import Answer, Duplicates, WireError
from nemo_evaluator.models.http.http1 import Connection
from nemo_evaluator.models.http.http_proxy import HttpProxy, open_tunnel, reach

_KEEP_IDLE: Final = 30.0
# So many seconds after a server sent bytes without a request, no connection to it is reused.
_DISTRUST: Final = 60.0


class ConnectionPool:
    """Connections to the server of one base URL."""

    def __init__(self, url: str, proxy: HttpProxy | None = None) -> None:
        """Set up an empty pool for a base URL."""
        parts = urlsplit(url)
        self._host = parts.hostname or ""
        self._tls = parts.scheme == "https"
        self._port = parts.port or (443 if self._tls else 80)
        self._proxy = proxy
        # The most recently used one is used first.
        self._idle: dict[Connection, None] = {}
        self._all: set[Connection] = set()
        self._closed = False
        self._opening = 0
        self._trusted_at = 0.0
        self.duplicates = Duplicates()

    async def post(self, data: bytes, waits: Timeouts) -> Answer:
        """Send the bytes of one request and wait for its answer.

        Raises:
            WireError: There is no complete answer.
        """
        connection = self._reusable()
        if connection is None:
            self._opening += 1
            try:
                connection = await self._connect(waits.connect)
            finally:
                self._opening -= 1
        return await connection.exchange(data, waits)

    @property
    def busy(self) -> int:
        """The number of open requests."""
        return len(self._all) - len(self._idle) + self._opening

    async def close(self) -> None:
        """Close every connection."""
        self._closed = True
        for connection in list(self._all):
            connection.abort()
        # One turn of the loop, so that the sockets are closed when this returns.
        await asyncio.sleep(0)

    def give_back(self, connection: Connection) -> None:
        """Keep a connection whose exchange is over for the next one."""
        if self._closed or connection.rested_at < self._trusted_at:
            connection.abort()
        else:
            self._idle[connection] = None

    def distrust(self) -> None:
        """Stop reusing connections for a while, because the server sent bytes without a request."""
        self._trusted_at = monotonic() + _DISTRUST
        while self._idle:
            self._idle.popitem()[0].abort()

    def forget(self, connection: Connection) -> None:
        """Remove a connection that was closed."""
        self._all.discard(connection)
        self._idle.pop(connection, None)

    def _reusable(self) -> Connection | None:
        while self._idle:
            connection, _ = self._idle.popitem()
            if not connection.gone and monotonic() - connection.rested_at < _KEEP_IDLE:
                return connection
            connection.abort()
        return None

    async def _connect(self, bound: float) -> Connection:
        """Open a connection to the server, through a proxy if one is set."""
        loop = asyncio.get_running_loop()
        context = _tls_context() if self._tls else None
        connection = Connection(self, loop)
        server_address = f"{self._host}:{self._port}"
        try:
            async with asyncio.timeout(bound):
                if self._proxy is None:
                    await loop.create_connection(
                        lambda: connection, self._host, self._port, ssl=context
                    )
                elif context is None:
                    await reach(self._proxy, lambda: connection, _tls_context)
                else:
                    await open_tunnel(
                        self._proxy, self._host, self._port, protocol=connection, context=context
                    )
        except TimeoutError as error:
            target = f"through the proxy {self._proxy}" if self._proxy else f"to {server_address}"
            text = f"no connection {target} within {bound:g} s (timeouts.connect)"
            raise WireError(text, connected=False) from error
        except OSError as error:
            text = f"no connection: {error.strerror or error} ({server_address})"
            raise WireError(text, connected=False, own=is_own_fault(error)) from error
        self._all.add(connection)
        return connection


@cache
def _tls_context() -> ssl.SSLContext:
    return ssl.create_default_context()
