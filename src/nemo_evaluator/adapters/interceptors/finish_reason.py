"""``finish_reason``: an answer that used up its token limit was truncated, whatever the server reports."""

from collections.abc import Sequence
from typing import Any

from nemo_evaluator.adapters import base
from nemo_evaluator.adapters._bodies import choices_of
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.models.types import ModelReply, ModelRequest

_NOTE = "finish_reason"


class Interceptor(base.Interceptor):
    """Turns ``stop`` into ``length`` when at least as many tokens were generated as allowed; counts empty answers."""

    place = base.Place.FINISH
    best_effort = True

    counted = ("mended", "empty")
    mended = 0
    empty = 0

    def on_reply(self, request: ModelRequest, reply: ModelReply) -> None:
        """Correct the finish reasons of a reply."""
        choices = reply.body.get("choices")
        if not choices or not isinstance(choices, list):
            return
        cap = _cap(request.body)
        # With several choices, the usage of the answer is the sum over all of them.
        usage = reply.body.get("usage") if len(choices) == 1 else None
        for choice in choices:
            if not isinstance(choice, dict):
                continue
            if cap and choice.get("finish_reason") == "stop":
                self._correct(choice, choice.get("usage") or usage, cap)
            message = choice.get("message")
            if not isinstance(message, dict) or message.get("content") or message.get("tool_calls"):
                continue
            self.empty += 1
            if self.empty == 1:
                reason = choice.get("finish_reason")
                base.log.warning("an answer is empty (finish_reason %s)", reason)

    def on_event(self, request: ModelRequest, event: JsonDict) -> Sequence[JsonDict]:
        """Hold back the last chunk of a stream until the usage is known, and correct it then."""
        cap = _cap(request.body)
        if not cap:
            return (event,)
        usage = event.get("usage")
        last_chunk: JsonDict | None = request.notes.pop(_NOTE, None)
        if last_chunk is not None:
            if isinstance(usage, dict):
                self._correct(last_chunk["choices"][0], usage, cap)
            return (last_chunk, event)
        choices = choices_of(event)
        if len(choices) == 1 and choices[0].get("finish_reason") == "stop":
            if isinstance(usage, dict):
                self._correct(choices[0], usage, cap)
            else:
                request.notes[_NOTE] = event
                return ()
        return (event,)

    def on_end(self, request: ModelRequest) -> Sequence[JsonDict]:
        """The last chunk, if no usage has followed it."""
        last_chunk = request.notes.pop(_NOTE, None)
        return (last_chunk,) if last_chunk is not None else ()

    def _correct(self, choice: JsonDict, usage: Any, cap: int) -> None:
        """Change the finish reason of a choice that reached the token limit, and count it."""
        if not isinstance(usage, dict):
            return
        details = usage.get("completion_tokens_details")
        reasoning_tokens = details.get("reasoning_tokens") if isinstance(details, dict) else None
        generated = max(_count(usage.get("completion_tokens")), _count(reasoning_tokens))
        if generated >= cap:
            choice["finish_reason"] = "length"
            self.mended += 1
            if self.mended == 1:
                base.log.warning(
                    "an answer of %d tokens said stop at its limit of %d: taken as length",
                    generated,
                    cap,
                )


def _cap(body: JsonDict) -> int:
    """The token limit of a request; 0 for none."""
    return _count(body.get("max_completion_tokens")) or _count(body.get("max_tokens"))


def _count(value: Any) -> int:
    """A positive count; 0 for anything else."""
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    return 0
