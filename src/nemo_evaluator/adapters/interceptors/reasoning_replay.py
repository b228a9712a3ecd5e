"""``reasoning_replay``: restores a model's earlier reasoning when an agent drops it from the history."""

import hashlib
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from nemo_evaluator.adapters import base
from nemo_evaluator.adapters._bodies import messages_in, messages_of, put_messages, text_of
from nemo_evaluator.config.fields import Name
from nemo_evaluator.core.types import Message
from nemo_evaluator.models.types import ModelReply, ModelRequest

if TYPE_CHECKING:
    from nemo_evaluator.adapters.stage_stats import ReplayStats


@dataclass(eq=False)
class Interceptor(base.Observer):
    """Remembers reasoning by tool-call id, or by the start of the answer, and puts it into later requests."""

    hits = 0
    misses = 0
    mode: Literal["think_tags", "native", "both"] = "think_tags"
    tag_open: Name = "<think>"
    tag_close: Name = "</think>"
    cache_max_entries: int = 10_000
    log_misses: bool = False

    def __post_init__(self) -> None:
        # The reasoning of earlier answers; the most recent one is the last.
        self._reasonings: OrderedDict[str, str] = OrderedDict()

    def on_request(self, request: ModelRequest) -> None:
        """Add the remembered reasoning to the assistant messages of a request."""
        messages = messages_of(request)
        if not messages or not any(message.get("role") == "assistant" for message in messages):
            return
        put_messages(request, [self._filled(request, message) for message in messages])

    def on_reply(self, request: ModelRequest, reply: ModelReply) -> None:
        """Remember the reasoning of an answer."""
        for message in messages_in(reply.body):
            reasoning = str(message.get("reasoning_content") or message.get("reasoning") or "")
            if reasoning.strip():
                for key in _keys(request, message):
                    self._reasonings[key] = reasoning
                    self._reasonings.move_to_end(key)
        while len(self._reasonings) > self.cache_max_entries:
            self._reasonings.popitem(last=False)

    def stats(self) -> "ReplayStats":
        """How many assistant messages had remembered reasoning, and how many did not."""
        return {"hits": self.hits, "misses": self.misses, "entries": len(self._reasonings)}

    def _filled(self, request: ModelRequest, message: Message) -> Message:
        """Return an assistant message with its remembered reasoning, and count whether there was any."""
        if message.get("role") != "assistant":
            return message
        reasoning = self._remembered(request, message)
        if reasoning is None:
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
            filled.setdefault("reasoning_content", reasoning)
            filled.setdefault("reasoning", reasoning)
        if self.mode in ("think_tags", "both"):
            filled["content"] = self._tagged(message.get("content"), reasoning)
        return filled

    def _remembered(self, request: ModelRequest, message: Message) -> str | None:
        for key in _keys(request, message):
            if key in self._reasonings:
                return self._reasonings[key]
        return None

    def _tagged(self, content: object, reasoning: str) -> object:
        head = f"{self.tag_open}{reasoning}{self.tag_close}\n"
        if isinstance(content, list):
            if text_of(content).lstrip().startswith(self.tag_open):
                return content
            return [{"type": "text", "text": head}, *content]
        text = content if isinstance(content, str) else ""
        if text.lstrip().startswith(self.tag_open):
            return text
        return head + text


def _keys(request: ModelRequest, message: Message) -> list[str]:
    """The keys of a message: one per tool call, or one for the beginning of its text."""
    session = request.session or ""
    calls = message.get("tool_calls") or ()
    ids: list[str] = []
    for call in calls:
        if isinstance(call, dict) and call.get("id"):
            ids.append(f"{session}|c:{call['id']}")
    if ids:
        return ids
    beginning = text_of(message.get("content"))[:256]
    digest = hashlib.sha256(beginning.encode()).hexdigest()
    return [f"{session}|h:{digest[:16]}"]
