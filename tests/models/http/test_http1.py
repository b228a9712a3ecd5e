"""The lean HTTP client against raw bytes: framings, reuse, interim answers, TLS, streams and their readers."""

from __future__ import annotations

import asyncio
import gzip
import ssl
import subprocess
from contextlib import asynccontextmanager

import pytest

from nemo_evaluator.models import Timeouts
from nemo_evaluator.models.http import pool as pool_module
from nemo_evaluator.models.http.answer import WireError
from nemo_evaluator.models.http.http1 import LARGEST, Connection
from nemo_evaluator.models.http.pool import ConnectionPool

WAITS = Timeouts(1.0, 1.0, 0.5, 3.0)
REQUEST = b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n"
BODY = b'{"a": 1}'


class Raw:
    """Answers each request with the next of a list of raw byte strings; None closes the connection."""

    def __init__(self, answers):
        self.answers = list(answers)
        self.connections = 0

    async def serve(self, reader, writer):
        self.connections += 1
        try:
            while True:
                await reader.readuntil(b"\r\n\r\n")
                answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
                for piece in answer if isinstance(answer, list) else [answer]:
                    if piece is None:
                        return
                    writer.write(piece)
                    await writer.drain()
                    await asyncio.sleep(0.01)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def serving(*answers, context=None):
    raw = Raw(answers)
    server = await asyncio.start_server(raw.serve, "127.0.0.1", 0, ssl=context)
    port = server.sockets[0].getsockname()[1]
    pool = ConnectionPool(
        f"http{'s' if context else ''}://{'localhost' if context else '127.0.0.1'}:{port}/v1"
    )
    try:
        yield pool, raw
    finally:
        await pool.close()
        server.close()
        await asyncio.sleep(0.02)


def plain(body=BODY, head=b""):
    return b"HTTP/1.1 200 OK\r\n%bContent-Length: %d\r\n\r\n%b" % (head, len(body), body)


