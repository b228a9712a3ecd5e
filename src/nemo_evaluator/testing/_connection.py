"""The connections of the scripted server, and the state that they share.

The connections parse HTTP themselves, because a web framework would be slower than the client under test.
"""

import asyncio
import hashlib
import socket
import struct
from collections import Counter, deque
from collections.abc import Collection, Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Final, cast

import httptools
import orjson

from nemo_evaluator.testing.script import Fault, Playbook, Say, Script, Seen, Weather
from nemo_evaluator.testing.wire import (
    SPOILED,
    answer_body,
    embeddings_of,
    error_event,
    extra_lines,
    head_of,
    stream_events,
)

_POSTS: Final = ("/chat/completions", "/completions", "/embeddings", "/responses", "/messages")
_SILENT: Final = frozenset({Fault.STALL, Fault.RESET, Fault.CLOSE, Fault.BAD_HTTP})


@dataclass(eq=False, repr=False)
class ScriptState:
    """The state of a scripted server: the script, the access rules, and the requests so far.

    Args:
        script: The script.
        answers: Answers by prompt, which take precedence over the script.
        weather: Random faults and the rate limit.
        api_key: The only accepted key; None to accept all.
        models: The only accepted models; empty to accept all.
        record: The number of requests to remember.
        host: The address to listen on.
        port: The port to listen on; 0 for any free port.
    """

    script: Script = "ok"
    _: KW_ONLY
    answers: Mapping[str, str] | None = None
    weather: Weather = field(default_factory=Weather)
    api_key: str | None = None
    models: Collection[str] = ()
    record: int = 10_000
    host: str = "127.0.0.1"
    port: int = 0

    def __post_init__(self) -> None:
        self.book = Playbook(self.script, self.answers)
        self.requests: deque[Seen] = deque(maxlen=self.record)
        self.counts: Counter[str] = Counter()
        self.statuses: Counter[str] = Counter()
        self.count = self.in_flight = self.max_in_flight = self.cancelled = 0
        self.connections: set[Connection] = set()
        self.loop: asyncio.AbstractEventLoop

    @property
    def duplicates(self) -> dict[str, int]:
        """The digests of requests that arrived more than once, with their counts."""
        return {digest: count for digest, count in self.counts.items() if count > 1}

    def note(self, seen: Seen) -> None:
        """Remember a request, and count it by path and body."""
        self.requests.append(seen)
        content = seen.path.encode() + seen.raw
        digest = hashlib.blake2b(content, digest_size=16).hexdigest()
        self.counts[digest] += 1

    def stats(self) -> dict[str, Any]:
        """Return the counts as a JSON object; the server returns it at ``/stats``."""
        return {
            "requests": self.count,
            "statuses": dict(self.statuses),
            "max_in_flight": self.max_in_flight,
            "cancelled": self.cancelled,
            "distinct": len(self.counts),
            "duplicates": len(self.duplicates),
        }


