"""A scripted OpenAI-compatible server: real HTTP on loopback, cheap enough to run next to a benchmark."""

import asyncio
import threading
from contextlib import AbstractAsyncContextManager
from typing import Any, Self

import uvloop

from nemo_evaluator.testing._connection import Connection, ScriptState


class Threaded(AbstractAsyncContextManager[Any]):
    """A server that also runs in a thread of its own, for code that is not async."""

    loop: asyncio.AbstractEventLoop

    def __enter__(self) -> Self:
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
        self.loop.call_soon_threadsafe(self._over.set)
        self._thread.join(10)


class ScriptedServer(ScriptState, Threaded):
    """Plays a script over HTTP on loopback.

    ::

        async with ScriptedServer("42") as server:      # on the running loop
            client = Client(Endpoint(name="m", url=server.url))

        with ScriptedServer(rules) as server:    # in a thread of its own, for code that is not async
            subprocess.run(["nel", "eval", "run", ..., "--model-url", server.url])

    ``requests`` keeps the last ``record`` requests, ``counts`` how often each body arrived (by digest), ``count`` the
    number of POSTs, ``max_in_flight`` the largest number of requests being answered at once, ``cancelled`` how
    many were left by their client.
    """

    _server: asyncio.Server | None = None

    @property
    def url(self) -> str:
        """The versioned base URL, as a model service gives it."""
        return f"{self.root}/v1"

    @property
    def root(self) -> str:
        """The URL of the server itself."""
        return f"http://{self.host}:{self.port}"

    async def start(self) -> Self:
        """Listen, on the running loop."""
        self.loop = asyncio.get_running_loop()
        self._server = await self.loop.create_server(
            lambda: Connection(self), self.host, self.port, backlog=4096
        )
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def stop(self) -> None:
        """Stop listening and drop every connection."""
        if self._server is None:
            return
        self._server.close()
        for connection in list(self.connections):
            connection.drop()
        await self._server.wait_closed()
        self._server = None

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, *exc: object) -> None:
        await self.stop()
