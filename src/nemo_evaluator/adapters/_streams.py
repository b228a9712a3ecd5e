"""Streams inside the pipeline: read once into events, gathered on the side, written back when a stage changed them."""

from collections.abc import Iterator
from dataclasses import replace
from time import monotonic
from typing import Any, Final

import orjson

from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.models.http.sse import StreamReader
from nemo_evaluator.models.types import ModelReply

DONE: Final = b"data: [DONE]\n\n"


class PassingStream(StreamReader):
    """A stream that passes the stages."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._started = monotonic()
        self.closed = False
        # Events of the Responses API have a name line of their own.
        self.named = path.endswith("/responses")

    def whole(self, reply: ModelReply) -> ModelReply:
        """The reply as it would have been without streaming."""
        self.finish()
        took = reply.latency_ms + (monotonic() - self._started) * 1000.0
        if self.error is not None:
            if isinstance(self.error, dict):
                error: dict[Any, Any] | dict[str | Any, str | Any] = self.error
            else:
                error = {"message": str(self.error)}
            return replace(reply, status=502, body={"error": error}, stream=None, latency_ms=took)
        whole = replace(reply, body=self.gathered.body(), stream=None, latency_ms=took)
        if self.first_token_at is not None:
            whole.first_token_ms = reply.latency_ms + (self.first_token_at - self._started) * 1000.0
        if not self.gathered.complete:
            whole.status = 502
        return whole


def encode_event(event: JsonDict, *, named: bool = False) -> bytes:
    if named:
        head = b"event: " + str(event.get("type", "message")).encode() + b"\n"
    else:
        head = b""
    return head + b"data: " + orjson.dumps(event) + b"\n\n"


def replay(path: str, body: JsonDict, *, usage: bool) -> Iterator[bytes]:
    """A stored answer as the stream it may have been: one event per kind of content, then the end."""
    if not path.endswith("/responses"):
        yield from _replay_choices(path, body, usage)
        return
    yield named_event("response.created", response={**body, "status": "in_progress", "output": []})
    for index, item in enumerate(body.get("output") or ()):
        yield named_event("response.output_item.added", output_index=index, item=item)
        for place, part in enumerate(item.get("content") or ()):
            if isinstance(part, dict) and part.get("type") == "output_text":
                where = {"item_id": item.get("id"), "output_index": index, "content_index": place}
                yield named_event("response.output_text.delta", **where, delta=part.get("text", ""))
        yield named_event("response.output_item.done", output_index=index, item=item)
    if body.get("status") == "incomplete":
        ended = "incomplete"
    else:
        ended = "completed"
    yield named_event(f"response.{ended}", response=body)


def named_event(kind: str, **fields: Any) -> bytes:
    """An event whose name line tells its type, as the newer protocols have them."""
    return encode_event({"type": kind, **fields}, named=True)


def _replay_choices(path: str, body: JsonDict, usage: bool) -> Iterator[bytes]:
    chat = path.endswith("/chat/completions")
    head: JsonDict = {key: body[key] for key in ("id", "created", "model") if key in body}
    head["object"] = "chat.completion.chunk" if chat else "text_completion"
    for choice in body.get("choices") or ():
        parts: list[JsonDict] = [{"text": choice.get("text", "")}, {"text": ""}]
        if chat:
            message = dict(choice.get("message") or {})
            calls = message.pop("tool_calls", None)
            if calls:
                message["tool_calls"] = [
                    {"index": number, **call} for number, call in enumerate(calls)
                ]
            parts = [{"delta": message}, {"delta": {}}]
        for part, finish in zip(parts, (None, choice.get("finish_reason")), strict=True):
            said = {"index": choice.get("index", 0), **part, "finish_reason": finish}
            yield encode_event({**head, "choices": [said]})
    if usage and body.get("usage"):
        yield encode_event({**head, "choices": [], "usage": body["usage"]})
    yield DONE
