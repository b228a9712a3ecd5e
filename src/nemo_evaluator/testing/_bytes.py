"""HTTP as bytes, for the scripted server: reading heads and bodies, writing heads, spoiling answers."""

import email.utils
import time
from typing import Any, Final

from nemo_evaluator.testing.script import Fault, Say

_REASONS: Final = {200: b"OK", 400: b"Bad Request", 401: b"Unauthorized", 404: b"Not Found", 429: b"Too Many Requests"}


def length_of(lowered: bytes) -> int:
    """The content length of a head in lower case."""
    at = lowered.find(b"\r\ncontent-length:")
    if at < 0:
        return 0
    end = lowered.find(b"\r\n", at + 2)
    return int(lowered[at + 17 : end if end >= 0 else len(lowered)])


def dechunk(buffer: bytes, at: int) -> tuple[bytes, int] | None:
    """A chunked body and where it ends; None while it is incomplete."""
    parts: list[bytes] = []
    while True:
        end = buffer.find(b"\r\n", at)
        if end < 0:
            return None
        size = int(buffer[at:end].split(b";")[0], 16)
        start = end + 2
        if len(buffer) < start + size + 2:
            return None
        if size == 0:
            return b"".join(parts), start + 2
        parts.append(buffer[start : start + size])
        at = start + size + 2


def headers_of(rest: bytes) -> dict[str, str]:
    """Headers by name, in lower case."""
    headers = {}
    for line in rest.decode("latin-1").split("\r\n"):
        name, colon, value = line.partition(":")
        if colon:
            headers[name.lower()] = value.strip()
    return headers


def extra_lines(say: Say) -> bytes:
    """The header lines that a script asks for."""
    lines = [f"{name}: {value}" for name, value in say.headers.items()]
    if say.retry_after is not None:
        wait = say.retry_after
        text = wait if isinstance(wait, str) and wait != "date" else f"{wait}"
        if isinstance(wait, str) and wait.startswith("date+"):
            text = email.utils.formatdate(time.time() + float(wait[5:]), usegmt=True)
        lines.append(f"Retry-After: {text}")
    return "".join(f"{line}\r\n" for line in lines).encode("latin-1")


def head_of(say: Say, kind: bytes, length: int) -> bytes:
    """The head of an answer."""
    reason = _REASONS.get(say.status, b"Scripted")
    extra = extra_lines(say) if say.headers or say.retry_after is not None else b""
    return b"HTTP/1.1 %d %b\r\nContent-Type: %b\r\nContent-Length: %d\r\n%b\r\n" % (
        say.status,
        reason,
        kind,
        length,
        extra,
    )


def spoiled(payload: bytes, say: Say) -> tuple[bytes, bytes, int | None]:
    """The payload after a fault: bytes, content type, and a length that lies when the body is cut short."""
    fault, kind = say.fault, b"application/json"
    if fault is Fault.TRUNCATED_JSON:
        return payload[: len(payload) // 2], kind, None
    if fault is Fault.TRUNCATED_BODY:
        return payload[: len(payload) // 2], kind, len(payload)
    if fault is Fault.MALFORMED_JSON:
        return payload[:-1] + b",,}", kind, None
    if fault is Fault.NOT_AN_OBJECT:
        return b'["a", "list"]', kind, None
    if fault is Fault.EMPTY_BODY:
        return b"", kind, None
    if fault is Fault.WRONG_TYPE:
        return b"<html><body>Gateway login</body></html>", b"text/html", None
    if fault is Fault.BAD_ENCODING:
        return b"\xff\xfe" + payload, kind, None
    if fault is Fault.HUGE:
        return b'{"padding": "' + b"x" * say.size + b'"}', kind, None
    return payload, kind, None


def embeddings_of(body: dict[str, Any]) -> dict[str, Any]:
    """Small vectors that tell their texts apart."""
    given = body.get("input")
    texts = given if isinstance(given, list) else [given]
    data = [
        {"object": "embedding", "index": number, "embedding": [float(len(str(text))), float(number)]}
        for number, text in enumerate(texts)
    ]
    # Out of order on purpose: the client must sort by index.
    return {"object": "list", "data": data[::-1], "model": body.get("model"), "usage": {"prompt_tokens": 1}}
