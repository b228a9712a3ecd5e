"""What one agent, or somebody without a key, can take of the proxy: a share, and never what others need."""

from __future__ import annotations

import asyncio
import io
import itertools
import json
import os
import time
from pathlib import Path

import aiohttp
import pytest

from nemo_evaluator.adapters import _json_bodies, _limits
from nemo_evaluator.adapters import proxy as proxy_module
from nemo_evaluator.adapters._json_bodies import (
    MOST_LEVELS,
    MOST_VALUES,
    TooManyValuesError,
    count_values,
    parsed,
)
from nemo_evaluator.adapters._limits import BodyBudget, ConnectionTable
from nemo_evaluator.adapters.outside import AgentProxy
from nemo_evaluator.core.broken_ways import note_broken
from nemo_evaluator.core.errors import TransportError
from nemo_evaluator.core.types import SolveResult
from nemo_evaluator.engine.agents import check_reached
from nemo_evaluator.models import CallScope, Endpoint
from nemo_evaluator.testing import Say, ScriptedServer

CHAT = "/chat/completions"
HELLO = {"messages": [{"role": "user", "content": "hi"}]}
MB = 2**20


def _rss() -> int:
    """Bytes of memory that this process has now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def _raw(proxy, key="", framing="transfer-encoding: chunked"):
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
    head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {key}\r\n{framing}\r\n\r\n"
    writer.write(head.encode())
    return reader, writer


async def _flood(writer, data, most):
    """Send the same bytes until the connection is closed, or until so many were sent; returns how many were."""
    sent = 0
    try:
        async with asyncio.timeout(60):
            while sent < most:
                writer.write(data)
                await writer.drain()
                sent += len(data)
    except ConnectionError:
        pass
    return sent


async def _ask(url, key, body=None, data=None):
    headers = {"Authorization": f"Bearer {key}", "content-type": "application/json"}
    # A file: aiohttp warns of large bytes.
    sent = io.BytesIO(json.dumps(body).encode() if data is None else data)
    async with (
        aiohttp.ClientSession() as client,
        client.post(url + CHAT, data=sent, headers=headers) as got,
    ):
        return got.status, await got.json(content_type=None)


def _session(proxy, name):
    return proxy.session(CallScope(name)), proxy.key_of(name).reveal()


@pytest.mark.parametrize("framing", ["transfer-encoding: chunked", "content-length: 60000000"])
async def test_without_a_key_the_answer_comes_at_once_and_the_connection_closes(proxied, framing):
    async with proxied("ok") as (proxy, server):
        reader, writer = await _raw(proxy, "wrong", framing)
        async with asyncio.timeout(10):
            answer = await reader.read()
        assert b" 401 " in answer
        assert await _flood(writer, b"x" * 65536, 200 * MB) < 50 * MB
        writer.close()
        assert server.count == 0


@pytest.mark.parametrize("key", [None, "wrong"])
async def test_who_is_refused_in_the_middle_of_a_body_still_hears_why(proxied, key):
    async with proxied("ok") as (proxy, server):
        proxy._bodies = BodyBudget(most=MB, share=MB)
        url, own = _session(proxy, "large")
        large = {"messages": [{"role": "user", "content": "a" * (MB + 300_000)}]}
        status, answer = await _ask(url, own if key is None else key, large)
        assert status == (429 if key is None else 401)
        assert answer["error"]["message"]
        assert server.count == 0


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize(
    ("start", "more"),
    [
        (b"0\r\n", b"a: " + b"b" * 8000 + b"\r\n"),
        (b"0\r\na: ", b"b" * 65536),
        (b"0\r\n", b"a:\r\n" * 4000),
        (b"1;a=", b"b" * 65536),
        (b"", b"1;" + b"a" * 3000 + b"\r\nx\r\n"),
    ],
    ids=[
        "trailers",
        "a long trailer",
        "short trailers",
        "a chunk extension",
        "many chunk extensions",
    ],
)
async def test_what_is_neither_headers_nor_body_is_bounded(proxied, start, more, known):
    async with proxied("ok") as (proxy, server):
        before = _rss()
        _, writer = await _raw(proxy, proxy.token.reveal() if known else "")
        writer.write(start)
        most = 80 * MB
        sent = await _flood(writer, more, most)
        grown = _rss() - before
        writer.close()
        assert grown < 40 * MB
        assert sent < most
        assert server.count == 0
        assert (await _ask(proxy.url, proxy.token.reveal(), HELLO))[0] == 200


async def test_too_many_headers_are_cut_off(proxied):
    async with proxied("ok") as (proxy, _):
        reader, writer = await _raw(
            proxy, "", "\r\n".join(f"x-{number}: 1" for number in range(1000))
        )
        async with asyncio.timeout(10):
            try:
                assert b" 200 " not in await reader.read()
            except ConnectionResetError:
                pass
        writer.close()


async def _closed(reader):
    """Wait for the end of a connection, whatever is answered before."""
    async with asyncio.timeout(20):
        try:
            return await reader.read()
        except ConnectionError:
            return b""


async def test_requests_that_wait_on_one_connection_are_few(proxied):
    """Each costs memory before its turn comes: 18 bytes of a client became kilobytes."""
    async with proxied(Say("ok", delay=60)) as (proxy, server):
        _, key = _session(proxy, "many")
        body = json.dumps(HELLO).encode()
        reader, writer = await _raw(proxy, key, f"content-length: {len(body)}")
        writer.write(body)
        while not server.count:
            await asyncio.sleep(0.02)
        writer.write(b"GET / HTTP/1.1\r\n\r\n" * 3_000)
        await _closed(reader)
        writer.close()


async def test_a_few_requests_in_a_row_are_answered(proxied):
    async with proxied("ok") as (proxy, _):
        _, key = _session(proxy, "few")
        body = json.dumps(HELLO).encode()
        reader, writer = await _raw(proxy, key, f"content-length: {len(body)}")
        head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {key}\r\n"
        once_more = f"{head}content-length: {len(body)}\r\n\r\n".encode() + body
        last = once_more.replace(b"host: x", b"host: x\r\nconnection: close")
        writer.write(body + once_more * 3 + last)
        assert (await _closed(reader)).count(b" 200 OK") == 5
        writer.close()


@pytest.mark.parametrize(("size", "fine"), [(1, False), (16, False), (400, True)])
async def test_bodies_in_tiny_chunks_are_refused(proxied, size, fine):
    """The parser is called for every chunk, and others wait meanwhile."""
    async with proxied("ok") as (proxy, _):
        _, key = _session(proxy, "chunks")
        reader, writer = await _raw(proxy, key)
        body = json.dumps(HELLO | {"pad": " " * 800_000}).encode()
        parts = [body[at : at + size] for at in range(0, len(body), size)]
        chunks = b"".join(f"{len(part):x}\r\n".encode() + part + b"\r\n" for part in parts)
        writer.write(chunks + b"0\r\n\r\n")
        async with asyncio.timeout(20):
            try:
                answer = await reader.readuntil(b"\r\n")
            except (ConnectionError, asyncio.IncompleteReadError):
                answer = b""
        assert (b" 200 OK" in answer) is fine
        writer.close()


@pytest.mark.parametrize("stream", [False, True])
async def test_a_key_is_worth_nothing_after_its_attempt(proxied, stream):
    """Also on a connection that is already open, and while an answer streams."""
    answer_slowly = Say("one two " * 50, chunks=60, chunk_delay=0.5, delay=0 if stream else 60)
    async with proxied(answer_slowly) as (proxy, server):
        _, key = _session(proxy, "late")
        body = json.dumps(HELLO | {"stream": stream}).encode()
        idle_reader, idle_writer = await _raw(proxy, key, f"content-length: {len(body)}")
        await idle_writer.drain()
        reader, writer = await _raw(proxy, key, f"content-length: {len(body)}")
        writer.write(body)
        if stream:
            await asyncio.wait_for(reader.readuntil(b"data:"), 20)
        while not server.count:
            await asyncio.sleep(0.02)
        proxy.forget("late")
        answer = await _closed(reader)
        assert b"[DONE]" not in answer and b'"finish_reason":"stop"' not in answer
        idle_writer.write(body)
        async with asyncio.timeout(20):
            assert b" 403 " in await idle_reader.readuntil(b"\r\n\r\n")
        _, new_key = _session(proxy, "late")
        assert new_key != key
        assert (await _ask(proxy.url, key, HELLO))[0] in (401, 403)
        assert server.count == 1
        writer.close()
        idle_writer.close()


async def test_bodies_of_nested_lists_are_refused_unparsed_and_stop_nobody(proxied):
    nested = b"[" + b"[[[[[[],[]],[]]]]]," * (60 * MB // 19) + b"[]]"
    body = b'{"messages":[{"role":"user","content":"hi"}],"metadata":' + nested + b"}"
    assert len(body) < 64 * MB
    async with proxied("ok") as (proxy, server):
        honest_url, honest_key = _session(proxy, "honest")
        attackers = [_session(proxy, f"attacker-{number}") for number in range(2)]
        await _ask(honest_url, honest_key, HELLO)
        before = _rss()
        highest = before
        slowest = 0.0
        tasks = [asyncio.ensure_future(_ask(url, key, data=body)) for url, key in attackers]
        while not all(task.done() for task in tasks):
            began = time.monotonic()
            assert (await _ask(honest_url, honest_key, HELLO))[0] == 200
            slowest = max(slowest, time.monotonic() - began)
            highest = max(highest, _rss())
        assert {status for status, _ in await asyncio.gather(*tasks)} <= {413}
        assert slowest < 4.0
        assert highest - before < 700 * MB
        assert server.count < 10_000


@pytest.mark.parametrize(
    ("body", "fine"),
    [
        (b'{"a":' + b"[" * MOST_LEVELS + b"]" * MOST_LEVELS + b"}", False),
        (b'{"a":"' + b"[" * 10_000 + b'"}', True),
        (b'{"a":"' + b"," * MOST_VALUES * 2 + b'"}', True),
        (b'{"a":"' + b'\\",' * MOST_VALUES + b'"}', True),
        (b'{"a":["' + b'","' * MOST_VALUES + b'"]}', False),
        (b'{"a":[' + b"1," * MOST_VALUES + b"1]}", False),
        (b'{"a":[' + b"1," * (MOST_VALUES // 2) + b"1]}", True),
        (b'{"a":"\\\\",' + b'"b":[' + b"1," * MOST_VALUES + b"1]}", False),
    ],
)
async def test_values_are_counted_outside_of_texts(body, fine):
    if fine:
        found, values = await parsed(body)
        assert found == json.loads(body)
        assert values <= MOST_VALUES
    else:
        with pytest.raises(TooManyValuesError):
            count_values(body)


async def test_large_bodies_one_after_another_leave_time_for_others(monkeypatch):
    real = _json_bodies._parse
    turns = []

    def parse(raw):
        began = time.monotonic()
        cpu = time.thread_time()
        found = real(raw)
        turns.append((began, time.monotonic(), time.thread_time() - cpu))
        return found

    monkeypatch.setattr(_json_bodies, "_parse", parse)
    body = b'{"a":"' + b"a" * (8 * MB) + b'"}'
    await asyncio.gather(*(parsed(body) for _ in range(4)))
    assert len(turns) == 4
    for before, after in itertools.pairwise(turns):
        # To sleep may take a little less than what was asked for.
        assert after[0] - before[1] >= 3.5 * before[2]


async def test_bodies_that_are_held_are_bounded_in_sum_per_session(proxied, monkeypatch):
    monkeypatch.setattr(_limits, "SESSION_BODIES", 8 * MB)
    large = {"messages": [{"role": "user", "content": "a" * (3 * MB)}]}
    async with proxied(Say("ok", delay=30)) as (proxy, server):
        proxy._bodies = BodyBudget(most=64 * MB, share=8 * MB)
        url, key = _session(proxy, "large")
        tasks = [asyncio.ensure_future(_ask(url, key, large)) for _ in range(6)]
        async with asyncio.timeout(60):
            while sum(task.done() for task in tasks) < 4 or server.count < 2:
                await asyncio.sleep(0.02)
        assert [task.result()[0] for task in tasks if task.done()] == [429] * 4
        assert proxy._bodies.held < 8 * MB
        proxy.forget("large")
        await asyncio.gather(*tasks, return_exceptions=True)
        async with asyncio.timeout(20):
            while proxy._bodies.held:
                await asyncio.sleep(0.02)


def test_a_session_with_little_is_served_while_others_hold_all():
    budget = BodyBudget(most=10 * MB, share=6 * MB)
    assert budget.take(("session", "a"), 6 * MB) and not budget.take(("session", "a"), 1)
    assert budget.take(("session", "b"), 4 * MB)
    assert budget.take(("session", "c"), MB) and not budget.take(("session", "d"), 5 * MB)
    budget.give_back(("session", "a"), 6 * MB)
    assert budget.take(("session", "d"), 4 * MB)


class _Connection:
    def __init__(self):
        self.dropped = False

    def drop(self):
        self.dropped = True


def test_the_holder_of_most_connections_loses_one():
    table = ConnectionTable()
    table.most = 8
    mine = [_Connection() for _ in range(6)]
    for connection in mine:
        assert table.add(("address", "1"), connection) and table.rename(
            ("address", "1"), ("session", "greedy"), connection, None
        )
    for number in range(2):
        assert table.add(("address", str(number)), _Connection())
    assert not [connection for connection in mine if connection.dropped]
    assert table.add(("address", "3"), _Connection())
    assert [connection.dropped for connection in mine] == [False] * 5 + [True]


async def test_a_session_has_so_many_connections_and_others_have_theirs(proxied, monkeypatch):
    monkeypatch.setattr(proxy_module, "SESSION_CONNECTIONS", 3)
    async with proxied(
        lambda request: Say("ok", delay=30 if "slow" in str(request.body) else 0)
    ) as (proxy, server):
        url, key = _session(proxy, "greedy")
        slow = {"messages": [{"role": "user", "content": "slow"}]}
        tasks = [asyncio.ensure_future(_ask(url, key, slow)) for _ in range(8)]
        async with asyncio.timeout(60):
            while sum(task.done() for task in tasks) < 5 or server.count < 3:
                await asyncio.sleep(0.02)
        assert [task.result()[0] for task in tasks if task.done()] == [429] * 5
        other_url, other_key = _session(proxy, "honest")
        assert (await _ask(other_url, other_key, HELLO))[0] == 200
        proxy.forget("greedy")
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_idle_connections_without_a_key_do_not_keep_others_out(proxied):
    async with proxied("ok") as (proxy, _):
        proxy.connections.most = 32
        url, key = _session(proxy, "honest")
        writers = [(await asyncio.open_connection("127.0.0.1", proxy.port))[1] for _ in range(100)]
        assert (await _ask(url, key, HELLO))[0] == 200
        for writer in writers:
            writer.close()


async def test_what_a_session_has_under_way_ends_with_it(proxied):
    async with proxied(Say("ok", delay=60)) as (proxy, server):
        url, key = _session(proxy, "late")
        task = asyncio.ensure_future(_ask(url, key, HELLO))
        async with asyncio.timeout(20):
            while not server.count:
                await asyncio.sleep(0.02)
        proxy.forget("late")
        async with asyncio.timeout(20):
            with pytest.raises(aiohttp.ClientError):
                await task
            while proxy.stats()["in_flight"]:
                await asyncio.sleep(0.02)


async def test_a_request_whose_session_ends_before_its_body_came_is_not_sent(proxied):
    async with proxied("ok") as (proxy, server):
        _, key = _session(proxy, "late")
        body = json.dumps(HELLO).encode()
        reader, writer = await _raw(proxy, key, f"content-length: {len(body)}")
        writer.write(body[:5])
        await writer.drain()
        # An answer to somebody else: by then the first part was read.
        assert (await _ask(proxy.url, proxy.token.reveal(), HELLO))[0] == 200
        proxy.forget("late")
        writer.write(body[5:])
        async with asyncio.timeout(20):
            assert b" 403 " in await reader.readuntil(b"\r\n\r\n")
        writer.close()
        assert server.count == 1


async def test_an_agent_whose_way_broke_on_our_side_is_not_scored():
    async with ScriptedServer("ok") as server:
        door = AgentProxy(Endpoint(name="m", url=server.url, model="m"))
        await door.start()
        try:
            with door.session(CallScope("one")) as session:
                answer = SolveResult(response="I give up")
                url, key = session.access.url, session.access.api_key.reveal()
                assert (await _ask(url, key, HELLO))[0] == 200
                check_reached(answer, session)
                note_broken(session.access.url, "Too many open files")
                with pytest.raises(TransportError, match="Too many open files"):
                    check_reached(answer, session)
                # An agent that tried again and got its answer is scored.
                assert (await _ask(url, key, HELLO))[0] == 200
                check_reached(answer, session)
        finally:
            await door.close()
