"""HTTP as bytes, for the scripted server: the heads of answers, and what faults make of their bodies."""

import email.utils
import time
from collections.abc import Callable
from typing import Final

from nemo_evaluator.testing.script import Fault, Say

_REASONS: Final = {200: b"OK", 400: b"Bad Request", 401: b"Unauthorized", 404: b"Not Found", 429: b"Too Many Requests"}
SPOILED: Final[dict[Fault, Callable[[bytes, Say], bytes]]] = {
    Fault.TRUNCATED_JSON: lambda payload, say: payload[: len(payload) // 2],
    Fault.TRUNCATED_BODY: lambda payload, say: payload[: len(payload) // 2],
    Fault.MALFORMED_JSON: lambda payload, say: payload[:-1] + b",,}",
    Fault.NOT_AN_OBJECT: lambda payload, say: b'["a", "list"]',
    Fault.EMPTY_BODY: lambda payload, say: b"",
    Fault.WRONG_TYPE: lambda payload, say: b"<html><body>Gateway login</body></html>",
    Fault.BAD_ENCODING: lambda payload, say: b"\xff\xfe" + payload,
    Fault.HUGE: lambda payload, say: b'{"padding": "' + b"x" * say.size + b'"}',
}


def extra_lines(say: Say) -> bytes:
    """The header lines that a script asks for."""
    lines = [f"{name}: {value}" for name, value in say.headers.items()]
    if (wait := say.retry_after) is not None:
        if isinstance(wait, str) and wait.startswith("date+"):
            wait = email.utils.formatdate(time.time() + float(wait[5:]), usegmt=True)
        lines.append(f"Retry-After: {wait}")
    return "".join(f"{line}\r\n" for line in lines).encode("latin-1")


def head_of(say: Say, length: int) -> bytes:
    reason = _REASONS.get(say.status, b"Scripted")
    kind = b"text/html" if say.fault is Fault.WRONG_TYPE else b"application/json"
    extra = extra_lines(say) if say.headers or say.retry_after is not None else b""
    head = b"HTTP/1.1 %d %b\r\nContent-Type: %b\r\nContent-Length: %d\r\n%b\r\n"
    return head % (say.status, reason, kind, length, extra)
