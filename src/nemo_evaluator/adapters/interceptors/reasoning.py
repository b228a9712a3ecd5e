"""``reasoning``: moves reasoning to ``reasoning_content``, whatever field or tags the server used."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from nemo_evaluator.adapters import base
from nemo_evaluator.adapters._bodies import choices_of
from nemo_evaluator.core.files import write_json
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.models.reasoning import split_think
from nemo_evaluator.models.types import ModelReply, ModelRequest

if TYPE_CHECKING:
    from nemo_evaluator.adapters.stage_stats import ReasoningStats

_NOTE = "reasoning"


@dataclass(eq=False)
class Interceptor(base.Interceptor):
    """Renames ``reasoning``, moves a leading block between the two tokens, and counts.

    A block that is only closed counts as a block. A block that is never closed (a truncated answer) stays in the
    content; with ``include_if_not_finished: false`` it becomes reasoning, and the answer is empty.
    """

    place = base.Place.REPLY
    best_effort = True

    _answers = 0
    _reasoned = 0
    _unfinished = 0
    _words = 0
    start_token: str = "<think>"
    end_token: str = "</think>"
    include_if_not_finished: bool = True
    stats_path: str | None = None

    def on_reply(self, request: ModelRequest, reply: ModelReply) -> None:
        """Separate reasoning from content in every message of a reply."""
        for choice in reply.body.get("choices") or ():
            message = choice.get("message") if isinstance(choice, dict) else None
            if not isinstance(message, dict):
                continue
            self._answers += 1
            reasoning = message.get("reasoning_content") or self._move_reasoning(message)
            if reasoning:
                self._reasoned += 1
                self._words += len(str(reasoning).split())

    def _move_reasoning(self, message: JsonDict) -> object:
        """Move the reasoning of a message to ``reasoning_content``, and return it if there is any."""
        reasoning: object = message.get("reasoning")
        if reasoning:
            del message["reasoning"]
            message["reasoning_content"] = reasoning
            return reasoning
        content = message.get("content")
        if not isinstance(content, str):
            return None
        if self.end_token in content:
            answer, block = split_think(content, self.start_token, self.end_token)
            if block is not None:
                message["content"] = answer
                message["reasoning_content"] = block
                return block
        if self.start_token not in content:
            return None
        stripped = content.lstrip()
        if not stripped.startswith(self.start_token):
            return None
        self._unfinished += 1
        if self.include_if_not_finished:
            return None
        unfinished = stripped[len(self.start_token) :].strip()
        message["content"] = ""
        message["reasoning_content"] = unfinished
        return unfinished

    def on_event(self, request: ModelRequest, event: JsonDict) -> Sequence[JsonDict]:
        """Separate reasoning from content in the chunks of a stream."""
        for choice in choices_of(event):
            delta = choice.get("delta")
            if not isinstance(delta, dict):
                continue
            if delta.get("reasoning") and not delta.get("reasoning_content"):
                delta["reasoning_content"] = delta.pop("reasoning")
            splitters: dict[object, _BlockSplitter] = request.notes.setdefault(_NOTE, {})
            splitter = splitters.setdefault(
                choice.get("index", 0), _BlockSplitter(self.start_token, self.end_token)
            )
            content = delta.get("content")
            if isinstance(content, str) and content:
                chunk = splitter.feed(content)
                delta["content"] = chunk.content
                if chunk.reasoning:
                    delta["reasoning_content"] = chunk.reasoning
            if choice.get("finish_reason"):
                last_chunk = splitter.flush()
                if last_chunk.content:
                    delta["content"] = (delta.get("content") or "") + last_chunk.content
                if last_chunk.reasoning:
                    earlier_reasoning = delta.get("reasoning_content") or ""
                    delta["reasoning_content"] = earlier_reasoning + last_chunk.reasoning
        return (event,)

    def stats(self) -> "ReasoningStats":
        """How many answers had reasoning, and how long it was."""
        mean = round(self._words / self._reasoned, 1) if self._reasoned else None
        return {
            "answers": self._answers,
            "with_reasoning": self._reasoned,
            "unfinished": self._unfinished,
            "mean_reasoning_words": mean,
        }

    async def close(self) -> None:
        """Write the counts to ``stats_path``."""
        if self.stats_path:
            write_json(Path(self.stats_path), self.stats())


class _Chunk(NamedTuple):
    """A piece of a streamed answer, divided."""

    content: str
    reasoning: str


class _Position(Enum):
    BEFORE = auto()
    INSIDE = auto()
    AFTER = auto()


_NOTHING = _Chunk("", "")


class _BlockSplitter:
    """Follows a leading reasoning block through the chunks of a stream.

    Text that may be the beginning of a token is held back until more has arrived.
    """

    def __init__(self, start: str, end: str) -> None:
        self._start = start
        self._end = end
        self._position = _Position.BEFORE
        self._blank: list[str] = []
        self._held_back = ""

    def feed(self, text: str) -> _Chunk:
        """Divide the next piece of text into content and reasoning."""
        if self._position is _Position.AFTER:
            return _Chunk(text, "")
        if self._position is _Position.BEFORE:
            return self._before(text)
        return self._inside(text)

    def flush(self) -> _Chunk:
        """The text that was held back: the stream has ended, so it was not a token."""
        held_back = self._held_back
        self._held_back = ""
        if self._position is _Position.INSIDE:
            return _Chunk("", held_back)
        blank = "".join(self._blank) if self._position is _Position.BEFORE else ""
        self._blank = []
        return _Chunk(blank + held_back, "")

    def _before(self, text: str) -> _Chunk:
        """Divide text where no block has begun yet."""
        if not self._held_back:
            # Blanks before the block are kept apart, so that a long run of them is scanned only once.
            stripped = text.lstrip()
            self._blank.append(text[: len(text) - len(stripped)])
            text = stripped
        beginning = self._held_back + text
        if beginning.startswith(self._start):
            self._position = _Position.INSIDE
            self._held_back = ""
            return self._inside(beginning[len(self._start) :].lstrip())
        if self._start.startswith(beginning):
            self._held_back = beginning
            return _NOTHING
        self._position = _Position.AFTER
        self._held_back = ""
        return _Chunk("".join((*self._blank, beginning)), "")

    def _inside(self, text: str) -> _Chunk:
        """Divide text inside the block."""
        text = self._held_back + text
        end = text.find(self._end)
        if end >= 0:
            self._position = _Position.AFTER
            self._held_back = ""
            return _Chunk(text[end + len(self._end) :].lstrip(), text[:end])
        # The last characters may be the beginning of the end token.
        safe_length = len(text) - len(self._end) + 1
        if safe_length <= 0:
            self._held_back = text
            return _NOTHING
        self._held_back = text[safe_length:]
        return _Chunk("", text[:safe_length])
