"""Streams inside the pipeline: parsed into events, gathered into a reply, written again when a stage changed them."""

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
    """Reads a stream while it passes the stages.

    Attributes:
        closed: The closing events have been sent.
        named: Every event has a line with its name, as in the Responses API.
    """

    def __init__(self, path: str) -> None:
        """Start to read the answer to a request for ``path``."""
        super().__init__(path)
        self._started = monotonic()
        self.closed = False
        self.named = path.endswith("/responses")

    def whole(self, reply: ModelReply) -> ModelReply:
        """The reply as it would have been without streaming; 502 if the stream ended with an error or too early."""
        self.finish()
        latency = reply.latency_ms + (monotonic() - self._started) * 1000.0
        if self.error is not None:
            error = self.error
            if not isinstance(error, dict):
                error = {"message": str(error)}
            body = {"error": error}
            return replace(reply, status=502, body=body, stream=None, latency_ms=latency)
        whole_reply = replace(reply, body=self.gathered.body(), stream=None, latency_ms=latency)
        if self.first_token_at is not None:
            whole_reply.first_token_ms = (
                reply.latency_ms + (self.first_token_at - self._started) * 1000.0
            )
        if not self.gathered.complete:
            whole_reply.status = 502
        return whole_reply


def encode_event(event: JsonDict, *, named: bool = False) -> bytes:
    """The bytes of an event; ``named`` adds a line with its type."""
    data = b"data: " + orjson.dumps(event) + b"\n\n"
    if not named:
        return data
    kind = str(event.get("type", "message"))
    return b"event: " + kind.encode() + b"\n" + data


def named_event(kind: str, **fields: Any) -> bytes:
    """The bytes of an event with a line for its name, as in the Responses and Messages protocols."""
    return encode_event({"type": kind, **fields}, named=True)


def replay(path: str, body: JsonDict, *, usage: bool) -> Iterator[bytes]:
    """A stored answer as a stream: one event per kind of content, then the end.

    Args:
        path: The path of the request.
        body: The stored answer.
        usage: Whether the caller wants an event with the token counts.
    """
    if path.endswith("/responses"):
        yield from _replay_response(body)
    else:
        yield from _replay_choices(path, body, usage)


def _replay_response(body: JsonDict) -> Iterator[bytes]:
    """Yield an answer of the Responses API as the events of a stream."""
    yield named_event("response.created", response={**body, "status": "in_progress", "output": []})
    for output_index, item in enumerate(body.get("output") or ()):
        yield named_event("response.output_item.added", output_index=output_index, item=item)
        for content_index, part in enumerate(item.get("content") or ()):
            if isinstance(part, dict) and part.get("type") == "output_text":
                yield named_event(
                    "response.output_text.delta",
                    item_id=item.get("id"),
                    output_index=output_index,
                    content_index=content_index,
                    delta=part.get("text", ""),
                )
        yield named_event("response.output_item.done", output_index=output_index, item=item)
    status = "incomplete" if body.get("status") == "incomplete" else "completed"
    yield named_event(f"response.{status}", response=body)


def _replay_choices(path: str, body: JsonDict, usage: bool) -> Iterator[bytes]:
    """Yield a chat or text completion as chunks: for each choice one with its content and one that ends it."""
    is_chat = path.endswith("/chat/completions")
    head: JsonDict = {key: body[key] for key in ("id", "created", "model") if key in body}
    head["object"] = "chat.completion.chunk" if is_chat else "text_completion"
    for choice in body.get("choices") or ():
        index = choice.get("index", 0)
        if is_chat:
            content: JsonDict = {"delta": _delta_of(choice.get("message") or {})}
            ending: JsonDict = {"delta": {}}
        else:
            content = {"text": choice.get("text", "")}
            ending = {"text": ""}
        content_choice = {"index": index, **content, "finish_reason": None}
        yield encode_event({**head, "choices": [content_choice]})
        final_choice = {"index": index, **ending, "finish_reason": choice.get("finish_reason")}
        yield encode_event({**head, "choices": [final_choice]})
    if usage and body.get("usage"):
        yield encode_event({**head, "choices": [], "usage": body["usage"]})
    yield DONE


def _delta_of(message: JsonDict) -> JsonDict:
    """A whole message as one delta, whose tool calls need an index."""
    delta = dict(message)
    calls = delta.pop("tool_calls", None)
    if calls:
        delta["tool_calls"] = [{"index": index, **call} for index, call in enumerate(calls)]
    return delta
