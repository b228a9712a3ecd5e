"""``system_message``: puts a system message into every request."""

from dataclasses import dataclass
from typing import Literal

from nemo_evaluator.adapters import base
from nemo_evaluator.adapters._bodies import messages_of, put_messages
from nemo_evaluator.models.types import ModelRequest


@dataclass(eq=False)
class Interceptor(base.Interceptor):
    """Prepends, appends or replaces the system message.

    A text-completion request gets the text before or after its prompt.
    """

    system_message: str
    strategy: Literal["prepend", "append", "replace"] = "prepend"

    def on_request(self, request: ModelRequest) -> None:
        """Put the message into the messages or the prompt of a request."""
        # A new dict for every request: stages of users may change it.
        message = {"role": "system", "content": self.system_message}
        body = request.body
        chat_messages = body.get("messages")
        if chat_messages is not None and self.strategy == "prepend":
            # By far the most frequent case.
            request.body = {**body, "messages": [message, *chat_messages]}
            return
        messages = messages_of(request)
        if messages is None:
            self._to_prompt(request)
        elif self.strategy == "append":
            put_messages(request, [*messages, message])
        elif self.strategy == "prepend":
            put_messages(request, [message, *messages])
        else:
            other_messages = [
                chat_message for chat_message in messages if chat_message.get("role") != "system"
            ]
            put_messages(request, [message, *other_messages])
            # The Responses API keeps its system message here.
            request.body.pop("instructions", None)

    def _to_prompt(self, request: ModelRequest) -> None:
        prompt = request.body.get("prompt")
        if not isinstance(prompt, str):
            return
        if self.strategy == "append":
            joined = f"{prompt}\n\n{self.system_message}"
        else:
            joined = f"{self.system_message}\n\n{prompt}"
        request.body = {**request.body, "prompt": joined}
