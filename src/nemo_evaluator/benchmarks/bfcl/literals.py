"""Values written in Java or JavaScript: numbers with their suffixes, arrays, lists, maps and objects. What is not a
literal of the type that the schema names stays text, as a variable of the user's code does."""

import re
from collections.abc import Iterator
from typing import Any, Final

from nemo_evaluator.core.types import JsonDict

LANGUAGES: Final = {"simple_java": "java", "simple_javascript": "javascript"}
_LARGE: Final = 1e300
_OPEN: Final = {"(": ")", "[": "]", "{": "}"}
_QUOTES: Final = "\"'`"
_WHOLE: Final = r"-?\d{1,400}"
_REAL: Final = r"-?\d{1,400}(?:\.\d{1,400})?(?:[eE][+-]?\d{1,3})?"
_NUMBERS: Final = {
    "byte": (_WHOLE, int), "short": (_WHOLE, int), "integer": (_WHOLE, int), "long": (rf"({_WHOLE})[lL]?", int),
    "Bigint": (rf"({_WHOLE})n?", int), "float": (rf"({_REAL})[fF]?", float), "double": (_REAL, float),
}  # fmt: skip
_LISTS: Final = {
    "Array": (r"new\s+[\w.<>]+\s*\[\]\s*\{",),
    "ArrayList": (r"new\s+ArrayList\s*<[^()]{0,80}>\s*\(\s*Arrays\.asList\s*\(",),
    "array": (r"\[", r"new\s+Array\s*\("),
}
_ADDED: Final = re.compile(r"new\s+ArrayList\s*<[^()]{0,80}>\s*\(\)\s*\{\s*\{")
_EMPTY_LIST: Final = re.compile(r"new\s+ArrayList\s*<[^()]{0,80}>\s*\(\)")
_MAP: Final = re.compile(r"new\s+HashMap\s*<[^()]{0,80}>\s*\(\)\s*(?:\{\s*\{?)?")


def _outside_quotes(source: str) -> Iterator[tuple[int, str]]:
    """The signs of a text that stand outside quotes, with their places."""
    quote = ""
    at = 0
    while at < len(source):
        sign = source[at]
        if quote:
            at += sign == "\\"
            quote = "" if sign == quote else quote
        elif sign in _QUOTES:
            quote = sign
        else:
            yield at, sign
        at += 1


def split_source(source: str, separator: str = ",") -> list[str]:
    """The parts of a text between separators that stand outside brackets and quotes."""
    parts = []
    depth = 0
    start = 0
    for at, sign in _outside_quotes(source):
        if sign in _OPEN:
            depth += 1
        elif sign in ")]}":
            depth -= 1
        elif sign == separator and depth == 0:
            parts.append(source[start:at].strip())
            start = at + 1
    return [part for part in (*parts, source[start:].strip()) if part]


def convert(value: Any, schema: JsonDict, language: str) -> Any:
    """A value as the type of its schema: text of the other language is read, other values stand as they are."""
    kind = str(schema.get("type", "any"))
    if value is None:
        return "null"
    if isinstance(value, list):
        return [convert(item, schema.get("items") or {}, language) for item in value]
    if type(value) is int and kind in ("float", "double") and abs(value) < _LARGE:
        return float(value)
    if not isinstance(value, str):
        return value
    text = value.strip()
    if kind in _NUMBERS:
        pattern, number = _NUMBERS[kind]
        found = re.fullmatch(pattern, text)
        if found:
            return number(found[found.lastindex or 0])
        return text
    if kind in ("boolean", "Boolean"):
        return {"true": True, "false": False}.get(text, text)
    if kind in _LISTS:
        return _list_of(text, kind, schema.get("items") or {}, language=language)
    if kind in ("HashMap", "dict"):
        return _map_of(text, language)
    return unquoted(text)


def unquoted(text: str) -> str:
    if len(text) > 1 and text[0] in _QUOTES and text[-1] == text[0]:
        return text[1:-1]
    return text


def _list_of(text: str, kind: str, items: JsonDict, language: str) -> Any:
    if kind == "ArrayList":
        added = _ADDED.match(text)
    else:
        added = None
    if added:
        return [
            convert(item, items, language) for item in _arguments_of("add", text[added.end() :])
        ]
    for opening in _LISTS[kind]:
        start = re.match(opening, text)
        if start:
            parts = split_source(_balanced(text[start.end() :].rstrip(")]} ")))
            typed = bool(items.get("type"))
            results: list[Any] = []
            for part in parts:
                results.append(
                    convert(part, items, language) if typed else _untyped(part, language)
                )
            return results
    if kind == "ArrayList" and _EMPTY_LIST.fullmatch(text):
        return []
    return text


def _balanced(inside: str) -> str:
    """Give back the closing brackets that belong to the last element."""
    missing: list[str] = []
    for _, sign in _outside_quotes(inside):
        if sign in _OPEN:
            missing.append(_OPEN[sign])
        elif sign in ")]}" and missing:
            missing.pop()
    return inside + "".join(reversed(missing))


def _map_of(text: str, language: str) -> Any:
    if language == "java":
        start = _MAP.match(text)
        if start is None:
            return text
        puts = [split_source(pair) for pair in _arguments_of("put", text[start.end() :])]
        return {unquoted(pair[0]): _untyped(pair[1], language) for pair in puts if len(pair) == 2}
    if not (text.startswith("{") and text.endswith("}")):
        return text
    pairs = [split_source(part, ":") for part in split_source(text[1:-1])]
    if not all(len(pair) > 1 for pair in pairs):
        return text
    return {unquoted(pair[0]): _untyped(":".join(pair[1:]), language) for pair in pairs}


def _arguments_of(name: str, text: str) -> list[str]:
    """The arguments of each ``add(...)`` or ``put(...)``, one after another."""
    calls = (part.strip() for part in split_source(text.rstrip("} \n\t"), ";"))
    results: list[str] = []
    for call in calls:
        if call.startswith(f"{name}(") and call.endswith(")"):
            results.append(call[len(name) + 1 : -1])
    return results


def _untyped(text: str, language: str) -> Any:
    """A value whose type nobody named."""
    if text in ("true", "false"):
        return text == "true"
    for kind in ("integer", "long", "float") if language == "java" else ("integer", "float"):
        value = convert(text, {"type": kind}, language)
        if not isinstance(value, str):
            return value
    if language == "javascript" and text[:1] in ("[", "{"):
        return convert(text, {"type": "array" if text[0] == "[" else "dict"}, language)
    return unquoted(text)
