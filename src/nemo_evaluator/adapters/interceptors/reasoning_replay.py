"""``reasoning_replay``: gives a model its own earlier reasoning back when an agent drops it from the history."""

import hashlib
from collections import OrderedDict
from dataclasses import dataclass
from typing import Literal

from nemo_evaluator.adapters import base
from nemo_evaluator.adapters._bodies import messages_in, messages_of, put_messages, text_of
from nemo_evaluator.config.fields import Name
from nemo_evaluator.core.types import JsonDict, Message
from nemo_evaluator.models.types import ModelReply, ModelRequest


@dataclass(eq=False)
class Interceptor(base.Observer):
    """Remembers reasoning by tool-call id, or by the start of the answer, and puts it into later requests."""

    hits = misses = 0
    mode: Literal["think_tags", "native", "both"] = "think_tags"
    tag_open: Name = "<think>"
    tag_close: Name = "</think>"
    cache_max_entries: int = 10_000
    log_misses: bool = False

    def __post_init__(self) -> None:
        self._kept: OrderedDict[str, str] = OrderedDict()

    def on_request(self, request: ModelRequest) -> None:
        messages = messages_of(request)
        if not messages or not any(message.get("role") == "assistant" for message in messages):
            return
        put_messages(request, [self._filled(request, message) for message in messages])

    def on_reply(self, request: ModelRequest, reply: ModelReply) -> None:
        for message in messages_in(reply.body):
            reasoning = str(message.get("reasoning_content") or message.get("reasoning") or "")
            if reasoning.strip():
                for key in _keys(request, message):
                    self._kept[key] = reasoning
                    self._kept.move_to_end(key)
        while len(self._kept) > self.cache_max_entries:
            self._kept.popitem(last=False)

    def stats(self) -> JsonDict:
        return {"hits": self.hits, "misses": self.misses, "entries": len(self._kept)}

    def _filled(self, request: ModelRequest, message: Message) -> Message:
        if message.get("role") != "assistant":
            return message
        found = next(
            (self._kept[key] for key in _keys(request, message) if key in self._kept), None
        )
        if found is None:
            self.misses += 1
            if self.log_misses:
                base.log.info(
                    "no reasoning remembered for an assistant message of session %s",
                    request.session,
                )
            return message
        self.hits += 1
        filled = dict(message)
        if self.mode in ("native", "both"):
            filled.setdefault("reasoning_content", found)
            filled.setdefault("reasoning", found)
        if self.mode in ("think_tags", "both"):
            filled["content"] = self._tagged(message.get("content"), found)
        return filled

    def _tagged(self, content: object, reasoning: str) -> object:
        head = f"{self.tag_open}{reasoning}{self.tag_close}\n"
        if isinstance(content, list):
            if text_of(content).lstrip().startswith(self.tag_open):
                return content
            return [{"type": "text", "text": head}, *content]
        if isinstance(content, str):
            text = content
        else:
            text = ""
        if text.lstrip().startswith(self.tag_open):
            return text
        return head + text


def _keys(request: ModelRequest, message: Message) -> list[str]:
    session = request.session or ""
    calls = message.get("tool_calls") or ()
    ids: list[str] = []
    for call in calls:
        if isinstance(call, dict) and call.get("id"):
            ids.append(f"{session}|c:{call['id']}")
    if ids:
        return ids
    start = text_of(message.get("content"))[:256]
    return [f"{session}|h:{hashlib.sha256(start.encode()).hexdigest()[:16]}"]
