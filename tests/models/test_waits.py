"""Waits: each has its bound, the server's wishes are honoured, and leaving reaches the server."""

from __future__ import annotations

import asyncio
import time

import pytest

from nemo_evaluator.core.errors import RateLimitError, TransportError
from nemo_evaluator.core.slots import Slots, current_slots
from nemo_evaluator.models import Client, Endpoint, RetryConfig, Timeouts
from nemo_evaluator.models.faults import retry_after
from nemo_evaluator.testing import Fault, Say

HELLO = [{"role": "user", "content": "hello"}]
NONE = RetryConfig(0)


@pytest.mark.parametrize("asks", ["1", 0.4, "date+2"])
async def test_retry_after_is_a_floor(asked, asks):
    async with asked([Say(status=429, retry_after=asks), "ok"]) as (client, _):
        started = time.monotonic()
        await client.chat(HELLO)
        waited = time.monotonic() - started
    # A date has whole seconds only, so it may come up to one second early.
    least = {"1": 1.0, 0.4: 0.4, "date+2": 0.9}[asks]
    assert least <= waited < least + 1.5


async def test_retry_after_holds_everybody_back_in_a_wave(asked):
    async with asked([*[Say(status=429, retry_after=0.5)] * 3, "ok"]) as (client, _):
        first = [asyncio.create_task(client.chat(HELLO)) for _ in range(3)]
        await asyncio.sleep(0.1)
        started = time.monotonic()
        await client.chat(HELLO)
        assert time.monotonic() - started > 0.3
        await asyncio.gather(*first)


async def test_a_wait_longer_than_the_total_is_refused(asked):
    async with asked(Say(status=429, retry_after=3600)) as (client, server):
        started = time.monotonic()
        with pytest.raises(RateLimitError) as raised:
            await client.chat(HELLO)
    assert time.monotonic() - started < 1
    assert "3600 s" in raised.value.hint
    assert server.count == 1


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"retry-after-ms": "250"}, 0.25),
        ({"x-ratelimit-reset-requests": "1m2s"}, 62.0),
        ({"x-ratelimit-reset-tokens": "120ms"}, 0.12),
        ({"x-ratelimit-reset": "3"}, 3.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-3"}, 0.0),
        ({}, None),
    ],
)
def test_forms_of_retry_after(headers, seconds):
    assert retry_after(headers) == seconds


async def test_total_bounds_a_slow_drip(asked):
    waits = Timeouts(connect=1, first_byte=1, idle=0.4, total=0.6)
    script = Say("word " * 50, chunk_delay=0.1)
    async with asked(script, timeouts=waits, retry=NONE, extra_body={"stream": True}) as (
        client,
        _,
    ):
        started = time.monotonic()
        with pytest.raises(TransportError, match="total"):
            await client.chat(HELLO)
    assert time.monotonic() - started < 1.5


async def test_first_byte_is_not_bounded_by_idle(asked):
    waits = Timeouts(connect=1, first_byte=2.0, idle=0.1, total=5)
    async with asked(Say("ok", delay=0.5), timeouts=waits, retry=NONE) as (client, _):
        assert (await client.chat(HELLO)).content == "ok"


async def test_connect_is_bounded():
    waits = Timeouts(connect=0.3, first_byte=5, idle=5, total=10)
    # A listener whose queue is full never completes the handshake.
    import socket

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        port = listener.getsockname()[1]
        fillers = []
        for _ in range(8):
            filler = socket.socket()
            filler.setblocking(False)
            filler.connect_ex(("127.0.0.1", port))
            fillers.append(filler)
        async with Client(
            Endpoint("svc", f"http://127.0.0.1:{port}/v1", timeouts=waits, retry=NONE)
        ) as client:
            started = time.monotonic()
            with pytest.raises(TransportError, match=r"timeouts.connect"):
                await client.chat(HELLO)
            assert time.monotonic() - started < 2
        for filler in fillers:
            filler.close()


@pytest.mark.parametrize("say", [Say(delay=5), Say(fault=Fault.STALL_BODY)])
async def test_cancelling_reaches_the_server(asked, say):
    async with asked(say, timeouts=Timeouts(1, 9, 9, 9)) as (client, server):
        task = asyncio.create_task(client.chat(HELLO))
        while not server.in_flight:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.sleep(0.05)
        assert server.cancelled == 1
        assert server.requests[0].cancelled
        assert client.transport.lane.limiter.in_flight == 0


async def test_giving_up_reaches_the_server(asked):
    async with asked(Say(fault=Fault.STALL), retry=NONE, timeouts=Timeouts(1, 0.3, 0.3, 2)) as (
        client,
        server,
    ):
        with pytest.raises(TransportError):
            await client.chat(HELLO)
        await asyncio.sleep(0.05)
        assert server.cancelled == 1


async def test_back_off_lends_the_slot(asked):
    slots = Slots(1)
    seen = []
    async with asked([Say(status=500), "ok"], retry=RetryConfig(1, 0.3, 0.3, jitter=False)) as (
        client,
        _,
    ):
        await slots.acquire()
        current_slots.set(slots)
        task = asyncio.create_task(client.chat(HELLO))
        await asyncio.sleep(0.15)
        seen.append((slots.lent, slots._free))
        await task
    assert seen == [(1, 1)]
    assert (slots.lent, slots._free) == (0, 0)
