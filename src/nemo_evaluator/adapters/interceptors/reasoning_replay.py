"""``reasoning_replay``: gives a model its own earlier reasoning back when an agent drops it from the history."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from typing import Final

from nemo_evaluator.adapters import base
from nemo_evaluator.adapters._bodies import messages_in
from nemo_evaluator.adapters._log import log
from nemo_evaluator.adapters._messages import messages_of, put_messages, text_of
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.kinds import Kind
from nemo_evaluator.core.types import JsonDict, Message
from nemo_evaluator.models.types import ModelReply, ModelRequest


class Interceptor(base.Interceptor):
    """Remembers reasoning by tool-call id, or by the start of the answer, and puts it into later requests."""

    observes = True
    best_effort = True

    def __init__(
        self,
        mode: str = "think_tags",
        tag_open: str = "<think>",
        tag_close: str = "</think>",
        cache_max_entries: int = 10_000,
        log_misses: bool = False,
    ) -> None:
        if mode not in ("think_tags", "native", "both"):
            raise UsageError(f"unknown mode {mode!r} of reasoning_replay", hint="think_tags, native or both")
        if not tag_open or not tag_close:
            raise UsageError("the tags of reasoning_replay must not be empty")
        self._mode = mode
        self._open, self._close = tag_open, tag_close
        self._size = cache_max_entries
        self._log_misses = log_misses
        self._kept: OrderedDict[str, str] = OrderedDict()
        self._hits = self._misses = 0

    async def on_request(self, request: ModelRequest) -> ModelReply | None:
        """Put remembered reasoning into the assistant messages of the history."""
        messages = messages_of(request)
        if not messages or not any(message.get("role") == "assistant" for message in messages):
            return None
        put_messages(request, [self._filled(request, message) for message in messages])
        return None

    async def on_reply(self, request: ModelRequest, reply: ModelReply) -> ModelReply:
        """Remember the reasoning of an answer."""
        for message in messages_in(reply.body):
            reasoning = str(message.get("reasoning_content") or message.get("reasoning") or "")
            if reasoning.strip():
                for key in _keys(request, message):
                    self._kept[key] = reasoning
                    self._kept.move_to_end(key)
        while len(self._kept) > self._size:
            self._kept.popitem(last=False)
        return reply

    def stats(self) -> JsonDict:
        """Messages that got their reasoning back, and those that did not."""
        return {"hits": self._hits, "misses": self._misses, "entries": len(self._kept)}

    def _filled(self, request: ModelRequest, message: Message) -> Message:
        if message.get("role") != "assistant":
            return message
        found = next((self._kept[key] for key in _keys(request, message) if key in self._kept), None)
        if found is None:
            self._misses += 1
            if self._log_misses:
                log.info("no reasoning remembered for an assistant message of session %s", request.session)
            return message
        self._hits += 1
        filled = dict(message)
        if self._mode in ("native", "both"):
            filled.setdefault("reasoning_content", found)
            filled.setdefault("reasoning", found)
        if self._mode in ("think_tags", "both"):
            filled["content"] = self._tagged(message.get("content"), found)
        return filled

    def _tagged(self, content: object, reasoning: str) -> object:
        head = f"{self._open}{reasoning}{self._close}\n"
        if isinstance(content, list):
            if text_of(content).lstrip().startswith(self._open):
                return content
            return [{"type": "text", "text": head}, *content]
        text = content if isinstance(content, str) else ""
        return text if text.lstrip().startswith(self._open) else head + text


def _keys(request: ModelRequest, message: Message) -> list[str]:
    session = request.session or ""
    calls = message.get("tool_calls") or ()
    ids = [f"{session}|c:{call['id']}" for call in calls if isinstance(call, dict) and call.get("id")]
    if ids:
        return ids
    start = text_of(message.get("content"))[:256]
    return [f"{session}|h:{hashlib.sha256(start.encode()).hexdigest()[:16]}"]


KIND: Final = Kind(build=Interceptor)
