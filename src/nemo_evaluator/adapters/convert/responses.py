"""The Responses API, spoken by an asker and answered by a chat service; and the other way round."""

import itertools
from collections.abc import Iterator
from typing import Any, Final

import orjson

from nemo_evaluator.adapters._streams import encode_event
from nemo_evaluator.adapters.convert.base import (
    Speech,
    Translator,
    error_in,
    first_choice,
    thought_of,
)
from nemo_evaluator.core.json_coerce import as_dict
from nemo_evaluator.core.types import JsonDict, Message
from nemo_evaluator.models.chat import call_of
from nemo_evaluator.models.responses import chat_of_response, to_responses

_OWN: Final = frozenset(
    {
        "input",
        "instructions",
        "tools",
        "tool_choice",
        "text",
        "reasoning",
        "max_output_tokens",
        "store",
        "include",
    }
    | {"previous_response_id", "truncation", "background"}
)


class _ResponsesTranslator(Translator):
    """Chat chunks to Responses events."""

    def __init__(self) -> None:
        self._numbers = itertools.count()
        self._head: JsonDict | None = None
        self._text: list[str] = []
        self._thoughts: list[str] = []
        self._calls: dict[int, JsonDict] = {}
        self._finish: Any = None
        self._usage: Any = None

    def feed(self, chunk: JsonDict) -> Iterator[bytes]:
        if chunk.get("error"):
            error = error_in(chunk)
            yield self._event(
                "error", code=error.get("code"), message=error.get("message", ""), param=None
            )
            return
        if self._head is None:
            self._head = chunk
            begun = {**_response(chunk, [], None, usage=None), "status": "in_progress"}
            yield self._event("response.created", response=begun)
        self._usage = chunk.get("usage") or self._usage
        choice, delta = first_choice(chunk)
        thought = thought_of(delta)
        if thought:
            self._thoughts.append(thought)
        if delta.get("content"):
            yield from self._say(delta["content"])
        for call in delta.get("tool_calls") or ():
            yield from self._call(call)
        self._finish = choice.get("finish_reason") or self._finish

    def end(self) -> Iterator[bytes]:
        output: list[JsonDict] = []
        if self._text:
            item = _message_item("".join(self._text))
            place = {"item_id": item["id"], "output_index": 0, "content_index": 0}
            yield self._event(
                "response.output_text.done", **place, text="".join(self._text), logprobs=[]
            )
            yield self._event("response.output_item.done", output_index=0, item=item)
            output.append(item)
        for call in self._calls.values():
            item = _call_item(call["id"], call["name"], "".join(call["arguments"]))
            place = {
                "item_id": item["id"],
                "output_index": len(output),
                "arguments": item["arguments"],
            }
            yield self._event("response.function_call_arguments.done", name=item["name"], **place)
            yield self._event("response.output_item.done", output_index=len(output), item=item)
            output.append(item)
        if self._thoughts:
            output.insert(0, _thought_item("".join(self._thoughts)))
        whole = _response(self._head or {}, output, self._finish, usage=self._usage)
        yield self._event(f"response.{whole['status']}", response=whole)

    def _say(self, text: str) -> Iterator[bytes]:
        place = {"item_id": "msg_0", "output_index": 0}
        if not self._text:
            item = {**_message_item(""), "status": "in_progress", "content": []}
            yield self._event("response.output_item.added", output_index=0, item=item)
            part = {"type": "output_text", "text": "", "annotations": []}
            yield self._event("response.content_part.added", **place, content_index=0, part=part)
        self._text.append(text)
        yield self._event(
            "response.output_text.delta", **place, content_index=0, delta=text, logprobs=[]
        )

    def _call(self, call: JsonDict) -> Iterator[bytes]:
        number = call.get("index", 0)
        function = call.get("function") or {}
        index = number + (1 if self._text else 0)
        kept = self._calls.get(number)
        if kept is None:
            kept = self._calls[number] = {
                "id": call.get("id"),
                "name": function.get("name"),
                "arguments": [],
            }
            item = {**_call_item(kept["id"], kept["name"], ""), "status": "in_progress"}
            yield self._event("response.output_item.added", output_index=index, item=item)
        piece = function.get("arguments")
        if piece:
            kept["arguments"].append(piece)
            place = {"item_id": f"fc_{kept['id']}", "output_index": index}
            yield self._event("response.function_call_arguments.delta", **place, delta=piece)

    def _event(self, kind: str, **fields: Any) -> bytes:
        return encode_event(
            {"type": kind, "sequence_number": next(self._numbers), **fields}, named=True
        )


