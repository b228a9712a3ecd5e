"""One HTTP/1.1 connection of the scripted server: a small hand-written protocol, for its low cost."""

import asyncio
import socket
import struct
from typing import Any, Final, cast

import orjson

from nemo_evaluator.testing._bytes import dechunk, embeddings_of, extra_lines, head_of, headers_of, length_of, spoiled
from nemo_evaluator.testing._desk import Desk
from nemo_evaluator.testing.script import Fault, Say, Seen
from nemo_evaluator.testing.wire import answer_body, error_event, stream_events

_SILENT: Final = frozenset({Fault.STALL, Fault.RESET, Fault.CLOSE, Fault.BAD_HTTP})


class Connection(asyncio.Protocol):
    """Reads requests one after another and plays what the script says to each."""

    def __init__(self, server: Desk) -> None:
        self._server = server
        self._loop = server.loop
        self._buffer = b""
        self._seen: Seen | None = None
        self._busy = False
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._server.connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._server.connections.discard(self)
        if self._busy:
            self._server.cancelled += 1
            if self._seen is not None:
                self._seen.cancelled = True
            self._end()
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            self._task.cancel()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def drop(self) -> None:
        """Close without ceremony: the server is going away."""
        self._busy = False
        self._transport.abort()

    def data_received(self, data: bytes) -> None:
        self._buffer = self._buffer + data if self._buffer else data
        while not self._busy and self._buffer:
            if not self._take():
                return

    def _take(self) -> bool:
        buffer = self._buffer
        end = buffer.find(b"\r\n\r\n")
        if end < 0:
            return False
        head = buffer[:end]
        lowered = head.lower()
        if b"\r\ntransfer-encoding: chunked" in lowered:
            found = dechunk(buffer, end + 4)
            if found is None:
                return False
            body, total = found
        else:
            total = end + 4 + length_of(lowered)
            if len(buffer) < total:
                return False
            body = buffer[end + 4 : total]
        self._buffer = buffer[total:] if len(buffer) > total else b""
        self._handle(head, body)
        return True

    def _handle(self, head: bytes, body: bytes) -> None:
        server = self._server
        line, _, rest = head.partition(b"\r\n")
        method, target, _ = line.decode("latin-1").split(" ", 2)
        path = target.partition("?")[0]
        if method != "POST":
            self._get(path)
            return
        server.count += 1
        self._busy = True
        server.in_flight += 1
        server.max_in_flight = max(server.max_in_flight, server.in_flight)
        seen = Seen(server.count - 1, method, path, {}, body)
        if server.recording or server.api_key or server.book.constant is None:
            seen.headers = headers_of(rest)
        if server.recording:
            server.note(seen)
        self._seen = seen
        say = self._refusal(seen)
        if say is None and not server.weather.calm:
            say = server.weather.strike(self._loop.time())
        if say is None:
            say = server.book.constant or server.book.answer(seen)
        wait = say.delay + (say.jitter * server.weather._random.random() if say.jitter else 0.0)
        if wait > 0:
            self._timer = self._loop.call_later(wait, self._play, seen, say)
        else:
            self._play(seen, say)

    def _refusal(self, seen: Seen) -> Say | None:
        server = self._server
        if not server.knows(seen.path):
            return Say(status=404, message=f"no such path: {seen.path}")
        if server.api_key is not None:
            given = seen.headers.get("authorization", "").removeprefix("Bearer ") or seen.headers.get("x-api-key", "")
            if given != server.api_key:
                return Say(status=401, message=f"Incorrect API key provided: {given}")
        if server.models:
            try:
                model = seen.body.get("model")
            except orjson.JSONDecodeError:
                return Say(status=400, message="the body is not JSON")
            if model not in server.models:
                return Say(status=404, message=f"The model `{model}` does not exist")
        return None

    def _play(self, seen: Seen, say: Say) -> None:
        self._timer = None
        fault = say.fault
        if fault in _SILENT:
            self._server.statuses[str(fault)] += 1
            if fault is Fault.RESET:
                self._reset()
            elif fault is Fault.CLOSE:
                self._busy = False
                self._server.in_flight -= 1
                self._transport.close()
            elif fault is Fault.BAD_HTTP:
                self._write(b"this is not HTTP at all\r\n\r\n")
                self._transport.close()
            return
        self._server.statuses[str(fault or say.status)] += 1
        if say.raw is not None:
            self._task = self._loop.create_task(self._raw(say.raw, say.endless))
            return
        if say.status < 400 and b'"stream":' in seen.raw and seen.body.get("stream") is True:
            self._task = self._loop.create_task(self._stream(seen, say))
            return
        self._answer(seen, say)

    def _answer(self, seen: Seen, say: Say) -> None:
        fault = say.fault
        if seen.path.endswith("/embeddings") and say.status < 400 and say.body is None:
            payload = orjson.dumps(embeddings_of(seen.body))
        else:
            constant = say is self._server.book.constant and not self._server.recording
            model = "scripted" if constant else str(seen.body.get("model", "scripted"))
            payload = orjson.dumps(answer_body(seen.path, say, model, len(seen.raw)))
        kind = b"application/json"
        length: int | None = None
        if fault is not None:
            payload, kind, length = spoiled(payload, say)
        head = head_of(say, kind, len(payload) if length is None else length)
        if fault is Fault.STALL_HEADERS:
            self._write(head)
            return
        if fault is Fault.STALL_BODY:
            self._write(head + payload[: len(payload) // 2])
            return
        if length is not None:
            self._write(head + payload)
            self._finish()
            self._transport.close()
            return
        self._write(head + payload)
        self._finish()

    async def _stream(self, seen: Seen, say: Say) -> None:
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n"
        self._write(head + extra_lines(say) + b"\r\n")
        options = seen.body.get("stream_options") or {}
        model = str(seen.body.get("model", "scripted"))
        events = list(stream_events(seen.path, say, model, len(seen.raw), usage=bool(options.get("include_usage"))))
        broken = len(events) // 2
        for number, chunk in enumerate(events):
            if number == broken and say.fault in (Fault.STREAM_ERROR, Fault.STREAM_RESET, Fault.STREAM_STALL):
                if say.fault is Fault.STREAM_STALL:
                    return
                if say.fault is Fault.STREAM_RESET:
                    self._reset()
                    return
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
        self._busy = False
        self._server.in_flight -= 1

    def _finish(self) -> None:
        self._end()
        self._seen = None
        if self._buffer:
            self._loop.call_soon(self.data_received, b"")

    def _reset(self) -> None:
        self._end()
        sock = self._transport.get_extra_info("socket")
        if sock is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._transport.abort()

    def _get(self, path: str) -> None:
        if path == "/health" or path.endswith("/health"):
            value: Any = {"status": "ok"}
        elif path == "/stats":
            value = self._server.stats()
        elif path.endswith("/models"):
            names = sorted(self._server.models) or ["scripted"]
            value = {"object": "list", "data": [{"id": name, "object": "model"} for name in names]}
        else:
            self._write(head_of(Say(status=404), b"application/json", 2) + b"{}")
            return
        payload = orjson.dumps(value)
        self._write(head_of(Say(), b"application/json", len(payload)) + payload)
