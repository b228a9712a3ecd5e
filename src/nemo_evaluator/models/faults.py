"""From an HTTP status to a typed error: the only module that reads the error messages of servers."""

import math
import re
import time
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from nemo_evaluator.core.errors import (
    AuthError,
    BoundaryError,
    BudgetError,
    ContextExceededError,
    NotFoundError,
    RateLimitError,
    RequestRejectedError,
    TransportError,
)
from nemo_evaluator.core.files import dumps
from nemo_evaluator.core.json_coerce import as_dict
from nemo_evaluator.core.lazy import Lazy, lazy_pattern
from nemo_evaluator.core.secrets import scrub
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.models.endpoint import Endpoint
from nemo_evaluator.models.types import ModelReply

SESSION_BUDGET: Final = "session_budget_exhausted"

_email = Lazy("email.utils")
_CONTEXT: Final = lazy_pattern(
    r"context.{0,3}length|context.{0,3}window|context.{0,3}size|maximum.{0,12}context|context_length_exceeded"
    r"|prompt is too long|input is too long|too many (?:input )?tokens|input (?:length|tokens).{0,40}exceed"
    r"|exceeds? .{0,30}(?:model'?s? )?(?:max(?:imum)? |token )limit|reduce the length of (?:the messages|your prompt)"
    r"|request exceeds the available context",
    re.IGNORECASE,
)
_LONGEST: Final = 500
_LONGEST_DATE: Final = 60
_UNIT: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_RESETS: Final = (
    "x-ratelimit-reset-requests",
    "x-ratelimit-reset-tokens",
    "x-ratelimit-reset",
    "ratelimit-reset",
)


def error_of(reply: ModelReply, endpoint: Endpoint) -> BoundaryError:
    """The typed error of a reply whose status is 400 or more."""
    status = reply.status
    message = message_of(reply)
    text = f"{endpoint.name}: HTTP {status}"
    if message:
        text += f": {message}"
    facts: JsonDict = {"status": status, "attempts": reply.attempts}
    if status in (401, 403):
        return AuthError(text, hint=_auth_hint(endpoint, status), **facts)
    if status == 404:
        hint = f"check model {endpoint.model!r} and the URL {endpoint.url}; a GET of /models shows what there is"
        return NotFoundError(text, hint=hint, **facts)
    if status == 429:
        if as_dict(reply.body.get("error")).get("code") == SESSION_BUDGET:
            return BudgetError(message or text, **facts)
        return RateLimitError(text, retry_after=retry_after(reply.headers), **facts)
    if status == 408 or status >= 500:
        return TransportError(text, **facts)
    if status in (400, 413, 422) and _CONTEXT.search(message):
        return ContextExceededError(text, **facts)
    return RequestRejectedError(text, **facts)


def _auth_hint(endpoint: Endpoint, status: int) -> str:
    if endpoint.api_key is None:
        return (
            f"service {endpoint.name!r} has no api_key: add api_key: ${{YOUR_KEY_VARIABLE}} to it"
        )
    if status == 403:
        return f"the key of service {endpoint.name!r} may not use model {endpoint.model!r}"
    return f"the server refused the api_key of service {endpoint.name!r}: check the variable it comes from"


def message_of(reply: ModelReply) -> str:
    """The message in a server's error body, shortened and without secrets; empty if there is none."""
    content = _error_content(reply.body.get("error", reply.body))
    if not content and reply.raw:
        content = reply.raw[: 4 * _LONGEST].decode("utf-8", "replace")
    if not content:
        return ""
    # Scrubbing is slow for long texts, so most of the text is cut off first.
    scrubbed_text = scrub(_as_text(content)[: 20 * _LONGEST])
    text = " ".join(scrubbed_text.split())
    if len(text) <= _LONGEST:
        return text
    return f"{text[:_LONGEST]}…"


def _error_content(error: Any) -> Any:
    """The part of an error that holds its message."""
    if not isinstance(error, dict):
        return error
    message = error.get("message") or error.get("detail") or error.get("msg") or error
    if not isinstance(message, list):
        return message
    # FastAPI lists one object per wrong field.
    texts: list[str] = []
    for item in message[:20]:
        texts.append(_as_text(item.get("msg", item) if isinstance(item, dict) else item))
    return "; ".join(texts)


def _as_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return dumps(value).decode()


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Read how many seconds the server asks clients to wait: Retry-After in both forms, or the usual reset headers.

    Returns:
        The seconds, never negative and never NaN, but maybe infinite: the caller must limit them. None without a
        usable header.
    """
    milliseconds = headers.get("retry-after-ms")
    if milliseconds is not None:
        number = _number(milliseconds)
        if number is not None:
            return number / 1000.0
    seconds_or_date = headers.get("retry-after")
    if seconds_or_date is not None:
        number = _number(seconds_or_date)
        if number is not None:
            return number
        try:
            date: datetime = _email.parsedate_to_datetime(seconds_or_date[:_LONGEST_DATE])
            return max(0.0, date.timestamp() - time.time())
        except (ValueError, OverflowError):
            return None
    waits: list[float] = []
    for name in _RESETS:
        wait = _reset(headers.get(name))
        if wait is not None:
            waits.append(wait)
    return min(waits, default=None)


def stream_error(reply: ModelReply, error: Any) -> ModelReply:
    """An error inside a stream, as the reply it would have been without streaming."""
    fields: JsonDict = error if isinstance(error, dict) else {"message": _as_text(error)}
    status = fields.get("status") or fields.get("status_code") or fields.get("code")
    reply.status = 502
    if isinstance(status, int) and 400 <= status <= 599:
        reply.status = status
    reply.body = {"error": fields}
    reply.stream = None
    return reply


def _number(text: str) -> float | None:
    """A number that is not negative; None if the text is not one."""
    try:
        number = float(text)
    except ValueError:
        return None
    if math.isnan(number):
        return None
    return max(0.0, number)


def _reset(text: str | None) -> float | None:
    """The seconds in a reset header: a number, a moment in Unix time, or a duration such as ``6m0s``."""
    if text is None:
        return None
    number = _number(text)
    if number is not None:
        if number > 1e9:
            return max(0.0, number - time.time())
        return number
    durations = _UNIT.findall(text[:_LONGEST_DATE])
    if not durations:
        return None
    return sum(float(count) * _SECONDS[unit] for count, unit in durations)
