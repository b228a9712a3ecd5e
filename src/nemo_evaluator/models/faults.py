"""From an HTTP status to a typed error: the one place where the words of servers are read."""

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
    said = message_of(reply)
    if said:
        text = f"{endpoint.name}: HTTP {status}: {said}"
    else:
        text = f"{endpoint.name}: HTTP {status}"
    facts: JsonDict = {"status": status, "attempts": reply.attempts}
    if status in (401, 403):
        return AuthError(text, hint=_auth_hint(endpoint, status), **facts)
    if status == 404:
        hint = f"check model {endpoint.model!r} and the URL {endpoint.url}; a GET of /models shows what there is"
        return NotFoundError(text, hint=hint, **facts)
    if status == 429:
        if as_dict(reply.body.get("error")).get("code") == SESSION_BUDGET:
            return BudgetError(said or text, **facts)
        return RateLimitError(text, retry_after=retry_after(reply.headers), **facts)
    if status == 408 or status >= 500:
        return TransportError(text, **facts)
    too_long = status in (400, 413, 422) and _CONTEXT.search(said)
    return (ContextExceededError if too_long else RequestRejectedError)(text, **facts)


def _auth_hint(endpoint: Endpoint, status: int) -> str:
    if endpoint.api_key is None:
        return (
            f"service {endpoint.name!r} has no api_key: add api_key: ${{YOUR_KEY_VARIABLE}} to it"
        )
    if status == 403:
        return f"the key of service {endpoint.name!r} may not use model {endpoint.model!r}"
    return f"the server refused the api_key of service {endpoint.name!r}: check the variable it comes from"


def message_of(reply: ModelReply) -> str:
    """What the server said in its error body, shortened, without secrets."""
    error = reply.body.get("error", reply.body)
    said: Any = error
    if isinstance(error, dict):
        said = error.get("message") or error.get("detail") or error.get("msg") or error
        if isinstance(said, list):
            said = "; ".join(
                _shown(item.get("msg", item) if isinstance(item, dict) else item)
                for item in said[:20]
            )
    if not said and reply.raw:
        said = reply.raw[: 4 * _LONGEST].decode("utf-8", "replace")
    if said:
        text = " ".join(scrub(_shown(said)[: 20 * _LONGEST]).split())
    else:
        text = ""
    if len(text) <= _LONGEST:
        return text
    return f"{text[:_LONGEST]}…"


def _shown(said: Any) -> str:
    if isinstance(said, str):
        return said
    return dumps(said).decode()


def retry_after(headers: Mapping[str, str]) -> float | None:
    """How long the server asks us to wait, in seconds: Retry-After in both forms, or the common reset headers.

    Never negative, never NaN; it may be infinite, and whoever waits has a longest wait of his own.
    """
    said = headers.get("retry-after-ms")
    if said is not None and (number := _number(said)) is not None:
        return number / 1000.0
    said = headers.get("retry-after")
    if said is not None:
        number = _number(said)
        if number is not None:
            return number
        try:
            date: datetime = _email.parsedate_to_datetime(said[:_LONGEST_DATE])
            return max(0.0, date.timestamp() - time.time())
        except (ValueError, OverflowError):
            return None
    waits = [wait for name in _RESETS if (wait := _reset(headers.get(name))) is not None]
    if waits:
        return min(waits)
    return None


def stream_error(reply: ModelReply, error: Any) -> ModelReply:
    """An error inside a stream, as the reply it would have been without streaming."""
    if isinstance(error, dict):
        fields: dict[Any, Any] | dict[str | Any, str | Any] = error
    else:
        fields = {"message": _shown(error)}
    said = fields.get("status") or fields.get("status_code") or fields.get("code")
    if isinstance(said, int) and 400 <= said <= 599:
        reply.status = said
    else:
        reply.status = 502
    reply.body = {"error": fields}
    reply.stream = None
    return reply


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    if math.isnan(number):
        return None
    return max(0.0, number)


def _reset(said: str | None) -> float | None:
    if said is None:
        return None
    number = _number(said)
    if number is not None:
        # Some servers send seconds, others a moment in Unix time.
        if number > 1e9:
            return max(0.0, number - time.time())
        return number
    units = _UNIT.findall(said[:_LONGEST_DATE])
    if units:
        return sum(float(count) * _SECONDS[unit] for count, unit in units)
    return None
