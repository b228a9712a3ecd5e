"""Several servers of one service: the least busy is asked, one that fails is left out and tried again later."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from nemo_evaluator.core.errors import OutageError
from nemo_evaluator.models import Client, Endpoint, RetryConfig
from nemo_evaluator.testing import Say, ScriptedServer

QUESTION = [{"role": "user", "content": "Hi"}]


@asynccontextmanager
async def client_of(*servers: ScriptedServer, **settings: Any) -> AsyncIterator[Client]:
    urls = [server.url for server in servers]
    retry = settings.pop("retry", RetryConfig(2, 0.01, 0.05))
    async with Client(
        Endpoint("svc", urls[0], model="m", retry=retry, replicas=urls, **settings)
    ) as client:
        yield client


async def ask(client: Client, times: int, at_once: int = 8) -> None:
    places = asyncio.Semaphore(at_once)

    async def one() -> None:
        async with places:
            assert (await client.chat(QUESTION)).content == "ok"

    await asyncio.gather(*(one() for _ in range(times)))


async def test_the_less_busy_server_is_asked() -> None:
    slow, quick = Say("ok", delay=0.2), Say("ok", delay=0.01)
    async with (
        ScriptedServer(slow) as first,
        ScriptedServer(quick) as second,
        client_of(first, second) as client,
    ):
        await ask(client, 60)
        assert first.count + second.count == 60
        assert 4 <= first.count < second.count


async def test_servers_with_equally_much_to_do_take_turns() -> None:
    async with (
        ScriptedServer("ok") as first,
        ScriptedServer("ok") as second,
        client_of(first, second) as client,
    ):
        for _ in range(10):
            await client.chat(QUESTION)
        assert (first.count, second.count) == (5, 5)


async def test_concurrency_is_that_of_the_service_not_of_each_server() -> None:
    say = Say("ok", delay=0.02)
    async with ScriptedServer(say) as first, ScriptedServer(say) as second:
        async with client_of(first, second, max_concurrent=4) as client:
            await ask(client, 60, at_once=60)
        assert first.max_in_flight + second.max_in_flight <= 5


async def test_a_dead_server_is_left_out_and_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nemo_evaluator.models.lane._FIRST_PAUSE", 0.05)
    # No retries: a server that cannot be reached must not cost a try.
    once = RetryConfig(0, 0.01, 0.05)
    async with (
        ScriptedServer("ok") as first,
        ScriptedServer("ok") as second,
        client_of(first, second, retry=once) as client,
    ):
        await ask(client, 10)
        port = int(first.root.rpartition(":")[2])
        await first.stop()
        before = second.count
        await asyncio.sleep(0.05)
        await ask(client, 20)
        assert second.count == before + 20
        async with ScriptedServer("ok", port=port) as back:
            for _ in range(100):
                await client.chat(QUESTION)
                if back.count:
                    break
                await asyncio.sleep(0.05)
            assert back.count


async def test_a_server_that_fails_at_once_is_no_magnet() -> None:
    broken = ScriptedServer(Say(status=503))
    async with (
        broken as first,
        ScriptedServer(Say("ok", delay=0.02)) as second,
        client_of(first, second) as client,
    ):
        await ask(client, 40)
        assert second.count == 40
        assert first.count <= 10


async def test_a_service_that_is_lost_is_not_waited_for() -> None:
    async with (
        ScriptedServer("ok") as server,
        client_of(server, lost=lambda: "the server crashed") as client,
    ):
        await client.chat(QUESTION)
        await server.stop()
        with pytest.raises(OutageError, match="the server crashed"):
            await client.chat(QUESTION)
