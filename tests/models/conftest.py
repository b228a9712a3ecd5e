"""What the tests of this room share: an endpoint on a scripted server with short waits."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from nemo_evaluator.models import Client, Endpoint, RetryConfig, Timeouts, open_client
from nemo_evaluator.testing import ScriptedServer
from nemo_evaluator.testing.script import Script

QUICK = Timeouts(connect=1.0, first_byte=0.3, idle=0.3, total=2.0)


@asynccontextmanager
async def _asked(script: Script, **settings: Any) -> AsyncIterator[tuple[Client, ScriptedServer]]:
    server_settings = settings.pop("server", {})
    async with ScriptedServer(script, **server_settings) as server:
        defaults = {"model": "m", "timeouts": QUICK, "retry": RetryConfig(2, 0.01, 0.05)}
        endpoint = Endpoint("svc", server.url, **{**defaults, **settings})
        async with open_client(endpoint) as client:
            yield client, server


@pytest.fixture
def asked() -> Callable[..., Any]:
    """``async with asked(script, **endpoint_settings) as (client, server)``."""
    return _asked
