"""What the tests of this room share: an endpoint on a scripted server with short waits."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from nemo_evaluator.models import Client, Endpoint, RetryConfig, Timeouts
from nemo_evaluator.testing import ScriptedServer
from nemo_evaluator.testing.script import Script

# Long enough for a busy machine; tests of stalls bring their own.
PATIENT = Timeouts(connect=5.0, first_byte=10.0, idle=10.0, total=20.0)


@asynccontextmanager
async def _asked(script: Script, **settings: Any) -> AsyncIterator[tuple[Client, ScriptedServer]]:
    server_settings = settings.pop("server", {})
    async with ScriptedServer(script, **server_settings) as server:
        defaults = {"model": "m", "timeouts": PATIENT, "retry": RetryConfig(2, 0.01, 0.05)}
        endpoint = Endpoint("svc", server.url, **{**defaults, **settings})
        async with Client(endpoint) as client:
            yield client, server


@pytest.fixture
def asked() -> Callable[..., Any]:
    """``async with asked(script, **endpoint_settings) as (client, server)``."""
    return _asked
