"""The chat-completions protocol: an answer's JSON to a ModelResponse."""

from typing import Any, Final

import orjson

from nemo_evaluator.core.files import dumps
from nemo_evaluator.core.types import JsonDict, ModelResponse, ToolCallInfo
from nemo_evaluator.models.reasoning import split_message
from nemo_evaluator.models.usage import usage_of

# Levels around the arguments in a record, and the brackets from which their own depth is tested.
_DEEP: Final = 64


def parse_chat(body: JsonDict, model: str) -> ModelResponse:
    """The first choice of a chat completion, with reasoning kept apart and tool calls parsed."""
    choice = body["choices"][0]
    message = choice["message"]
    content, reasoning = split_message(message)
    calls = message.get("tool_calls")
    return answered(
        body,
        model,
        content=content,
        finish_reason=choice.get("finish_reason") or "",
        reasoning_content=reasoning,
        tool_calls=[parse_tool_call(call) for call in calls] if calls else [],
    )


def answered(body: JsonDict, model: str, **fields: Any) -> ModelResponse:
    """A ModelResponse with the model and the token counts of a body, and with further fields."""
    usage = usage_of(body)
    return ModelResponse(
        model=body.get("model") or model,
        prompt_tokens=usage.prompt,
        completion_tokens=usage.completion,
        total_tokens=usage.total,
        reasoning_tokens=usage.reasoning,
        cached_tokens=usage.cached,
        raw_response=body,
        **fields,
    )


def call_of(call_id: Any, name: Any, arguments: Any) -> JsonDict:
    """A tool call in the form of chat completions."""
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def parse_tool_call(call: JsonDict) -> ToolCallInfo:
    """Parse a tool call; arguments that are not a JSON object become ``{"raw": text}``."""
    function = call.get("function") or {}
    return ToolCallInfo(
        id=str(call.get("id") or ""),
        name=str(function.get("name") or ""),
        arguments=parse_arguments(function.get("arguments")),
    )


def parse_arguments(arguments: Any) -> JsonDict:
    """The arguments of a tool call as an object; ``{"raw": text}`` if they are not one, or are nested too deeply."""
    if not arguments:
        return {}
    text = arguments if isinstance(arguments, str) else dumps(arguments).decode()
    try:
        parsed = orjson.loads(text)
        if text.count("[") + text.count("{") > _DEEP:
            orjson.dumps(_inside(parsed))
    except (orjson.JSONDecodeError, TypeError):
        return {"raw": text}
    if isinstance(parsed, dict):
        return parsed
    return {"raw": text}


def _inside(value: Any) -> Any:
    """A value at the depth at which records contain it, to test whether it can be written there."""
    for _ in range(_DEEP):
        value = [value]
    return value
