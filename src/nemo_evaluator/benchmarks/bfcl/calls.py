"""Reading function calls out of a response: Python syntax, or JSON in the forms models use."""

from __future__ import annotations

import ast
import keyword
import re
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from nemo_evaluator.core.types import JsonDict

_FENCE: Final = re.compile(r"```[\w+-]*\n?(.*?)```", re.DOTALL)
_TOOL_CALL: Final = re.compile(r"<(tool_call|function_call|toolcall)>\s*(.*?)\s*</\1>", re.DOTALL | re.IGNORECASE)
_ESCAPE: Final = "keyword_"
_KEYWORD_ARGUMENT: Final = re.compile(rf"([(,]\s*)({'|'.join(keyword.kwlist)})\s*=(?!=)")
_WORDS: Final[dict[str, Any]] = {"true": True, "false": False, "null": None, "none": None}


@dataclass(slots=True)
class Call:
    """One call: the function and its arguments by name."""

    name: str
    arguments: dict[str, Any] = field(default_factory=dict)


def parse_calls(response: str, functions: list[JsonDict]) -> list[Call] | None:
    """The calls of a response; an empty list when it says that it calls nothing; None when there is nothing to read."""
    text = response.strip()
    tagged = [body for _, body in _TOOL_CALL.findall(text)]
    if tagged:
        found = [_from_json(body) for body in tagged]
        return [call for calls in found if calls for call in calls] or None
    for candidate in [*reversed(_FENCE.findall(text)), text, *_bracketed(text)]:
        for read in (_from_json, lambda body: _from_python(body, functions)):
            calls = read(candidate.strip())
            if calls is not None:
                return calls
    return None


def _bracketed(text: str) -> list[str]:
    """Lists inside prose, then single lines, the last first."""
    found = []
    start = text.find("[")
    if start >= 0 and text.rfind("]") > start:
        found.append(text[start : text.rfind("]") + 1])
    return [*found, *(line for line in reversed(text.splitlines()) if line.strip())]


def _from_json(text: str) -> list[Call] | None:
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    items = value if isinstance(value, list) else [value]
    calls = [_json_call(item) for item in items]
    return None if any(call is None for call in calls) else [call for call in calls if call is not None]


def _json_call(item: Any) -> Call | None:
    if not isinstance(item, dict):
        return None
    inner = item.get("function")
    if isinstance(inner, dict):
        item = inner
    name = item.get("name") if isinstance(item.get("name"), str) else inner if isinstance(inner, str) else None
    arguments = item.get("arguments", item.get("parameters", item.get("args")))
    if name is None and len(item) == 1:
        name, arguments = next(iter(item.items()))
    if isinstance(arguments, str):
        try:
            arguments = orjson.loads(arguments)
        except orjson.JSONDecodeError:
            return None
    if not isinstance(name, str) or not isinstance(arguments if arguments is not None else {}, dict):
        return None
    return Call(name, arguments or {})


def _from_python(text: str, functions: list[JsonDict]) -> list[Call] | None:
    # An argument may be called like a keyword of Python (`from=...`), which Python itself does not allow.
    safe = _KEYWORD_ARGUMENT.sub(rf"\1{_ESCAPE}\2=", text.strip().rstrip(";"))
    try:
        tree = ast.parse(safe, mode="exec")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    calls: list[Call] = []
    for statement in tree.body:
        value = statement.value if isinstance(statement, (ast.Expr, ast.Assign)) else None
        nodes = value.elts if isinstance(value, (ast.List, ast.Tuple)) else [value]
        for node in nodes:
            call = _python_call(node, functions)
            if call is None:
                return None
            calls.append(call)
    return calls if tree.body else None


def _python_call(node: ast.AST | None, functions: list[JsonDict]) -> Call | None:
    if isinstance(node, ast.Await):
        node = node.value
    if not isinstance(node, ast.Call):
        return None
    name = _dotted(node.func)
    if name is None:
        return None
    known = next((function for function in functions if function["name"] == name), None)
    order = list(known["parameters"]["properties"]) if known else []
    arguments = {
        order[at] if at < len(order) else f"argument {at + 1}": _value(arg) for at, arg in enumerate(node.args)
    }
    for given in node.keywords:
        named = (given.arg or "").removeprefix(_ESCAPE)
        if not named or named in arguments:
            return None
        arguments[named] = _value(given.value)
    return Call(name, arguments)


def _dotted(node: ast.AST) -> str | None:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        owner = _dotted(node.value)
        return f"{owner}.{node.attr}" if owner else None
    return None


def _value(node: ast.AST) -> Any:
    """A literal as its value; a variable or any other expression as its text."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
        return [_value(item) for item in node.elts]
    if isinstance(node, ast.Dict):
        return {
            _value(key): _value(value) for key, value in zip(node.keys, node.values, strict=True) if key is not None
        }
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
        inner = _value(node.operand)
        if isinstance(inner, (int, float)):
            return -inner if isinstance(node.op, ast.USub) else inner
    if isinstance(node, ast.Name) and node.id.lower() in _WORDS:
        return _WORDS[node.id.lower()]
    return ast.unparse(node)
