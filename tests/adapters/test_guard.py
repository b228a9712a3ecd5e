"""Whom our servers answer: hosts that they know, no page of another origin, no body that never ends."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import pytest
from nel_support import Nel, Sums, nel, serve, sums

from nemo_evaluator.adapters.asgi import read_body
from nemo_evaluator.adapters.guard import LOOPBACK, Guarded, refusal
from nemo_evaluator.adapters.http_server import HttpServer

__all__ = ["nel", "serve", "sums"]


async def _echo(scope, receive, respond) -> None:
    body = b"no" if scope["path"] == "/early" else await read_body(receive)
    status = 401 if scope["path"] == "/early" else 200
    await respond(
        {
            "type": "http.response.start",
            "status": status,
            "headers": [(b"content-length", b"%d" % len(body))],
        }
    )
    await respond({"type": "http.response.body", "body": body, "more_body": False})


@pytest.fixture
async def port() -> AsyncIterator[int]:
    async with HttpServer(_echo, "127.0.0.1", 0, LOOPBACK | {"allowed.example"}) as server:
        server._app._body_bound = 0.5
        yield server.port


async def _ask(port: int, head: str, body: bytes = b"") -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(head.replace("\n", "\r\n").encode() + b"\r\n\r\n" + body)
    async with asyncio.timeout(30):
        answer = await reader.readuntil(b"\r\n\r\n")
        writer.close()
    return answer


@pytest.mark.parametrize(
    "host",
    ["localhost", "LOCALHOST:80", "127.0.0.1:1", "[::1]:9", "127.0.0.2", "allowed.example:7"],
)
async def test_known_hosts_are_answered(port: int, host: str) -> None:
    assert b" 200 " in await _ask(port, f"GET / HTTP/1.1\nHost: {host}")


@pytest.mark.parametrize(
    "head",
    [
        "Host: evil.example",
        "Host: evil.example:80",
        "Host: localhost.evil.example",
        "Host: 127.0.0.1.evil.example",
        "Host: 192.168.1.5",
        "Host: 0.0.0.0",
        "Host: ",
        "X-Host: localhost",
        "Host: localhost\nHost: evil.example",
        "Host: localhost\nOrigin: http://evil.example",
        "Host: localhost\nOrigin: null",
        "Host: localhost\nOrigin: http://localhost:1",
        "Host: localhost\nSec-Fetch-Site: cross-site",
        "Host: evil.example\nOrigin: http://evil.example",
        "Host: evil.example\nX-Forwarded-Host: localhost",
    ],
)
async def test_others_are_refused(port: int, head: str) -> None:
    answer = await _ask(port, f"GET / HTTP/1.1\n{head}")
    assert answer.split()[1] in (b"400", b"403", b"421")


async def test_a_page_of_the_server_itself_is_answered(port: int) -> None:
    head = f"GET / HTTP/1.1\nHost: localhost:{port}\nOrigin: http://localhost:{port}\nSec-Fetch-Site: same-origin"
    assert b" 200 " in await _ask(port, head)


@pytest.mark.parametrize("coding", ["Content-Length: 100", "Transfer-Encoding: chunked"])
@pytest.mark.parametrize("path", ["/", "/early"])
async def test_a_body_that_does_not_come_is_not_waited_for(
    port: int, coding: str, path: str
) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"POST {path} HTTP/1.1\r\nHost: localhost\r\n{coding}\r\n\r\n".encode())
    async with asyncio.timeout(30):
        answer = await reader.read()
    assert answer.split()[1] == (b"401" if path == "/early" else b"408")
    writer.close()


async def test_a_slow_body_is_timed_as_a_whole(port: int) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n")
    answered = asyncio.create_task(reader.read())
    for _ in range(1_000):
        if answered.done():
            break
        writer.write(b"x")
        await asyncio.sleep(0.05)
    assert (await answered).split()[1] == b"408"
    writer.close()


async def test_an_ordinary_body_is_read_whole(port: int) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(
        b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello"
    )
    async with asyncio.timeout(30):
        assert (await reader.read()).endswith(b"hello")
    writer.close()


def test_with_a_key_any_host_is_answered_and_no_page() -> None:
    assert refusal([(b"host", b"node17.cluster:80")], None) is None
    assert refusal([], None) is None
    assert refusal([(b"host", b"node17"), (b"origin", b"http://evil.example")], None) is not None
    assert Guarded(_echo, None) is not None


async def test_serve_without_a_token_answers_this_machine_alone(nel: Nel, sums: Sums) -> None:

    process = nel.start("serve", "-b", sums(2), "--no-token", "--port", "0", "--json")
    try:
        line = await asyncio.to_thread(process.stdout.readline)
        port = int(json.loads(line)["url"].rpartition(":")[2])
        assert b" 200 " in await _ask(port, f"GET /dataset_size HTTP/1.1\nHost: 127.0.0.1:{port}")
        for head in ("Host: evil.example", f"Host: 127.0.0.1:{port}\nOrigin: https://evil.example"):
            assert (await _ask(port, f"GET /dataset_size HTTP/1.1\n{head}")).split()[1] in (
                b"403",
                b"421",
            )
    finally:
        process.terminate()
        process.communicate(timeout=60)
