"""``reasoning``: reasoning in one place, ``reasoning_content``, whatever field or tags the server used."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nemo_evaluator.adapters import base
from nemo_evaluator.adapters._bodies import choices_of
from nemo_evaluator.core.files import write_json
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.models.reasoning import split_think
from nemo_evaluator.models.types import ModelReply, ModelRequest


@dataclass(eq=False)
class Interceptor(base.Interceptor):
    """Renames ``reasoning``, moves a leading block between the two tokens, and counts. A block that is only closed
    counts as one. A block that is never closed (the answer was cut) stays in the content, or with
    ``include_if_not_finished: false`` becomes reasoning, with an empty answer."""

    place = base.Place.REPLY
    best_effort = True

    _answers = _reasoned = _unfinished = _words = 0
    start_token: str = "<think>"
    end_token: str = "</think>"
    include_if_not_finished: bool = True
    stats_path: str | None = None

    async def on_reply(self, request: ModelRequest, reply: ModelReply) -> None:
        for choice in reply.body.get("choices") or ():
            if isinstance(choice, dict):
                message = choice.get("message")
            else:
                message = None
            if not isinstance(message, dict):
                continue
            self._answers += 1
            self._sort(message)
            reasoning = message.get("reasoning_content")
            if reasoning:
                self._reasoned += 1
                self._words += len(str(reasoning).split())

    def _sort(self, message: JsonDict) -> None:
        if message.get("reasoning_content"):
            return
        if message.get("reasoning"):
            message["reasoning_content"] = message.pop("reasoning")
            return
        content = message.get("content")
        if not isinstance(content, str) or (
            self.end_token not in content and self.start_token not in content
        ):
            return
        rest, reasoning = split_think(content, self.start_token, self.end_token)
        if reasoning is not None:
            message["content"] = rest
            message["reasoning_content"] = reasoning
        elif content.lstrip().startswith(self.start_token):
            self._unfinished += 1
            if not self.include_if_not_finished:
                message["content"] = ""
                message["reasoning_content"] = content.lstrip()[len(self.start_token) :].strip()

    def on_event(self, request: ModelRequest, event: JsonDict) -> Sequence[JsonDict]:
        """Rename the field in the pieces of a stream, and move what stands between the tokens."""
        for choice in choices_of(event):
            delta = choice.get("delta")
            if not isinstance(delta, dict):
                continue
            if delta.get("reasoning") and not delta.get("reasoning_content"):
                delta["reasoning_content"] = delta.pop("reasoning")
            states: dict[Any, _Tags] = request.notes.setdefault("reasoning", {})
            tags = states.setdefault(
                choice.get("index", 0), _Tags(self.start_token, self.end_token)
            )
            content = delta.get("content")
            if isinstance(content, str) and content:
                said, thought = tags.feed(content)
                delta["content"] = said
                if thought:
                    delta["reasoning_content"] = thought
            if choice.get("finish_reason"):
                said, thought = tags.flush()
                if said:
                    delta["content"] = (delta.get("content") or "") + said
                if thought:
                    delta["reasoning_content"] = (delta.get("reasoning_content") or "") + thought
        return (event,)

    def stats(self) -> JsonDict:
        if self._reasoned:
            mean: float | None = round(self._words / self._reasoned, 1)
        else:
            mean = None
        return {
            "answers": self._answers,
            "with_reasoning": self._reasoned,
            "unfinished": self._unfinished,
            "mean_reasoning_words": mean,
        }

    async def close(self) -> None:
        if self.stats_path:
            write_json(Path(self.stats_path), self.stats())


class _Tags:
    """Follows a leading block through the pieces of a stream, holding back what may be half a token."""

    def __init__(self, start: str, end: str) -> None:
        self._start = start
        self._end = end
        self._state = "before"
        self._blank: list[str] = []
        self._held = ""

    def feed(self, text: str) -> tuple[str, str]:
        """What of ``text`` is content, and what is reasoning."""
        if self._state == "after":
            return text, ""
        if self._state == "before" and not self._held:
            # Blanks before the block are kept apart, so that a long run of them is looked at once.
            stripped = text.lstrip()
            self._blank.append(text[: len(text) - len(stripped)])
            text = stripped
        self._held += text
        if self._state == "before":
            if self._held.startswith(self._start):
                self._state = "inside"
                self._held = self._held[len(self._start) :].lstrip()
            elif self._start.startswith(self._held):
                return "", ""
            else:
                held = "".join((*self._blank, self._held))
                self._state = "after"
                self._held = ""
                return held, ""
        at = self._held.find(self._end)
        if at >= 0:
            thought = self._held[:at]
            rest = self._held[at + len(self._end) :]
            self._state = "after"
            self._held = ""
            return rest.lstrip(), thought
        safe = len(self._held) - len(self._end) + 1
        if safe <= 0:
            return "", ""
        thought = self._held[:safe]
        self._held = self._held[safe:]
        return "", thought

    def flush(self) -> tuple[str, str]:
        """What was held back: it was no token after all."""
        held = self._held
        self._held = ""
        if self._state == "inside":
            return "", held
        if self._state == "before":
            blank = "".join(self._blank)
        else:
            blank = ""
        self._blank = []
        return blank + held, ""
