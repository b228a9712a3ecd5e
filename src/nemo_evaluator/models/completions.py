"""The text-completions protocol: an answer's JSON to a ModelResponse."""

from __future__ import annotations

from nemo_evaluator.core.types import JsonDict, Message, ModelResponse
from nemo_evaluator.models.usage import usage_of


def parse_completion(body: JsonDict, model: str) -> ModelResponse:
    """The first choice of a text completion."""
    choice = body["choices"][0]
    usage = usage_of(body)
    return ModelResponse(
        content=choice.get("text") or "",
        model=body.get("model") or model,
        finish_reason=choice.get("finish_reason") or "",
        prompt_tokens=usage.prompt,
        completion_tokens=usage.completion,
        total_tokens=usage.total,
        reasoning_tokens=usage.reasoning,
        cached_tokens=usage.cached,
        raw_response=body,
    )


def prompt_of(messages: list[Message]) -> str:
    """Chat messages as one text, for a server that has no chat template: contents in order, blank lines between."""
    texts = []
    for message in messages:
        content = message.get("content") or ""
        if isinstance(content, list):
            content = "\n".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
        texts.append(str(content))
    return "\n\n".join(text for text in texts if text)
