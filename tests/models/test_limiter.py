"""The limiter: slow start, cuts, pauses, pace, sharing."""

from __future__ import annotations

import asyncio
import time

import pytest

from nemo_evaluator.core.errors import RateLimitError
from nemo_evaluator.models import Client, Endpoint, RetryConfig, Timeouts
from nemo_evaluator.models.limiter import LONGEST_PAUSE, Limiter
from nemo_evaluator.testing import Fault, Rule, Say, ScriptedServer, Weather

HELLO = [{"role": "user", "content": "hello"}]


async def _ask_all(client, count, width):
    numbers = iter(range(count))
    results = []

    async def worker():
        for number in numbers:
            answer = await client.chat([{"role": "user", "content": f"question {number}"}])
            results.append(answer)

    await asyncio.gather(*(worker() for _ in range(width)))
    return results


async def test_slow_start_reaches_the_cap_in_a_few_rounds(asked):
    async with asked(Say("ok", delay=0.06), max_concurrent=64) as (client, server):
        await _ask_all(client, 400, 64)
        limits = [change["limit"] for change in client.stats["limiter"]["history"]]
    assert server.max_in_flight == 64
    assert limits == [16, 32, 64]


async def test_the_cap_is_kept(asked):
    async with asked(Say("ok", delay=0.01), max_concurrent=5) as (client, server):
        await _ask_all(client, 60, 30)
    assert server.max_in_flight <= 5


async def test_a_wave_of_429s_halves_and_stops_everybody():
    limiter = Limiter(64)
    now = time.monotonic()
    limiter.limit = 32.0
    for _ in range(12):
        assert limiter.enter(now)
    for _ in range(5):
        limiter.leave_limited(now, now + 0.01, 0.4)
    assert (limiter.limit, limiter.rate, limiter.enter(now)) == (29.5, None, True)
    limiter.leave_limited(now, now + 0.01, 0.4)
    assert limiter.limit == 14.75
    assert not limiter.enter(now + 0.4)
    # Others sent before the cut say nothing new.
    for _ in range(4):
        limiter.leave_limited(now, now + 0.02, None)
    assert limiter.limit == 14.75
    assert limiter.rate is not None
    assert [change["why"] for change in limiter.history] == ["429"]
    assert limiter.in_flight == 3


async def test_a_share_of_429s_above_a_few_per_cent_is_a_wave_too():
    limiter = Limiter(64)
    now = time.monotonic()
    for number in range(60):
        limiter.in_flight = 64
        now += 0.001
        if number % 5 == 0:
            limiter.leave_limited(now, now, None)
        else:
            limiter.leave(now, now)
    assert [change["why"] for change in limiter.history] == ["429"]


@pytest.mark.parametrize("asked", [86400.0, float("inf")])
async def test_no_pause_is_longer_than_the_longest(asked):
    limiter = Limiter(64)
    now = time.monotonic()
    for _ in range(3):
        assert limiter.enter(now)
        limiter.leave_limited(now, now, asked)
    assert limiter._paused_until <= now + LONGEST_PAUSE
    waiting = asyncio.create_task(limiter.wait())
    await asyncio.sleep(0)
    limiter._paused_until, limiter.rate = 0.0, None
    limiter._ring()
    await waiting


@pytest.mark.parametrize(
    "said", ["86400", "inf", "1e999", "nan", "-5", "Thu, 01 Jan 2099 00:00:00 GMT", "soon", ""]
)
async def test_one_429_does_not_stop_the_others(said):
    rules = [
        Rule(Say(status=429, retry_after=said), contains="question 3", times=1),
        Rule(Say("ok", delay=0.01)),
    ]
    with ScriptedServer(rules) as server:
        endpoint = Endpoint("svc", server.url, retry=RetryConfig(3, 0.05, 0.1), max_concurrent=8)
        async with Client(endpoint) as client:
            started = time.monotonic()
            asked = [
                client.chat([{"role": "user", "content": f"question {number}"}])
                for number in range(10, 20)
            ]
            slowed = asyncio.create_task(client.chat([{"role": "user", "content": "question 3"}]))
            await asyncio.gather(*asked)
            try:
                assert (await slowed).content == "ok"
            except RateLimitError as error:
                assert "longer than we do" in error.hint
            assert time.monotonic() - started < 3


