"""``system_message``: puts a system message into every request."""

from __future__ import annotations

from typing import Final

from nemo_evaluator.adapters import base
from nemo_evaluator.adapters._messages import messages_of, put_messages
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.kinds import Kind
from nemo_evaluator.models.types import ModelReply, ModelRequest

_STRATEGIES = ("prepend", "append", "replace")


class Interceptor(base.Interceptor):
    """Prepends, appends or replaces; a text-completion gets the text before or after its prompt."""

    def __init__(self, system_message: str, strategy: str = "prepend") -> None:
        if strategy not in _STRATEGIES:
            raise UsageError(
                f"unknown strategy {strategy!r} of system_message", hint=f"one of {', '.join(_STRATEGIES)}"
            )
        self._text = system_message
        self._strategy = strategy

    async def on_request(self, request: ModelRequest) -> ModelReply | None:
        """Add the message."""
        message = {"role": "system", "content": self._text}
        given = request.body.get("messages")
        if given is not None and self._strategy == "prepend":
            request.body = {**request.body, "messages": [message, *given]}
            return None
        messages = messages_of(request)
        if messages is None:
            self._to_prompt(request)
        elif self._strategy == "append":
            put_messages(request, [*messages, message])
        elif self._strategy == "prepend":
            put_messages(request, [message, *messages])
        else:
            put_messages(request, [message, *(m for m in messages if m.get("role") != "system")])
            if "instructions" in request.body:
                request.body = {key: value for key, value in request.body.items() if key != "instructions"}
        return None

    def _to_prompt(self, request: ModelRequest) -> None:
        prompt = request.body.get("prompt")
        if isinstance(prompt, str):
            parts = (prompt, self._text) if self._strategy == "append" else (self._text, prompt)
            request.body = {**request.body, "prompt": "\n\n".join(parts)}


KIND: Final = Kind(build=Interceptor)
