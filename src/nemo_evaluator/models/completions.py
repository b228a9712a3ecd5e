"""The text-completions protocol: an answer's JSON to a ModelResponse."""

from typing import Any

from nemo_evaluator.core.types import JsonDict, Message, ModelResponse
from nemo_evaluator.models.chat import answered


def parse_completion(body: JsonDict, model: str) -> ModelResponse:
    """The first choice of a text completion."""
    choice = body["choices"][0]
    return answered(
        body,
        model,
        content=choice.get("text") or "",
        finish_reason=choice.get("finish_reason") or "",
    )


def prompt_of(messages: list[Message]) -> str:
    """Chat messages as one text, for a server without a chat template: the contents, separated by blank lines."""
    texts = (text_of(message.get("content")) for message in messages)
    return "\n\n".join(text for text in texts if text)


def text_of(content: Any) -> str:
    """The text of a message's content: a string, or the texts of its parts, joined by newlines."""
    if isinstance(content, list):
        return "\n".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return str(content or "")
