"""Parse the function calls in a response, written in Python syntax or in one of the usual JSON formats."""

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
_SUMS: Final[dict[type[ast.operator], Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
}  # fmt: skip
_ESCAPE: Final = "keyword_"
_KEYWORD_ARGUMENT: Final = re.compile(rf"([(,]\s*)({'|'.join(keyword.kwlist)})\s*=(?!=)")
_WORDS: Final[dict[str, Any]] = {"true": True, "false": False, "null": None, "none": None}


@dataclass(slots=True)
class Call:
    """One call of a function.

    Attributes:
        name: The name of the function.
        arguments: The values of the arguments, by name.
    """

    name: str
    arguments: dict[str, Any] = field(default_factory=dict)


def parse_calls(response: str, functions: list[JsonDict]) -> list[Call] | None:
    """Parse the calls in a response.

    Args:
        response: The response, without its reasoning.
        functions: The schemas of the functions that may be called.

    Returns:
        The calls; an empty list if the response states that it calls nothing; None if no calls can be parsed.
    """
    text = response.strip()
    if len(text) > _LONGEST:
        return None
    tagged_texts = list(_tagged(text))
    if tagged_texts:
        return _tagged_calls(tagged_texts)
    candidates = _candidates(text)
    for candidate in candidates:
        for parse in (_from_json, _from_python):
            calls = parse(candidate)
            if calls is not None:
                return calls
    # Java and JavaScript have literals that Python lacks: 100L, new int[]{1, 2}, {key: value}, x => y.
    names = {function["name"] for function in functions}
    for candidate in candidates:
        calls = _from_source(candidate, names)
        if calls:
            return calls
    return None


def _candidates(text: str) -> list[str]:
    """List the parts of a response that may be its calls, the likeliest first.

    They are the code blocks, the whole text, a list inside prose, and single lines; the last block and the last line
    come first.
    """
    candidates = [*reversed(_FENCE.findall(text)), text]
    list_start = text.find("[")
    list_end = text.rfind("]")
    if 0 <= list_start < list_end:
        candidates.append(text[list_start : list_end + 1])
    for line in reversed(text.splitlines()[-_MOST_LINES:]):
        if line.strip():
            candidates.append(line)
    return [candidate.strip() for candidate in candidates]


def _tagged_calls(tagged_texts: list[str]) -> list[Call] | None:
    """Parse the calls between tags; a text that is not a call is skipped. None if no text is one."""
    calls: list[Call] = []
    for tagged_text in tagged_texts:
        calls += _from_json(tagged_text) or []
    return calls or None


def _tagged(text: str) -> Iterator[str]:
    """Yield the text between the tags that some models put around their calls."""
    lower = text.lower()
    for tag in _TAGS:
        opening_tag = f"<{tag}>"
        start = lower.find(opening_tag)
        while start >= 0:
            end = lower.find(f"</{tag}>", start)
            if end < 0:
                break
            yield text[start + len(opening_tag) : end].strip()
            start = lower.find(opening_tag, end)


def _from_json(text: str) -> list[Call] | None:
    """Parse a JSON object or list as calls; None if it is not JSON or an item is not a call."""
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
    """Convert a JSON value to a call.

    The name and the arguments may have any of the usual keys, be nested in ``function``, or be the only key and its
    value. The arguments may be JSON text.
    """
    if not isinstance(item, dict):
        return None
    function = item.get("function")
    if isinstance(function, dict):
        item = function
    name = item.get("name")
    if not isinstance(name, str):
        name = function
    arguments = item.get("arguments", item.get("parameters", item.get("args")))
    if not isinstance(name, str) and len(item) == 1:
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
    """Split calls of known functions; the values stay source text of Java or JavaScript.

    Returns:
        The calls; None if a part is not a call of a known function with named arguments.
    """
    list_source = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    calls: list[Call] = []
    for call_source in split_source(list_source.strip().rstrip(";")):
        function_name, _, argument_source = call_source.partition("(")
        if function_name.strip() not in names or not argument_source.endswith(")"):
            return None
        arguments = _source_arguments(argument_source[:-1])
        if arguments is None:
            return None
        calls.append(Call(function_name.strip(), arguments))
    return calls


def _source_arguments(source: str) -> dict[str, Any] | None:
    """Split the named arguments of a call; None if the first one has no name."""
    argument_texts: list[str] = []
    for part in split_source(source):
        if _NAMED.match(part):
            argument_texts.append(part)
        elif not argument_texts:
            return None
        else:  # the comma of HashMap<String, Object>
            argument_texts[-1] += f", {part}"
    arguments: dict[str, Any] = {}
    for argument_text in argument_texts:
        argument_name, _, value = argument_text.partition("=")
        arguments[argument_name.strip()] = unquoted(value.strip())
    return arguments


def _from_python(text: str) -> list[Call] | None:
    """Parse Python source as calls; None if a statement is anything else."""
    # An argument may have a Python keyword as its name (`from=...`), which Python does not allow: escape it.
    safe = _KEYWORD_ARGUMENT.sub(rf"\1{_ESCAPE}\2=", text.strip().rstrip(";"))
    try:
        tree = ast.parse(safe, mode="exec")
        if not tree.body:
            return None
        calls: list[Call] = []
        for node in _called_nodes(tree):
            call = _python_call(node)
            if call is None:
                return None
            calls.append(call)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return calls


def _called_nodes(tree: ast.Module) -> Iterator[ast.AST | None]:
    """Yield the expression of each statement, or the items of its list; None for a statement that has none."""
    for statement in tree.body:
        if not isinstance(statement, (ast.Expr, ast.Assign)):
            yield None
        elif isinstance(statement.value, (ast.List, ast.Tuple)):
            yield from statement.value.elts
        else:
            yield statement.value


def _python_call(node: ast.AST | None) -> Call | None:
    """Convert a node of Python's syntax tree to a call; None if it is not a call or repeats an argument."""
    if isinstance(node, ast.Await):
        node = node.value
    if not isinstance(node, ast.Call):
        return None
    name = _dotted(node.func)
    if name is None:
        return None
    arguments: dict[str, Any] = {}
    # The prompt demands named arguments: one without a name matches no accepted argument.
    for position, argument in enumerate(node.args, 1):
        arguments[f"argument {position}"] = _value(argument)
    for keyword_argument in node.keywords:
        argument_name = (keyword_argument.arg or "").removeprefix(_ESCAPE)
        if not argument_name or argument_name in arguments:
            return None
        arguments[argument_name] = _value(keyword_argument.value)
    return Call(name, arguments)


def _dotted(node: ast.AST) -> str | None:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        owner = _dotted(node.value)
        return f"{owner}.{node.attr}" if owner else None
    return None


def _value(node: ast.AST) -> Any:
    """Evaluate a literal or an arithmetic expression; return the source text of a variable or any other expression."""
    if isinstance(node, ast.Constant):
        return "..." if node.value is ... else node.value
    if isinstance(node, ast.List):
        return [_value(item) for item in node.elts]
    if isinstance(node, ast.Tuple):
        return tuple(_value(item) for item in node.elts)
    if isinstance(node, ast.Name) and node.id.lower() in _WORDS:
        return _WORDS[node.id.lower()]
    if isinstance(node, ast.Dict):
        evaluated: Any = _dictionary(node)
    elif isinstance(node, ast.UnaryOp):
        evaluated = _signed(node)
    elif isinstance(node, ast.BinOp):
        evaluated = _calculated(node)
    else:
        evaluated = None
    return ast.unparse(node) if evaluated is None else evaluated


def _dictionary(node: ast.Dict) -> dict[Any, Any] | None:
    """Evaluate a dictionary; None if a key is not a literal or a name."""
    dictionary: dict[Any, Any] = {}
    for key, value in zip(node.keys, node.values, strict=True):
        if not isinstance(key, (ast.Constant, ast.Name)):
            return None
        dictionary[_value(key)] = _value(value)
    return dictionary


def _signed(node: ast.UnaryOp) -> int | float | None:
    """Evaluate a number with a sign; None for any other expression."""
    operand = _value(node.operand)
    if not isinstance(operand, (int, float)):
        return None
    if isinstance(node.op, ast.USub):
        return -operand
    if isinstance(node.op, ast.UAdd):
        return operand
    return None


def _calculated(node: ast.BinOp) -> int | float | None:
    """Evaluate a sum, product or quotient of small numbers; None for any other expression, or if the right is 0."""
    calculate = _SUMS.get(type(node.op))
    if calculate is None:
        return None
    left = _value(node.left)
    right = _value(node.right)
    for side in (left, right):
        if not isinstance(side, (int, float)) or abs(side) >= _LARGE:
            return None
    if not right:
        return None
    result: int | float = calculate(left, right)
    return result
