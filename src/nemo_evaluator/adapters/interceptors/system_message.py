"""``system_message``: puts a system message into every request."""

from dataclasses import dataclass
from typing import Any, Literal

from nemo_evaluator.adapters import base
from nemo_evaluator.adapters._bodies import messages_of, put_messages
from nemo_evaluator.models.types import ModelRequest


@dataclass(eq=False)
class Interceptor(base.Interceptor):
    """Prepends, appends or replaces; a text-completion gets the text before or after its prompt."""

    system_message: str
    strategy: Literal["prepend", "append", "replace"] = "prepend"

    async def on_request(self, request: ModelRequest) -> None:
        message = {"role": "system", "content": self.system_message}
        given = request.body.get("messages")
        if given is not None and self.strategy == "prepend":
            request.body = {**request.body, "messages": [message, *given]}
            return
        messages = messages_of(request)
        if messages is None:
            self._to_prompt(request)
        elif self.strategy == "append":
            put_messages(request, [*messages, message])
        elif self.strategy == "prepend":
            put_messages(request, [message, *messages])
        else:
            put_messages(request, [message, *(m for m in messages if m.get("role") != "system")])
            if "instructions" in request.body:
                body: dict[str, Any] = {}
                for key, value in request.body.items():
                    if key != "instructions":
                        body[key] = value
                request.body = body

    def _to_prompt(self, request: ModelRequest) -> None:
        prompt = request.body.get("prompt")
        if isinstance(prompt, str):
            if self.strategy == "append":
                parts: tuple[str, str] = (prompt, self.system_message)
            else:
                parts = (self.system_message, prompt)
            request.body = {**request.body, "prompt": "\n\n".join(parts)}
