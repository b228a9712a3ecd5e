"""``finish_reason``: an answer that used up its token limit was cut, whatever the server calls it."""

from collections.abc import Sequence
from typing import Any

from nemo_evaluator.adapters import base
from nemo_evaluator.adapters._bodies import choices_of
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.models.types import ModelReply, ModelRequest


class Interceptor(base.Interceptor):
    """Turns ``stop`` into ``length`` when at least as many tokens were generated as allowed; counts empty answers."""

    place = base.Place.FINISH
    best_effort = True

    counted = ("mended", "empty")
    mended = empty = 0

    def on_reply(self, request: ModelRequest, reply: ModelReply) -> None:
        choices = reply.body.get("choices")
        if not choices or not isinstance(choices, list):
            return
        cap = _cap(request.body)
        usage = reply.body.get("usage")
        for choice in choices:
            if not isinstance(choice, dict):
                continue
            if cap and choice.get("finish_reason") == "stop":
                self._mend(
                    choice, choice.get("usage") or (usage if len(choices) == 1 else None), cap
                )
            message = choice.get("message")
            if (
                isinstance(message, dict)
                and not message.get("content")
                and not message.get("tool_calls")
            ):
                self.empty += 1
                if self.empty == 1:
                    base.log.warning(
                        "an answer is empty (finish_reason %s)", choice.get("finish_reason")
                    )

    def on_event(self, request: ModelRequest, event: JsonDict) -> Sequence[JsonDict]:
        """Hold the last piece of a stream back until its usage is known, and mend it then."""
        cap = _cap(request.body)
        if not cap:
            return (event,)
        usage = event.get("usage")
        held: JsonDict | None = request.notes.pop("finish_reason", None)
        if held is not None:
            if isinstance(usage, dict):
                self._mend(held["choices"][0], usage, cap)
            return (held, event)
        choices = choices_of(event)
        if len(choices) == 1 and choices[0].get("finish_reason") == "stop":
            if isinstance(usage, dict):
                self._mend(choices[0], usage, cap)
            else:
                request.notes["finish_reason"] = event
                return ()
        return (event,)

    def on_end(self, request: ModelRequest) -> Sequence[JsonDict]:
        """The piece that was held back for a usage that never came."""
        held = request.notes.pop("finish_reason", None)
        return (held,) if held is not None else ()

    def _mend(self, choice: JsonDict, usage: Any, cap: int) -> None:
        if not isinstance(usage, dict):
            return
        details = usage.get("completion_tokens_details")
        if isinstance(details, dict):
            reasoning = details.get("reasoning_tokens")
        else:
            reasoning = None
        generated = max(_count(usage.get("completion_tokens")), _count(reasoning))
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
    return _count(body.get("max_completion_tokens")) or _count(body.get("max_tokens"))


def _count(value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    return 0
