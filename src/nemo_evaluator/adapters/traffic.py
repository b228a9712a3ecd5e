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
    """Hands one record per call to the ``traffic`` sink of the asker's scope; without a sink it does nothing."""

    place = base.Place.TRAFFIC

    def __init__(self, capture: ModelTrafficConfig) -> None:
        self._capture = capture
        self._price: Price | None = None
        self._numbers = itertools.count(1)

    def bind(self, endpoint: Endpoint) -> None:
        super().bind(endpoint)
        self._price = price_of(endpoint)

    def on_reply(self, request: ModelRequest, reply: ModelReply) -> None:
        scope = request.scope
        if scope is None or scope.traffic is None:
            return
        record = self._head(request, scope, reply.sent or request.body) | {
            "status_code": reply.status,
            "latency_ms": round(reply.latency_ms, 2),
            "model": reply.body.get("model") or request.body.get("model"),
            "finish_reason": finish_reason_of(reply.body),
            "attempts": reply.attempts,
        }
        if reply.from_cache:
            record["from_cache"] = True
        self._add_usage(record, reply)
        content, reasoning, calls = texts_of(reply.body)
        names = Counter(str(call["name"]) for call in calls)
        record["tool_calls"] = {"count": len(calls), "names": dict(names)}
        if self._capture.capture_tool_calls and calls:
            record["tool_calls_full"] = calls
        if self._capture.capture_reasoning and reasoning:
            record["reasoning_content"] = self._cut(reasoning)
        if self._capture.capture_messages and content:
            record["message_content"] = self._cut(content)
        if not reply.ok:
            self._add_error(record, reply)
        scope.traffic(record)

    def on_error(self, request: ModelRequest, error: BoundaryError) -> None:
        scope = request.scope
        if scope is None or scope.traffic is None:
            return
        failed = {
            "status_code": None,
            "model": request.body.get("model"),
            "attempts": error.attempts,
            "error_type": type(error).__name__,
            "error_message": scrub(error.message)[:_ERROR_CHARS],
        }
        scope.traffic(self._head(request, scope, request.body) | failed)

    def _head(self, request: ModelRequest, scope: CallScope, sent: JsonDict) -> JsonDict:
        number = f"{next(self._numbers):012x}"
        record: JsonDict = {
            "model_traffic_request_id": f"{scope.session}:{number}",
            "timestamp": datetime.now(UTC)
            .isoformat(timespec="milliseconds")
            .replace("+00:00", "Z"),
            "benchmark": scope.benchmark,
            "problem_idx": scope.problem_idx,
            "repeat": scope.repeat,
            "session_id": scope.session,
            "adapter_request_id": number,
            "service": self._endpoint.name,
            "method": "POST",
            "path": request.path,
            "request_hash": hashlib.sha1(canonical(sent), usedforsecurity=False).hexdigest()[:16],
        }
        if self._capture.capture_request_body:
            record["request_body"] = sent
        return record

    def _add_usage(self, record: JsonDict, reply: ModelReply) -> None:
        usage = usage_of(reply.body)
        record["usage"] = {
            f"{name}_tokens": count for name, count in usage._asdict().items() if count is not None
        }
        if record["usage"]:
            record["token_provenance"] = "provider_reported"
        if reply.first_token_ms is not None:
            record["time_to_first_token_ms"] = round(reply.first_token_ms, 2)
            spent = reply.latency_ms - reply.first_token_ms
            if usage.completion and spent > 0:
                record["tokens_per_second"] = round(usage.completion / (spent / 1000.0), 2)
        if self._price is not None and not reply.from_cache:
            record["cost_usd"] = tokens_cost(
                self._price, usage.prompt, usage.completion, cached=usage.cached
            )

    def _add_error(self, record: JsonDict, reply: ModelReply) -> None:
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


_BATCH: Final = 256
_DELAY: Final = 0.5
_CONTENT: Final = (
    "tool_calls_full",
    "reasoning_content",
    "message_content",
    "request_body",
    "error_body",
)


class TrafficLog:
    """Takes records with ``write`` (give it to ``CallScope.traffic``) and appends them to a file. ``keep`` is
    ``metadata`` or ``bodies``. Past ``max_bytes`` records are not written but counted in ``left_out``."""

    def __init__(self, path: Path, *, keep: str = "bodies", max_bytes: int = 2_000_000_000) -> None:
        self.path = path
        self.left_out = 0
        self.written = 0
        self._bodies = keep == "bodies"
        self._max = max_bytes
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_file():
            self._size = path.stat().st_size
        else:
            self._size = 0
        self._lines: list[bytes] = []
        self._timer: asyncio.TimerHandle | None = None

    def write(self, record: JsonDict) -> None:
        """Take a record; it is on disk half a second later at most."""
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
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._lines:
            lines = self._lines
            self._lines = []
            with self.path.open("ab") as file:
                file.write(b"".join(lines))

    close = flush