class Connection(asyncio.Protocol):
    """Reads requests one after another, and responds to each as scripted."""

    def __init__(self, server: ScriptState) -> None:
        self._server = server
        self._loop = server.loop
        self._parser = httptools.HttpRequestParser(self)
        self._target = b""
        self._head = list[tuple[bytes, bytes]]()
        self._body = list[bytes]()
        self._waiting: deque[tuple[str, str, list[tuple[bytes, bytes]], bytes]] = deque()
        # The request in progress.
        self._seen: Seen | None = None
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Register the new connection."""
        self._transport = cast(asyncio.Transport, transport)
        self._server.connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Unregister the connection, and count the current request as cancelled."""
        self._server.connections.discard(self)
        if self._seen is not None:
            self._server.cancelled += 1
            self._seen.cancelled = True
            self._end()
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            self._task.cancel()

    def pause_writing(self) -> None:
        """Make streams wait because the write buffer is full."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """Let streams continue."""
        self._writable.set()

    def drop(self) -> None:
        """Close the connection immediately because the server stops."""
        self._seen = None
        self._transport.abort()

    def data_received(self, data: bytes) -> None:
        """Parse received bytes, and start on the next complete request."""
        self._parser.feed_data(data)
        self._next()

    def on_url(self, part: bytes) -> None:
        """Receive a part of the request target from the parser."""
        self._target += part

    def on_header(self, name: bytes, value: bytes) -> None:
        """Receive a header from the parser."""
        self._head.append((name, value))

    def on_body(self, part: bytes) -> None:
        """Receive a part of the body from the parser."""
        self._body.append(part)

    def on_message_complete(self) -> None:
        """Queue the request that the parser has completed."""
        method = self._parser.get_method().decode()
        path = self._target.decode("latin-1").partition("?")[0]
        self._waiting.append((method, path, self._head, b"".join(self._body)))
        self._target = b""
        self._head = []
        self._body = []

    def _next(self) -> None:
        """Start on queued requests until one POST request is in progress."""
        while self._waiting and self._seen is None:
            method, path, head, body = self._waiting.popleft()
            if method != "POST":
                self._get(path)
                continue
            server = self._server
            self._seen = Seen(server.count, method, path, headers={}, raw=body)
            server.count += 1
            server.in_flight += 1
            server.max_in_flight = max(server.max_in_flight, server.in_flight)
            if server.record or server.api_key or server.book.constant is None:
                headers: dict[str, str] = {}
                for name, value in head:
                    headers[name.decode("latin-1").lower()] = value.decode("latin-1")
                self._seen.headers = headers
            if server.record:
                server.note(self._seen)
            self._begin(self._seen)

    def _begin(self, seen: Seen) -> None:
        """Choose the answer to a request, and send it now or after its delay."""
        server = self._server
        say = self._refusal(seen)
        if say is None and not server.weather.calm:
            say = server.weather.strike(self._loop.time())
        if say is None:
            say = server.book.constant or server.book.answer(seen)
        delay = say.delay + (say.jitter * server.weather._random.random() if say.jitter else 0.0)
        if delay > 0:
            self._timer = self._loop.call_later(delay, self._play, seen, say)
        else:
            self._play(seen, say)

    def _refusal(self, seen: Seen) -> Say | None:
        """Return the error for a request that breaks the access rules; None for any other."""
        server = self._server
        if not seen.path.endswith(_POSTS):
            return Say(status=404, message=f"no such path: {seen.path}")
        if server.api_key is not None:
            api_key = seen.headers.get("authorization", "").removeprefix("Bearer ")
            api_key = api_key or seen.headers.get("x-api-key", "")
            if api_key != server.api_key:
                return Say(status=401, message=f"Incorrect API key provided: {api_key}")
        if server.models:
            try:
                model = seen.body.get("model")
            except orjson.JSONDecodeError:
                return Say(status=400, message="the body is not JSON")
            if model not in server.models:
                return Say(status=404, message=f"The model `{model}` does not exist")
        return None

    def _play(self, seen: Seen, say: Say) -> None:
        """Send an answer in its form: a fault, raw bytes, a stream or a whole body."""
        self._timer = None
        fault = say.fault
        if fault in _SILENT:
            self._server.statuses[str(fault)] += 1
            self._fail_silently(fault)
            return
        self._server.statuses[str(fault or say.status)] += 1
        if say.raw is not None:
            self._task = self._loop.create_task(self._raw(say.raw, say.endless))
            return
        if say.status < 400 and b'"stream":' in seen.raw and seen.body.get("stream") is True:
            self._task = self._loop.create_task(self._stream(seen, say))
            return
        self._answer(seen, say)

    def _fail_silently(self, fault: Fault | None) -> None:
        """Perform a fault without an answer; a stall does nothing at all."""
        if fault is Fault.RESET:
            self._reset()
        elif fault is Fault.CLOSE:
            self._end()
            self._transport.close()
        elif fault is Fault.BAD_HTTP:
            self._write(b"this is not HTTP at all\r\n\r\n")
            self._transport.close()

    def _answer(self, seen: Seen, say: Say) -> None:
        """Send a whole answer, or the part that its fault leaves."""
        fault = say.fault
        payload = self._payload(seen, say)
        whole_length = len(payload)
        if fault in SPOILED:
            payload = SPOILED[fault](payload, say)
        if fault is Fault.STALL_HEADERS:
            self._write(head_of(say, len(payload)))
        elif fault is Fault.STALL_BODY:
            self._write(head_of(say, len(payload)) + payload[: len(payload) // 2])
        elif fault is Fault.TRUNCATED_BODY:
            self._write(head_of(say, whole_length) + payload)
            self._finish()
            self._transport.close()
        else:
            self._write(head_of(say, len(payload)) + payload)
            self._finish()

    def _payload(self, seen: Seen, say: Say) -> bytes:
        """Return the body of a whole answer."""
        if seen.path.endswith("/embeddings") and say.status < 400 and say.body is None:
            return orjson.dumps(embeddings_of(seen.body))
        # The fast path of load tests: a constant answer without recording does not parse the request.
        is_constant = say is self._server.book.constant and not self._server.record
        model = "scripted" if is_constant else str(seen.body.get("model", "scripted"))
        return orjson.dumps(answer_body(seen.path, say, model, prompt_chars=len(seen.raw)))

    async def _stream(self, seen: Seen, say: Say) -> None:
        """Send an answer as server-sent events, or the part that its fault leaves."""
        head = (
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n"
        )
        self._write(head + extra_lines(say) + b"\r\n")
        options = seen.body.get("stream_options") or {}
        model = str(seen.body.get("model", "scripted"))
        wants_usage = bool(options.get("include_usage"))
        prompt_chars = len(seen.raw)
        events = list(
            stream_events(seen.path, say, model, prompt_chars=prompt_chars, usage=wants_usage)
        )
        middle = len(events) // 2
        for number, chunk in enumerate(events):
            if number == middle and say.fault is Fault.STREAM_STALL:
                return
            if number == middle and say.fault is Fault.STREAM_RESET:
                self._reset()
                return
            if number == middle and say.fault is Fault.STREAM_ERROR:
                error = Say(status=500, message=say.message or "the model fell over")
                self._write_chunk(error_event(seen.path, error))
                break
            if say.fault is Fault.STREAM_NO_END and number >= len(events) - 3:
                break
            self._write_chunk(chunk)
            if say.chunk_delay:
                await asyncio.sleep(say.chunk_delay)
            await self._writable.wait()
        self._write(b"0\r\n\r\n")
        self._finish()

    async def _raw(self, data: bytes, endless: bytes) -> None:
        """Send raw bytes, repeat the endless part, and close the connection."""
        self._write(data)
        while endless and not self._transport.is_closing():
            self._write(endless)
            await self._writable.wait()
            await asyncio.sleep(0)
        self._finish()
        self._transport.close()

    def _write_chunk(self, data: bytes) -> None:
        self._write(b"%x\r\n%b\r\n" % (len(data), data))

    def _write(self, data: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(data)

    def _end(self) -> None:
        """Mark the current request as finished or abandoned."""
        self._seen = None
        self._server.in_flight -= 1

    def _finish(self) -> None:
        """End the current request and schedule the next one."""
        self._end()
        if self._waiting:
            self._loop.call_soon(self._next)

    def _reset(self) -> None:
        """Reset the TCP connection."""
        self._end()
        connection_socket = self._transport.get_extra_info("socket")
        if connection_socket is not None:
            connection_socket.setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
            )
        self._transport.abort()

    def _get(self, path: str) -> None:
        """Respond to a GET request for health, statistics or models."""
        say = Say()
        value = dict[str, Any]()
        if path.endswith("/health"):
            value = {"status": "ok"}
        elif path == "/stats":
            value = self._server.stats()
        elif path.endswith("/models"):
            names = sorted(self._server.models) or ["scripted"]
            value = {"object": "list", "data": [{"id": name, "object": "model"} for name in names]}
        else:
            say = Say(status=404)
        payload = orjson.dumps(value)
        self._write(head_of(say, len(payload)) + payload)
