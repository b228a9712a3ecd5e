"""``consolidate_system``: one system message, at the beginning."""

from dataclasses import dataclass

from nemo_evaluator.adapters import base
from nemo_evaluator.adapters._bodies import messages_of, put_messages, text_of
from nemo_evaluator.core.types import Message
from nemo_evaluator.models.types import ModelRequest


@dataclass(eq=False)
class Interceptor(base.Interceptor):
    """Joins all system messages with ``separator`` and puts them first; empty ones are dropped."""

    counted = ("requests_changed",)
    requests_changed = 0
    separator: str = "\n\n"

    def on_request(self, request: ModelRequest) -> None:
        """Move the text of all system messages into the first message."""
        messages = messages_of(request)
        if not messages:
            return
        system_indexes: list[int] = []
        texts: list[str] = []
        kept_messages: list[Message] = []
        for index, message in enumerate(messages):
            if message.get("role") != "system":
                kept_messages.append(message)
                continue
            system_indexes.append(index)
            text = text_of(message.get("content"))
            if text:
                texts.append(text)
        if not system_indexes or system_indexes == [0]:
            return
        if texts:
            system_message = {"role": "system", "content": self.separator.join(texts)}
            kept_messages.insert(0, system_message)
        put_messages(request, kept_messages)
        self.requests_changed += 1
