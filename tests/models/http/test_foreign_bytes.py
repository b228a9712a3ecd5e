"""No request is handed another one's answer: doubled answers, late duplicates, surplus bytes, cancelled requests."""

from __future__ import annotations

import asyncio
import random
import re
from contextlib import asynccontextmanager

import pytest

from nemo_evaluator.core.errors import TransportError
from nemo_evaluator.models import Client, Endpoint, RetryConfig, Timeouts
from nemo_evaluator.models.http.pool import ConnectionPool

WAITS = Timeouts(connect=2, first_byte=2, idle=1, total=5)


class Doubling:
    """Answers each question with its number, and now and then sends an answer twice: at once, or a little later."""

    def __init__(self, way, *, ids=True, seed=3):
        self.way, self.ids = way, ids
        self.random = random.Random(seed)
        self.connections = self.requests = self.doubled = 0
        self.later = set()

    async def serve(self, reader, writer):
        self.connections += 1
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                body = await reader.readexactly(int(re.search(rb"content-length: (\d+)", head)[1]))
                self.requests += 1
                number = re.search(rb"question (\d+)", body)[1].decode()
                own = f'"id": "{number}-{self.requests}", ' if self.ids else ""
                text = f'{{{own}"choices": [{{"message": {{"content": "{number}"}}, "finish_reason": "stop"}}]}}'
                answer = f"HTTP/1.1 200 OK\r\nContent-Length: {len(text)}\r\n\r\n{text}".encode()
                await asyncio.sleep(self.random.uniform(0.0, 0.01))
                twice = self.random.random() < 0.3
                self.doubled += twice
                writer.write(answer + self._surplus(answer) if twice else answer)
                if twice and self.way == "late":
                    task = asyncio.ensure_future(self._again(writer, answer))
                    self.later.add(task)
                    task.add_done_callback(self.later.discard)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    def _surplus(self, answer):
        return {"at once": answer, "in part": answer[:60], "garbage": b"\x00\xff", "late": b""}[
            self.way
        ]

    async def _again(self, writer, answer):
        await asyncio.sleep(self.random.uniform(0.0, 0.015))
        writer.write(answer)


@asynccontextmanager
async def doubling(way, **options):
    double = Doubling(way, **options)
    server = await asyncio.start_server(double.serve, "127.0.0.1", 0)
    yield double, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    for task in list(double.later):
        task.cancel()
    server.close()
    await asyncio.sleep(0.02)


@pytest.mark.serial
@pytest.mark.parametrize("ids", [True, False])
@pytest.mark.parametrize("way", ["at once", "in part", "garbage", "late"])
async def test_each_answer_belongs_to_its_request(way, ids):
    async with doubling(way, ids=ids) as (double, url):
        endpoint = Endpoint(
            "m", url, timeouts=WAITS, retry=RetryConfig(0, 0.01, 0.01), max_concurrent=16
        )
        async with Client(endpoint) as client:
            wrong, failed, turn = [], 0, asyncio.Semaphore(16)

            async def ask(number):
                nonlocal failed
                async with turn:
                    asked = asyncio.create_task(
                        client.chat([{"role": "user", "content": f"question {number}"}])
                    )
                    if number % 10 == 0:
                        asyncio.get_running_loop().call_later(0.004, asked.cancel)
                    try:
                        answer = await asked
                    except TransportError:
                        failed += 1
                    except asyncio.CancelledError:
                        return
                    else:
                        if answer.content != str(number):
                            wrong.append((number, answer.content))

            await asyncio.gather(*(ask(number) for number in range(300)))
    assert double.doubled > 50
    # The first late one may come while a question is under way, when nothing tells it from the answer.
    assert len(wrong) <= (way == "late")
    assert failed <= 16


async def test_a_server_whose_answers_are_equal_is_asked_once_each():
    async with doubling("late") as (double, url):
        double.random = type("Calm", (), {"uniform": lambda *_: 0.0, "random": lambda *_: 1.0})()
        double.ids = False
        async with Client(Endpoint("m", url, timeouts=WAITS)) as client:
            for _ in range(20):
                assert (
                    await client.chat([{"role": "user", "content": "question 7"}])
                ).content == "7"
    assert (double.requests, double.connections) == (20, 1)


async def test_a_connection_closed_by_a_408_does_not_end_reuse():
    async def serve(reader, writer):
        nonlocal connections
        connections += 1
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
        if connections == 1:
            await asyncio.sleep(0.02)
            writer.write(
                b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
            )
        else:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
        writer.close()

    connections = 0
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    pool = ConnectionPool(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
    request = b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n"
    for _ in range(3):
        assert (await pool.post(request, WAITS)).status == 200
        while connections == 1 and pool._all:
            await asyncio.sleep(0.01)
    assert connections == 2
    await pool.close()
    server.close()