async def test_2_per_cent_of_429s_leave_most_of_the_throughput():
    took = []
    for share in (0.0, 0.02):
        with ScriptedServer(
            Say("ok", delay=0.05), weather=Weather(p429=share, retry_after=0.1, seed=5)
        ) as server:
            async with Client(Endpoint("svc", server.url, max_concurrent=64)) as client:
                started = time.monotonic()
                await _ask_all(client, 1500, 64)
                took.append(time.monotonic() - started)
                stats = client.stats
    assert stats["rate_limited"] > 15
    assert stats["limiter"]["max_in_flight"] > 55
    assert took[0] / took[1] > 0.6, stats


async def test_a_wave_of_failures_halves_but_a_few_do_not():
    limiter = Limiter(64)
    limiter.limit = 16.0
    now = time.monotonic()
    for number in range(16):
        limiter.in_flight = 16
        (limiter.leave_failed if number % 8 == 0 else limiter.leave)(now, now + 1)
    assert limiter.limit == 32
    for number in range(32):
        limiter.in_flight = 32
        (limiter.leave_failed if number % 2 == 0 else limiter.leave)(now + 1, now + 2)
    assert limiter.limit == 16


async def test_growth_holds_while_it_only_makes_answers_slower():
    limiter = Limiter(512)
    now = time.monotonic()
    for latency in (1.0, 2.0, 4.0, 8.0, 16.0):
        for _ in range(int(limiter.limit)):
            limiter.in_flight = int(limiter.limit)
            limiter.leave(now, now + latency)
        now += latency
    assert limiter.limit == 16


async def test_a_cancelled_waiter_leaves_no_trace():
    limiter = Limiter(1)
    assert limiter.enter(time.monotonic())
    waiting = asyncio.create_task(limiter.wait())
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    limiter.leave(time.monotonic(), time.monotonic())
    assert limiter.enter(time.monotonic())


async def test_clients_of_one_endpoint_share_pool_and_limiter():
    async with ScriptedServer(Say("ok", delay=0.02)) as server:
        one = Client(Endpoint("solver", server.url, max_concurrent=4))
        two = Client(Endpoint("judge", server.url, max_concurrent=4))
        await asyncio.gather(_ask_all(one, 20, 10), _ask_all(two, 20, 10))
        assert one.transport.lane is two.transport.lane
        assert server.max_in_flight <= 4
        pool = one.transport.lane.pools[0]
        await one.close()
        assert pool._all
        await two.close()
        assert not pool._all


@pytest.mark.serial
async def test_storm():
    """200 requests a second allowed, 429 beyond; 2 % 500s, 1 % resets, 1 % stalls: all succeed, little is wasted."""
    weather = Weather(
        p500=0.02, preset=0.01, pstall=0.01, rate_limit=200, seed=7, stalls=Fault.STALL
    )
    waits = Timeouts(connect=2, first_byte=1.0, idle=1.0, total=5)
    count = 2000
    with ScriptedServer("ok", weather=weather) as server:
        endpoint = Endpoint(
            "svc", server.url, timeouts=waits, retry=RetryConfig(6, 0.2, 2.0), max_concurrent=128
        )
        async with Client(endpoint) as client:
            started = time.monotonic()
            results = await _ask_all(client, count, 128)
            elapsed = time.monotonic() - started
            stats = client.stats
    assert len(results) == count
    assert all(result.content == "ok" for result in results)
    wasted = server.count / count - 1
    assert wasted <= 0.15, (wasted, server.statuses, stats)
    assert elapsed < 2 * count / 200
    assert stats["limiter"]["rate"] == pytest.approx(200, rel=0.5)
