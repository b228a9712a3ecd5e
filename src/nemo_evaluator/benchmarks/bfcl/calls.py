"""Reading function calls out of a response: Python syntax, or JSON in the forms models use."""

import ast
import keyword
import operator
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from nemo_evaluator.benchmarks.bfcl.literals import split_source, unquoted
from nemo_evaluator.core.types import JsonDict

_FENCE: Final = re.compile(r"```[\w+-]*\n?(.*?)```", re.DOTALL)
_TAGS: Final = ("tool_call", "function_call", "toolcall")
_NAMED: Final = re.compile(r"[A-Za-z_$][\w$]*\s*=(?![=>])")
_LONGEST: Final = 50_000
_MOST_LINES: Final = 50
_LARGE: Final = 2**53
_SEVERAL: Final = (ast.List, ast.Tuple)
_SUMS: Final[dict[type[ast.operator], Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
}  # fmt: skip
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
    if len(text) > _LONGEST:
        return None
    tagged = list(_tagged(text))
    if tagged:
        found = [_from_json(body) for body in tagged]
        return [call for calls in found if calls for call in calls] or None
    # Blocks, the whole, a list inside prose, then single lines, the last first.
    listed = (
        [text[text.find("[") : text.rfind("]") + 1]]
        if 0 <= text.find("[") < text.rfind("]")
        else []
    )
    lines = [line for line in reversed(text.splitlines()[-_MOST_LINES:]) if line.strip()]
    candidates = [*reversed(_FENCE.findall(text)), text, *listed, *lines]
    for candidate in candidates:
        for read in (_from_json, _from_python):
            calls = read(candidate.strip())
            if calls is not None:
                return calls
    # Java and JavaScript have literals that Python lacks: 100L, new int[]{1, 2}, {key: value}, x => y.
    names = {function["name"] for function in functions}
    for text in candidates:
        calls = _from_source(text.strip(), names)
        if calls:
            return calls
    return None


def _tagged(text: str) -> Iterator[str]:
    """The text between the tags that some models put around their calls."""
    lower = text.lower()
    for tag in _TAGS:
        at = lower.find(f"<{tag}>")
        while at >= 0 and (end := lower.find(f"</{tag}>", at)) >= 0:
            yield text[at + len(tag) + 2 : end].strip()
            at = lower.find(f"<{tag}>", end)


def _from_json(text: str) -> list[Call] | None:
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    items = value if isinstance(value, list) else [value]
    calls: list[Call] = []
    for item in items:
        call = _json_call(item)
        if call is None:
            return None
        calls.append(call)
    return calls


def _json_call(item: Any) -> Call | None:
    if not isinstance(item, dict):
        return None
    inner = item.get("function")
    if isinstance(inner, dict):
        item = inner
    name = item.get("name")
    if not isinstance(name, str):
        name = inner if isinstance(inner, str) else None
    arguments = item.get("arguments", item.get("parameters", item.get("args")))
    if name is None and len(item) == 1:
        name, arguments = next(iter(item.items()))
    if isinstance(arguments, str):
        try:
            arguments = orjson.loads(arguments)
        except orjson.JSONDecodeError:
            return None
    if arguments is None:
        arguments = {}
    if not isinstance(name, str) or not isinstance(arguments, dict):
        return None
    return Call(name, arguments)


def _from_source(text: str, names: set[str]) -> list[Call] | None:
    """Calls whose values are kept as they are written, of functions that are known."""
    inside = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    calls = []
    for part in split_source(inside.strip().rstrip(";")):
        head, _, rest = part.partition("(")
        if head.strip() not in names or not rest.endswith(")"):
            return None
        pairs: list[str] = []
        for piece in split_source(rest[:-1]):
            if _NAMED.match(piece):
                pairs.append(piece)
            elif not pairs:
                return None
            else:  # the comma of HashMap<String, Object>
                pairs[-1] += f", {piece}"
        arguments = (pair.partition("=") for pair in pairs)
        calls.append(
            Call(
                head.strip(), {key.strip(): unquoted(value.strip()) for key, _, value in arguments}
            )
        )
    return calls


def _from_python(text: str) -> list[Call] | None:
    # An argument may be called like a keyword of Python (`from=...`), which Python itself does not allow.
    safe = _KEYWORD_ARGUMENT.sub(rf"\1{_ESCAPE}\2=", text.strip().rstrip(";"))
    try:
        tree = ast.parse(safe, mode="exec")
        if not tree.body:
            return None
        calls: list[Call] = []
        for statement in tree.body:
            value = statement.value if isinstance(statement, (ast.Expr, ast.Assign)) else None
            nodes = value.elts if isinstance(value, _SEVERAL) else [value]
            for node in nodes:
                call = _python_call(node)
                if call is None:
                    return None
                calls.append(call)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return calls


def _python_call(node: ast.AST | None) -> Call | None:
    if isinstance(node, ast.Await):
        node = node.value
    name = _dotted(node.func) if isinstance(node, ast.Call) else None
    if not isinstance(node, ast.Call) or name is None:
        return None
    # Named arguments are asked for: one without a name is none of those that are accepted.
    arguments = {f"argument {at}": _value(arg) for at, arg in enumerate(node.args, 1)}
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
    """A literal as its value, a sum as its result; a variable or any other expression as its text."""
    if isinstance(node, ast.Constant):
        return "..." if node.value is ... else node.value
    if isinstance(node, ast.List):
        return [_value(item) for item in node.elts]
    if isinstance(node, ast.Tuple):
        return tuple(_value(item) for item in node.elts)
    if isinstance(node, ast.Dict) and all(
        isinstance(key, (ast.Constant, ast.Name)) for key in node.keys
    ):
        return {
            _value(key): _value(value)
            for key, value in zip(node.keys, node.values, strict=True)
            if key
        }
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
        inner = _value(node.operand)
        if isinstance(inner, (int, float)):
            return -inner if isinstance(node.op, ast.USub) else inner
    if isinstance(node, ast.BinOp) and type(node.op) in _SUMS:
        left = _value(node.left)
        right = _value(node.right)
        if (
            all(isinstance(side, (int, float)) and abs(side) < _LARGE for side in (left, right))
            and right
        ):
            return _SUMS[type(node.op)](left, right)
    if isinstance(node, ast.Name) and node.id.lower() in _WORDS:
        return _WORDS[node.id.lower()]
    return ast.unparse(node)
