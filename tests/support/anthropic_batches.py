"""Anthropic's Message Batches API as a stand-in: requests inline, no metadata, one stream of results."""

import re
from datetime import UTC, datetime
from typing import ClassVar, Final

from aiohttp import web
from batch_server import WINDOW, Batch, BatchServer, Refused, Row, lines

from nemo_evaluator.core.types import JsonDict

_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_NEEDED: Final = {"model", "max_tokens", "messages"}


class AnthropicBatches(BatchServer):
    """Batches of messages, and the endpoint that they stand for."""

    routes: ClassVar = {
        "submit": ("POST", "/v1/messages/batches"),
        "listed": ("GET", "/v1/messages/batches"),
        "results": ("GET", "/v1/messages/batches/{batch}/results"),
        "poll": ("GET", "/v1/messages/batches/{batch}"),
        "cancel": ("POST", "/v1/messages/batches/{batch}/cancel"),
        "ask": ("POST", "/v1/messages"),
    }

    async def submit(self, request: web.Request, body: JsonDict) -> JsonDict:
        given = request.headers
        if "anthropic-version" not in given or not (
            "x-api-key" in given or "authorization" in given
        ):
            raise Refused(401, "anthropic-version and a key are needed")
        rows = [
            Row(one["custom_id"], "/v1/messages", one["params"]) for one in body.get("requests", ())
        ]
        if not all(_ID.fullmatch(row.custom_id) and row.body.keys() >= _NEEDED for row in rows):
            raise Refused(
                400,
                "a custom_id of 1 to 64 of [a-zA-Z0-9_-], model, max_tokens and messages are needed",
            )
        return self.add("msgbatch_", rows, {})

    async def results(self, request: web.Request, _body: JsonDict) -> web.Response:
        """One line per request, in no order."""
        batch = self.named(request)
        if batch.end is None:
            raise Refused(404, "the batch has no results yet")
        rows = [
            {"custom_id": row.custom_id, "result": _result(batch, row)}
            for row in batch.results[::-1]
        ]
        return web.Response(body=self.sent(lines(rows)), content_type="application/x-jsonl")

    def shown(self, batch: Batch) -> JsonDict:
        counts = dict.fromkeys(("processing", "succeeded", "errored", "canceled", "expired"), 0)
        if batch.end is None:
            counts["processing"] = len(batch.requests)
        for row in batch.results:
            counts[_result(batch, row)["type"]] += 1
        return {
            "id": batch.id,
            "type": "message_batch",
            "processing_status": "ended"
            if batch.end
            else "canceling"
            if batch.cancel_asked
            else "in_progress",
            "request_counts": counts,
            "created_at": _moment(batch.created),
            "expires_at": _moment(batch.created + WINDOW),
            "ended_at": _moment(batch.ended),
            "cancel_initiated_at": _moment(batch.cancel_asked),
            "archived_at": None,
            "results_url": f"{self.url}/messages/batches/{batch.id}/results" if batch.end else None,
        }


def _result(batch: Batch, row: Row) -> JsonDict:
    if row.answer is None:
        return {"type": "canceled" if batch.end == "cancelled" else "expired"}
    if row.status >= 400:
        return {"type": "errored", "error": row.answer}
    return {"type": "succeeded", "message": row.answer}


def _moment(seconds: float | None) -> str | None:
    return (
        datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z") if seconds else None
    )