@pytest.mark.parametrize(
    "answer",
    [
        plain(),
        [plain()[:20], plain()[20:40], plain()[40:]],
        b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n{"a\r\n5\r\n": 1}\r\n0\r\n\r\n',
        [b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n", BODY, None],
        plain(gzip.compress(BODY, mtime=0), b"Content-Encoding: gzip\r\n"),
        b"HTTP/1.1 100 Continue\r\n\r\n" + plain(),
        [b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n", plain()],
        b"HTTP/1.0 200 OK\r\nContent-Length: 8\r\n\r\n" + BODY,
    ],
    ids=["plain", "in pieces", "chunked", "until close", "gzip", "100", "103", "HTTP/1.0"],
)
async def test_framings(answer):
    async with serving(answer) as (pool, _):
        for _ in range(2):
            got = await pool.post(REQUEST, WAITS)
            assert (got.status, got.body) == (200, BODY)
            assert "link" not in got.headers


async def test_connections_are_reused_unless_the_server_says_close():
    async with serving(plain()) as (pool, raw):
        for _ in range(5):
            await pool.post(REQUEST, WAITS)
        assert raw.connections == 1
        await asyncio.gather(*(pool.post(REQUEST, WAITS) for _ in range(3)))
        assert raw.connections == 3
    async with serving(plain(head=b"Connection: close\r\n")) as (pool, raw):
        for _ in range(3):
            await pool.post(REQUEST, WAITS)
        assert raw.connections == 3


async def test_an_idle_connection_that_was_closed_or_is_old_is_not_used(monkeypatch):
    async with serving([plain(), None]) as (pool, raw):
        for _ in range(3):
            await pool.post(REQUEST, WAITS)
            await asyncio.sleep(0.05)
        assert raw.connections == 3
    monkeypatch.setattr(pool_module, "_KEEP_IDLE", 0.0)
    async with serving(plain()) as (pool, raw):
        for _ in range(2):
            await pool.post(REQUEST, WAITS)
        assert raw.connections == 2


async def test_bytes_that_nobody_asked_for_end_a_connection():
    async with serving([plain(), b"surprise"]) as (pool, raw):
        await pool.post(REQUEST, WAITS)
        await asyncio.sleep(0.05)
        await pool.post(REQUEST, WAITS)
        assert raw.connections == 2


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"nonsense\r\n\r\n", "not HTTP"),
        ([None], "before it answered"),
        ([plain()[:-3], None], "middle of the answer"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n", "not HTTP"),
        (plain()[:-3], "timeouts.idle"),
        (b"", "timeouts.first_byte"),
        (
            b"HTTP/1.1 200 OK\r\n"
            + b"X: %b\r\n" % (b"y" * 997) * 300
            + b"Content-Length: 0\r\n\r\n",
            "256 KB",
        ),
        (b"HTTP/1.1 200 OK\r\nX: " + b"y" * 2**20, "256 KB"),
        (b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" * 20_000, "256 KB"),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n"
            + b"X: y\r\n" * 200_000,
            "256 KB",
        ),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;" + b"x" * 2**20, "256 KB"),
        (plain(gzip.compress(b" " * (LARGEST + 9)), b"Content-Encoding: gzip\r\n"), "64 MB"),
        ([b"HTTP/1.1 200 OK\r\n\r\n", *[b" " * 2**23] * 9], "64 MB"),
        (plain(b"no gzip", b"Content-Encoding: gzip\r\n"), "not HTTP"),
        (b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", "not HTTP"),
    ],
    ids=[
        *(
            "nonsense",
            "closed",
            "cut",
            "bad chunk",
            "idle",
            "silent",
            "headers",
            "long header",
            "interim answers",
        ),
        *("trailers", "chunk extension", "gzip bomb", "body without end", "no gzip", "upgrade"),
    ],
)
async def test_failures_are_told_and_the_pool_stays_usable(answer, words):
    async with serving(answer, plain()) as (pool, _):
        with pytest.raises(WireError, match=words):
            await pool.post(REQUEST, WAITS)
        assert (await pool.post(REQUEST, WAITS)).body == BODY


async def test_trailers_are_not_headers():
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nRetry-After: 9\r\n\r\n"
    async with serving(chunked) as (pool, _):
        got = await pool.post(REQUEST, WAITS)
        assert (got.body, "retry-after" in got.headers) == (b"{}", False)


EVENTS = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n"


async def test_streams_come_in_pieces_and_give_the_connection_back_once():
    pieces = [EVENTS, b"3\r\nabc\r\n", b"3\r\ndef\r\n", b"0\r\n\r\n"]
    async with serving(pieces) as (pool, raw):
        for _ in range(3):
            got = await pool.post(REQUEST, WAITS)
            assert [piece async for piece in got.stream] == [b"abc", b"def"]
            await got.stream.aclose()
            await got.stream.aclose()
        assert raw.connections == 1
        assert len(pool._idle) == 1


async def test_leaving_a_stream_closes_its_connection():
    async with serving([EVENTS, b"3\r\nabc\r\n", b"3\r\ndef\r\n"]) as (pool, _):
        got = await pool.post(REQUEST, WAITS)
        assert await anext(got.stream) == b"abc"
        await got.stream.aclose()
        await asyncio.sleep(0.02)
        assert not pool._all
        assert not pool._idle


async def test_a_slow_reader_holds_the_socket_but_not_beyond_the_total():
    big = b"%x\r\n%b\r\n" % (2**19, b"x" * 2**19)
    async with serving([EVENTS, *[big] * 20, b"0\r\n\r\n"]) as (pool, _):
        got = await pool.post(REQUEST, Timeouts(1, 1, 0.2, 1.5))
        await asyncio.sleep(0.6)
        assert got.stream._size < 4 * 2**19
        await asyncio.sleep(1.2)
        with pytest.raises(WireError, match=r"timeouts.total"):
            async for _ in got.stream:
                pass


@pytest.mark.parametrize(
    "piece", [b": keep waiting\n\n" * 2**16, b"data: x" * 2**10, b"data: {}\n\n" * 2**16]
)
async def test_a_stream_is_bounded_like_a_body(piece):
    chunk = b"%x\r\n%b\r\n" % (len(piece), piece)
    async with serving([EVENTS, *[chunk * (2**22 // len(piece))] * 20]) as (pool, _):
        got = await pool.post(REQUEST, Timeouts(1, 1, 1, 30))
        size = 0
        with pytest.raises(WireError, match="larger than 64 MB"):
            async for data in got.stream:
                size += len(data)
        assert size <= LARGEST


async def test_a_cancelled_request_leaves_a_connection_alone_that_others_use(monkeypatch):
    """The answer has come, the next asker has the connection, and only then the first one learns of its end."""
    tasks = []
    resolve = Connection._resolve

    def cancelled_late(self):
        if len(tasks) == 1:
            tasks.append(asyncio.create_task(pool.post(REQUEST, WAITS)))
            resolve(self)
            tasks[0].cancel()
        else:
            resolve(self)

    async with serving(plain()) as (pool, raw):
        await pool.post(REQUEST, WAITS)
        monkeypatch.setattr(Connection, "_resolve", cancelled_late)
        tasks.append(asyncio.create_task(pool.post(REQUEST, WAITS)))
        with pytest.raises(asyncio.CancelledError):
            await tasks[0]
        assert (await tasks[1]).body == BODY
        assert raw.connections == 1


async def test_leaving_a_stream_that_is_held_closes_its_connection():
    big = b"%x\r\n%b\r\n0\r\n\r\n" % (2**19, b"x" * 2**19)
    async with serving([EVENTS + big], plain()) as (pool, raw):
        got = await pool.post(REQUEST, WAITS)
        await asyncio.sleep(0.1)
        await got.stream.aclose()
        assert (await pool.post(REQUEST, WAITS)).body == BODY
        assert raw.connections == 2


@pytest.mark.needs("openssl")
async def test_tls(tmp_path, monkeypatch):
    key, cert = tmp_path / "key.pem", tmp_path / "cert.pem"
    words = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "2",
        "-subj",
        "/CN=localhost",
    ]
    words += ["-addext", "subjectAltName=DNS:localhost", "-keyout", str(key), "-out", str(cert)]
    subprocess.run(words, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    pool_module._tls_context.cache_clear()
    async with serving(plain(), context=context) as (pool, _):
        with pytest.raises(WireError, match=r"no connection: .*certificate"):
            await pool.post(REQUEST, WAITS)
        pool_module._tls_context.cache_clear()
        monkeypatch.setenv("SSL_CERT_FILE", str(cert))
        assert (await pool.post(REQUEST, WAITS)).body == BODY
    pool_module._tls_context.cache_clear()
