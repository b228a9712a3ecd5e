"""``consolidate_system``: one system message, at the beginning."""

from dataclasses import dataclass

from nemo_evaluator.adapters import base
from nemo_evaluator.adapters._bodies import messages_of, put_messages, text_of
from nemo_evaluator.models.types import ModelRequest


@dataclass(eq=False)
class Interceptor(base.Interceptor):
    """Joins all system messages with ``separator`` and puts them first; empty ones vanish."""

    counted = ("requests_changed",)
    requests_changed = 0
    separator: str = "\n\n"

    def on_request(self, request: ModelRequest) -> None:
        messages = messages_of(request)
        places: list[int] = []
        for number, message in enumerate(messages or ()):
            if message.get("role") == "system":
                places.append(number)
        if not messages or not places or places == [0]:
            return
        texts = [text for number in places if (text := text_of(messages[number].get("content")))]
        others = [message for message in messages if message.get("role") != "system"]
        if texts:
            head = [{"role": "system", "content": self.separator.join(texts)}]
        else:
            head = []
        put_messages(request, [*head, *others])
        self.requests_changed += 1
