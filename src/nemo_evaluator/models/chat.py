"""The chat-completions protocol: an answer's JSON to a ModelResponse."""

from typing import Any, Final

import orjson

from nemo_evaluator.core.files import dumps
from nemo_evaluator.core.types import JsonDict, ModelResponse, ToolCallInfo
from nemo_evaluator.models.reasoning import split_message
from nemo_evaluator.models.usage import usage_of

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


def answered(body: JsonDict, model: str, **said: Any) -> ModelResponse:
    """What a body says in any of the protocols, with the tokens that it took."""
    usage = usage_of(body)
    return ModelResponse(
        model=body.get("model") or model,
        prompt_tokens=usage.prompt,
        completion_tokens=usage.completion,
        total_tokens=usage.total,
        reasoning_tokens=usage.reasoning,
        cached_tokens=usage.cached,
        raw_response=body,
        **said,
    )


def call_of(call_id: Any, name: Any, arguments: Any) -> JsonDict:
    """A tool call as chat completions write it."""
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def parse_tool_call(call: JsonDict) -> ToolCallInfo:
    """One tool call; arguments that are no JSON object are kept as ``{"raw": text}``."""
    function = call.get("function") or {}
    return ToolCallInfo(
        id=str(call.get("id") or ""),
        name=str(function.get("name") or ""),
        arguments=parse_arguments(function.get("arguments")),
    )


def parse_arguments(given: Any) -> JsonDict:
    """The arguments of a tool call as an object; what is none, or is nested beyond use, as ``{"raw": text}``."""
    if not given:
        return {}
    if isinstance(given, str):
        text = given
    else:
        text = dumps(given).decode()
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
    """A value as deep as a record may hold it: what cannot be written there is nested too deep."""
    for _ in range(_DEEP):
        value = [value]
    return value
