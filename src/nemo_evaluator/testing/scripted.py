"""A scripted OpenAI-compatible server: real HTTP on loopback, fast enough to run next to a benchmark."""

import asyncio
import threading
from contextlib import AbstractAsyncContextManager
from typing import Any, Self

import uvloop

from nemo_evaluator.testing._connection import Connection, ScriptState


class Threaded(AbstractAsyncContextManager[Any]):
    """A server that can also run in its own thread, for code that is not async."""

    loop: asyncio.AbstractEventLoop

    def __enter__(self) -> Self:
        """Start the server in a thread, and wait until it listens."""
        ready, failure = threading.Event(), list[OSError]()

        async def serve() -> None:
            self.loop = asyncio.get_running_loop()
            self._over = asyncio.Event()
            try:
                async with self:
                    ready.set()
                    await self._over.wait()
            except OSError as error:
                failure.append(error)
                ready.set()

        self._thread = threading.Thread(
            target=lambda: uvloop.run(serve()), name="test-server", daemon=True
        )
        self._thread.start()
        ready.wait(10)
        if failure:
            raise failure[0]
        return self

    def __exit__(self, *exc: object) -> None:
        """Stop the server and its thread."""
        self.loop.call_soon_threadsafe(self._over.set)
        self._thread.join(10)


class ScriptedServer(ScriptState, Threaded):
    """Plays a script over HTTP on loopback.

    ::

        async with ScriptedServer("42") as server:      # on the running loop
            client = Client(Endpoint(name="m", url=server.url))

        with ScriptedServer(rules) as server:    # in its own thread, for code that is not async
            subprocess.run(["nel", "eval", "run", ..., "--model-url", server.url])

    Attributes:
        requests: The last ``record`` requests.
        counts: The number of arrivals of each request body, by digest.
        count: The number of POST requests.
        max_in_flight: The highest number of concurrent requests.
        cancelled: The number of requests that the client abandoned.
    """

    _server: asyncio.Server | None = None

    @property
    def url(self) -> str:
        """The versioned base URL, as a model service returns it."""
        return f"{self.root}/v1"

    @property
    def root(self) -> str:
        """The URL of the server without a path."""
        return f"http://{self.host}:{self.port}"

    async def start(self) -> Self:
        """Start to listen on the running loop."""
        self.loop = asyncio.get_running_loop()
        self._server = await self.loop.create_server(
            lambda: Connection(self), self.host, self.port, backlog=4096
        )
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def stop(self) -> None:
        """Stop listening and drop all connections."""
        if self._server is None:
            return
        self._server.close()
        for connection in list(self.connections):
            connection.drop()
        await self._server.wait_closed()
        self._server = None

    async def __aenter__(self) -> Self:
        """Start the server."""
        return await self.start()

    async def __aexit__(self, *exc: object) -> None:
        """Stop the server."""
        await self.stop()
