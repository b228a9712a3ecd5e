"""The text-completions protocol: an answer's JSON to a ModelResponse."""

from __future__ import annotations

from typing import Any

from nemo_evaluator.core.types import JsonDict, Message, ModelResponse
from nemo_evaluator.models.chat import answered


def parse_completion(body: JsonDict, model: str) -> ModelResponse:
    """The first choice of a text completion."""
    choice = body["choices"][0]
    return answered(body, model, content=choice.get("text") or "", finish_reason=choice.get("finish_reason") or "")


def likelihood_of(body: JsonDict, prompt: str | list[int], start: int) -> tuple[float, bool] | None:
    """The log-probability of a prompt from ``start`` on, and whether each token of it was the likeliest.

    None when the server did not weigh the prompt. The last token is the one that was generated.
    """
    try:
        found = body["choices"][0]["logprobs"]
        values, tops = found["token_logprobs"][:-1], found["top_logprobs"]
        if isinstance(prompt, list):
            if len(values) != len(prompt):
                return None
        else:
            start = next((at for at, offset in enumerate(found["text_offset"][:-1]) if offset >= start), len(values))
        weighed = values[start:]
        greedy = all(value == max(top.values()) for value, top in zip(weighed, tops[start:], strict=False))
        return (sum(weighed), greedy) if weighed else None
    except (KeyError, IndexError, TypeError, AttributeError, ValueError):
        return None


def prompt_of(messages: list[Message]) -> str:
    """Chat messages as one text, for a server that has no chat template: contents in order, blank lines between."""
    texts = (text_of(message.get("content")) for message in messages)
    return "\n\n".join(text for text in texts if text)


def text_of(content: Any) -> str:
    """The text of a message's content: a string, or the texts of its parts, joined by newlines."""
    if isinstance(content, list):
        return "\n".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return str(content or "")
