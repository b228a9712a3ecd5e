"""Both doors to one scripted server: the pipeline in process, and the proxy before it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp
import pytest

from nemo_evaluator.adapters import Proxy, ServicePipeline
from nemo_evaluator.core.errors import NelError
from nemo_evaluator.models import (
    CallScope,
    Endpoint,
    ModelRequest,
    RetryConfig,
    StageSpec,
    Timeouts,
)
from nemo_evaluator.models.faults import error_of
from nemo_evaluator.testing import ScriptedServer

CHAT = "/chat/completions"


@dataclass
class Answered:
    """What came out of a door."""

    status: int
    body: Any
    error: NelError | None = None

    @property
    def message(self) -> Any:
        return self.body["choices"][0]["message"]


class Both:
    """Sends the same request through one of the doors."""

    def __init__(self, kind: str, server: ScriptedServer, endpoint: Endpoint) -> None:
        self.kind, self.server, self.endpoint = kind, server, endpoint
        self.door: ServicePipeline
        self.proxy: Proxy | None = None

    async def ask(
        self, body: dict[str, Any], path: str = CHAT, session: str | None = None, repeat: int = 0
    ) -> Answered:
        scope = CallScope(session, repeat=repeat) if session else None
        if self.proxy is None:
            try:
                reply = await self.door(ModelRequest(path, dict(body), scope=scope, whole=True))
            except NelError as error:
                return Answered(getattr(error, "status", None) or 500, {}, error)
            error = None if reply.ok else error_of(reply, self.endpoint)
            return Answered(reply.status, reply.body, error)
        url = self.proxy.session(scope) if scope else self.proxy.url
        headers = {"Authorization": f"Bearer {self.proxy.token.reveal()}"}
        async with (
            aiohttp.ClientSession() as client,
            client.post(url + path, json=body, headers=headers) as response,
        ):
            return Answered(response.status, await response.json(content_type=None))

    def stats(self) -> dict[str, Any]:
        return self.door.stats()


def endpoint_for(server: ScriptedServer, *stages: StageSpec, **settings: Any) -> Endpoint:
    """An endpoint with the given stages."""
    defaults = {
        "model": "m",
        "timeouts": Timeouts(5.0, 10.0, 10.0, 20.0),
        "retry": RetryConfig(1, 0.01, 0.02),
        "stages": list(stages),
    }
    return Endpoint("svc", server.url, **{**defaults, **settings})


@asynccontextmanager
async def _opened(
    kind: str, script: Any, *stages: StageSpec, **settings: Any
) -> AsyncIterator[Both]:
    async with ScriptedServer(script, **settings.pop("server", {})) as server:
        endpoint = endpoint_for(server, *stages, **settings)
        both = Both(kind, server, endpoint)
        if kind == "process":
            both.door = ServicePipeline(endpoint)
            try:
                yield both
            finally:
                await both.door.close()
        else:
            async with Proxy(endpoint) as proxy:
                both.proxy, both.door = proxy, proxy.pipeline
                yield both


@asynccontextmanager
async def _proxied(
    script: Any, *stages: StageSpec, **settings: Any
) -> AsyncIterator[tuple[Proxy, ScriptedServer]]:
    async with _opened("proxy", script, *stages, **settings) as both:
        assert both.proxy is not None
        yield both.proxy, both.server


@pytest.fixture
def proxied() -> Any:
    """``async with proxied(script, *stages) as (proxy, server)``."""
    return _proxied


@pytest.fixture
def open_door() -> Any:
    """``async with open_door(kind, script, *stages) as both``, for tests that compare the doors."""
    return _opened


@pytest.fixture(params=["process", "proxy"])
def opened(request: pytest.FixtureRequest) -> Any:
    """``async with opened(script, *stages) as both``: each test runs through both doors."""

    def opening(script: Any, *stages: StageSpec, **settings: Any) -> Any:
        return _opened(request.param, script, *stages, **settings)

    return opening