def _to_chat(body: JsonDict) -> JsonDict:
    chat = {key: value for key, value in body.items() if key not in _OWN}
    messages: list[Message] = []
    if body.get("instructions"):
        messages.append({"role": "system", "content": body["instructions"]})
    given = body.get("input")
    if isinstance(given, str):
        items: list[dict[str, str] | Any] | Any = [{"role": "user", "content": given}]
    else:
        items = given or []
    for item in items:
        _add_item(messages, item)
    chat["messages"] = messages
    if body.get("max_output_tokens") is not None:
        chat["max_tokens"] = body["max_output_tokens"]
    if body.get("tools"):
        chat["tools"] = [_tool(tool) for tool in body["tools"]]
    choice = body.get("tool_choice")
    if isinstance(choice, dict) and choice.get("name"):
        chat["tool_choice"] = {"type": "function", "function": {"name": choice["name"]}}
    elif choice is not None:
        chat["tool_choice"] = choice
    shape = (body.get("text") or {}).get("format")
    if isinstance(shape, dict) and shape.get("type") != "text":
        inner = {key: value for key, value in shape.items() if key != "type"}
        is_schema = shape.get("type") == "json_schema"
        if is_schema:
            chat["response_format"] = {"type": "json_schema", "json_schema": inner}
        else:
            chat["response_format"] = shape
    effort = (body.get("reasoning") or {}).get("effort")
    if effort:
        chat["reasoning_effort"] = effort
    return chat


def _from_chat(body: JsonDict) -> JsonDict:
    choice, message = first_choice(body)
    output: list[JsonDict] = []
    thought = thought_of(message)
    if thought:
        output.append(_thought_item(thought))
    if message.get("content"):
        output.append(_message_item(str(message["content"])))
    for call in message.get("tool_calls") or ():
        function = call.get("function") or {}
        output.append(
            _call_item(call.get("id"), function.get("name"), function.get("arguments") or "")
        )
    return _response(body, output, choice.get("finish_reason"), usage=body.get("usage"))


def _add_item(messages: list[Message], item: JsonDict) -> None:
    kind = item.get("type", "message")
    if kind == "function_call":
        call = call_of(item.get("call_id"), item.get("name"), item.get("arguments"))
        if messages and messages[-1].get("role") == "assistant":
            messages[-1].setdefault("tool_calls", []).append(call)
        else:
            messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
    elif kind == "function_call_output":
        output = item.get("output")
        if isinstance(output, str):
            text = output
        else:
            text = orjson.dumps(output).decode()
        messages.append({"role": "tool", "tool_call_id": item.get("call_id"), "content": text})
    elif kind == "message":
        role = {"developer": "system"}.get(str(item.get("role")), item.get("role"))
        messages.append({"role": role, "content": _content(item.get("content"))})


def _content(content: Any) -> Any:
    if not isinstance(content, list):
        return content
    parts: list[JsonDict] = []
    for part in content:
        if part.get("type") in ("input_text", "output_text", "text"):
            parts.append({"type": "text", "text": part.get("text", "")})
        elif part.get("type") == "input_image":
            image = {"url": part.get("image_url"), "detail": part.get("detail") or "auto"}
            parts.append({"type": "image_url", "image_url": image})
    if all(part["type"] == "text" for part in parts):
        return "\n".join(part["text"] for part in parts)
    return parts


def _tool(tool: JsonDict) -> JsonDict:
    if tool.get("type") != "function":
        return tool
    return {
        "type": "function",
        "function": {key: value for key, value in tool.items() if key != "type"},
    }


def _thought_item(text: str) -> JsonDict:
    return {"type": "reasoning", "id": "rs_0", "summary": [{"type": "summary_text", "text": text}]}


def _message_item(text: str) -> JsonDict:
    part = {"type": "output_text", "text": text, "annotations": []}
    return {
        "type": "message",
        "id": "msg_0",
        "role": "assistant",
        "status": "completed",
        "content": [part],
    }


def _call_item(call_id: Any, name: Any, arguments: str) -> JsonDict:
    return {
        "type": "function_call",
        "id": f"fc_{call_id}",
        "call_id": call_id,
        "name": name,
        "arguments": arguments,
        "status": "completed",
    }


def _response(head: JsonDict, output: list[JsonDict], finish: Any, usage: Any) -> JsonDict:
    given = as_dict(usage)
    prompt = given.get("prompt_tokens") or 0
    made = given.get("completion_tokens") or 0
    cut = finish == "length"
    return {
        "id": head.get("id", "resp"),
        "object": "response",
        "created_at": head.get("created") or 0,
        "status": "incomplete" if cut else "completed",
        "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
        "error": None,
        "model": head.get("model", ""),
        "output": output,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": {
            "input_tokens": prompt,
            "output_tokens": made,
            "total_tokens": prompt + made,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens_details": {"reasoning_tokens": 0},
        },
    }


RESPONSES: Final = Speech(
    _to_chat, _from_chat, _ResponsesTranslator, request=to_responses, answer=chat_of_response
)
