"""The traffic record of a call, with the fields of ``model_traffic.jsonl``, and the bounded file they go to."""

import asyncio
import hashlib
import itertools
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from nemo_evaluator.adapters import base
from nemo_evaluator.adapters._bodies import finish_reason_of, texts_of
from nemo_evaluator.config.traffic import ModelTrafficConfig
from nemo_evaluator.core.errors import BoundaryError
from nemo_evaluator.core.files import dumps, scrub_json
from nemo_evaluator.core.hashing import canonical
from nemo_evaluator.core.json_coerce import as_dict
from nemo_evaluator.core.secrets import scrub
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.models.cost import price_of, tokens_cost
from nemo_evaluator.models.endpoint import Endpoint, Price
from nemo_evaluator.models.faults import message_of
from nemo_evaluator.models.types import CallScope, ModelReply, ModelRequest
from nemo_evaluator.models.usage import usage_of

_ERROR_CHARS: Final = 4000


class Traffic(base.Observer):
    """Passes one record per call to the ``traffic`` function of the caller's scope; without one it does nothing."""

    place = base.Place.TRAFFIC

    def __init__(self, capture: ModelTrafficConfig) -> None:
        """Keep the settings: what of a call is recorded."""
        self._capture = capture
        self._price: Price | None = None
        self._numbers = itertools.count(1)

    def bind(self, endpoint: Endpoint) -> None:
        """Look up the price of the model."""
        super().bind(endpoint)
        self._price = price_of(endpoint)

    def on_reply(self, request: ModelRequest, reply: ModelReply) -> None:
        """Record a call that got a reply."""
        scope = request.scope
        if scope is None or scope.traffic is None:
            return
        record = self._head(request, scope, reply.sent or request.body)
        record["status_code"] = reply.status
        record["latency_ms"] = round(reply.latency_ms, 2)
        record["model"] = reply.body.get("model") or request.body.get("model")
        record["finish_reason"] = finish_reason_of(reply.body)
        record["attempts"] = reply.attempts
        if reply.from_cache:
            record["from_cache"] = True
        self._add_usage(record, reply)
        self._add_content(record, reply)
        if not reply.ok:
            self._add_error(record, reply)
        scope.traffic(record)

    def on_error(self, request: ModelRequest, error: BoundaryError) -> None:
        """Record a call that got no reply."""
        scope = request.scope
        if scope is None or scope.traffic is None:
            return
        record = self._head(request, scope, request.body)
        record["status_code"] = None
        record["model"] = request.body.get("model")
        record["attempts"] = error.attempts
        record["error_type"] = type(error).__name__
        record["error_message"] = scrub(error.message)[:_ERROR_CHARS]
        scope.traffic(record)

    def _head(self, request: ModelRequest, scope: CallScope, sent: JsonDict) -> JsonDict:
        """Build the fields that every record has."""
        number = f"{next(self._numbers):012x}"
        timestamp = datetime.now(UTC).isoformat(timespec="milliseconds")
        request_hash = hashlib.sha1(canonical(sent), usedforsecurity=False).hexdigest()
        record: JsonDict = {
            "model_traffic_request_id": f"{scope.session}:{number}",
            "timestamp": timestamp.replace("+00:00", "Z"),
            "benchmark": scope.benchmark,
            "problem_idx": scope.problem_idx,
            "repeat": scope.repeat,
            "session_id": scope.session,
            "adapter_request_id": number,
            "service": self._endpoint.name,
            "method": "POST",
            "path": request.path,
            "request_hash": request_hash[:16],
        }
        if self._capture.capture_request_body:
            record["request_body"] = sent
        return record

    def _add_content(self, record: JsonDict, reply: ModelReply) -> None:
        content, reasoning, calls = texts_of(reply.body)
        names = Counter(str(call["name"]) for call in calls)
        record["tool_calls"] = {"count": len(calls), "names": dict(names)}
        if self._capture.capture_tool_calls and calls:
            record["tool_calls_full"] = calls
        if self._capture.capture_reasoning and reasoning:
            record["reasoning_content"] = self._cut(reasoning)
        if self._capture.capture_messages and content:
            record["message_content"] = self._cut(content)

    def _add_usage(self, record: JsonDict, reply: ModelReply) -> None:
        """Add token counts, speed and cost to a record."""
        usage = usage_of(reply.body)
        counts: dict[str, int] = {}
        for name, count in usage._asdict().items():
            if count is not None:
                counts[f"{name}_tokens"] = count
        record["usage"] = counts
        if counts:
            record["token_provenance"] = "provider_reported"
        if reply.first_token_ms is not None:
            record["time_to_first_token_ms"] = round(reply.first_token_ms, 2)
            generating_ms = reply.latency_ms - reply.first_token_ms
            if usage.completion and generating_ms > 0:
                tokens_per_second = usage.completion / (generating_ms / 1000.0)
                record["tokens_per_second"] = round(tokens_per_second, 2)
        if self._price is not None and not reply.from_cache:
            record["cost_usd"] = tokens_cost(
                self._price, usage.prompt, usage.completion, cached=usage.cached
            )

    def _add_error(self, record: JsonDict, reply: ModelReply) -> None:
        """Add the type, the message and the body of an error to a record."""
        fields = as_dict(reply.body.get("error"))
        record["error_type"] = fields.get("type") or "http_error"
        record["error_message"] = message_of(reply)
        if reply.body:
            body = dumps(reply.body).decode()
        else:
            body = (reply.raw or b"").decode("utf-8", "replace")
        record["error_body"] = scrub(body)[:_ERROR_CHARS]
        if fields.get("code") is not None:
            record["error_code"] = fields["code"]

    def _cut(self, text: str) -> str:
        most = self._capture.max_content_chars
        if not most or len(text) <= most:
            return text
        return f"{text[:most]}… [{len(text) - most} characters left out]"


# Records are written in batches, at most this many seconds late.
_BATCH: Final = 256
_DELAY: Final = 0.5
# Fields that `metadata` leaves out.
_CONTENT: Final = (
    "tool_calls_full",
    "reasoning_content",
    "message_content",
    "request_body",
    "error_body",
)


class TrafficLog:
    """Appends records to a file; ``CallScope.traffic`` may be its ``write``.

    Attributes:
        path: The file.
        written: The number of written records.
        left_out: The number of records that did not fit into the file.
    """

    def __init__(self, path: Path, *, keep: str = "bodies", max_bytes: int = 2_000_000_000) -> None:
        """Continue a file, or begin one.

        Args:
            path: The file.
            keep: ``bodies``, or ``metadata`` to leave out all content.
            max_bytes: The largest size of the file.
        """
        self.path = path
        self.left_out = 0
        self.written = 0
        self._bodies = keep == "bodies"
        self._max = max_bytes
        path.parent.mkdir(parents=True, exist_ok=True)
        self._size = path.stat().st_size if path.is_file() else 0
        self._lines: list[bytes] = []
        self._timer: asyncio.TimerHandle | None = None

    def write(self, record: JsonDict) -> None:
        """Add a record; it is on disk at most half a second later."""
        if not self._bodies:
            record = {key: value for key, value in record.items() if key not in _CONTENT}
        line = scrub_json(dumps(record)) + b"\n"
        if self._size + len(line) > self._max:
            self.left_out += 1
            return
        self._size += len(line)
        self.written += 1
        self._lines.append(line)
        if len(self._lines) >= _BATCH:
            self.flush()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_DELAY, self.flush)

    def flush(self) -> None:
        """Write the waiting records to the file."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._lines:
            lines = self._lines
            self._lines = []
            with self.path.open("ab") as file:
                file.write(b"".join(lines))

    close = flush
