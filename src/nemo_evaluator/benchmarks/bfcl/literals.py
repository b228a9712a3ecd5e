"""Parse Java and JavaScript literals: numbers with suffixes, arrays, lists, maps and objects.

Text that is not a literal of the schema's type, such as a variable of the user's code, stays text.
"""

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
# The types of number that a value without a schema may have.
_NUMBERS_WITHOUT_TYPE: Final = {
    "java": ("integer", "long", "float"),
    "javascript": ("integer", "float"),
}
_BOOLEANS: Final = {"true": True, "false": False}
_LISTS: Final = {
    "Array": (r"new\s+[\w.<>]+\s*\[\]\s*\{",),
    "ArrayList": (r"new\s+ArrayList\s*<[^()]{0,80}>\s*\(\s*Arrays\.asList\s*\(",),
    "array": (r"\[", r"new\s+Array\s*\("),
}
_ADDED: Final = re.compile(r"new\s+ArrayList\s*<[^()]{0,80}>\s*\(\)\s*\{\s*\{")
_EMPTY_LIST: Final = re.compile(r"new\s+ArrayList\s*<[^()]{0,80}>\s*\(\)")
_MAP: Final = re.compile(r"new\s+HashMap\s*<[^()]{0,80}>\s*\(\)\s*(?:\{\s*\{?)?")


def _outside_quotes(source: str) -> Iterator[tuple[int, str]]:
    """Yield the characters outside quotes, each after its position."""
    quote = ""
    position = 0
    while position < len(source):
        character = source[position]
        if quote:
            position += character == "\\"
            quote = "" if character == quote else quote
        elif character in _QUOTES:
            quote = character
        else:
            yield position, character
        position += 1


def split_source(source: str, separator: str = ",") -> list[str]:
    """Split source text at separators outside brackets and quotes; empty parts are dropped."""
    parts: list[str] = []
    depth = 0
    start = 0
    for position, character in _outside_quotes(source):
        if character in _OPEN:
            depth += 1
        elif character in ")]}":
            depth -= 1
        elif character == separator and depth == 0:
            parts.append(source[start:position].strip())
            start = position + 1
    parts.append(source[start:].strip())
    return [part for part in parts if part]


def convert(value: Any, schema: JsonDict, language: str) -> Any:
    """Convert a value to the type of its schema.

    Args:
        value: The value; text is parsed as source of the language.
        schema: The schema of the argument or item.
        language: ``java`` or ``javascript``.

    Returns:
        The converted value. Text that is not a literal of the type stays text, and None becomes "null".
    """
    type_name = str(schema.get("type", "any"))
    if value is None:
        return "null"
    if isinstance(value, list):
        item_schema = schema.get("items") or {}
        return [convert(item, item_schema, language) for item in value]
    if type(value) is int and type_name in ("float", "double") and abs(value) < _LARGE:
        return float(value)
    if not isinstance(value, str):
        return value
    text = value.strip()
    if type_name in _NUMBERS:
        return _number_of(text, type_name)
    if type_name in ("boolean", "Boolean"):
        return _BOOLEANS.get(text, text)
    if type_name in _LISTS:
        return _list_of(text, type_name, schema.get("items") or {}, language=language)
    if type_name in ("HashMap", "dict"):
        return _map_of(text, language)
    return unquoted(text)


def _number_of(text: str, type_name: str) -> Any:
    """Parse a number of a type; text that is not one stays text."""
    pattern, number_type = _NUMBERS[type_name]
    number_match = re.fullmatch(pattern, text)
    if number_match is None:
        return text
    digits = number_match[number_match.lastindex or 0]
    return number_type(digits)


def unquoted(text: str) -> str:
    """Remove the quotes around a text if it has them."""
    if len(text) > 1 and text[0] in _QUOTES and text[-1] == text[0]:
        return text[1:-1]
    return text


def _list_of(text: str, kind: str, items: JsonDict, language: str) -> Any:
    """Parse an array or a list; text that is neither stays text.

    Args:
        text: The source text.
        kind: The type of the schema, a key of ``_LISTS``.
        items: The schema of the items.
        language: ``java`` or ``javascript``.
    """
    if kind == "ArrayList":
        if _EMPTY_LIST.fullmatch(text):
            return []
        added_list = _ADDED.match(text)
        if added_list is not None:
            added_sources = _arguments_of("add", text[added_list.end() :])
            return [convert(item_source, items, language) for item_source in added_sources]
    for opening in _LISTS[kind]:
        list_start = re.match(opening, text)
        if list_start is not None:
            inside = _balanced(text[list_start.end() :].rstrip(")]} "))
            return _items_of(inside, items, language)
    return text


def _items_of(inside: str, items: JsonDict, language: str) -> list[Any]:
    """Parse the items of a list, by their schema if it has a type."""
    item_sources = split_source(inside)
    if items.get("type"):
        return [convert(item_source, items, language) for item_source in item_sources]
    return [_untyped(item_source, language) for item_source in item_sources]


def _balanced(inside: str) -> str:
    """Restore the closing brackets of the last element, which were stripped with those of the list."""
    open_brackets: list[str] = []
    for _, character in _outside_quotes(inside):
        if character in _OPEN:
            open_brackets.append(_OPEN[character])
        elif character in ")]}" and open_brackets:
            open_brackets.pop()
    return inside + "".join(reversed(open_brackets))


def _map_of(text: str, language: str) -> Any:
    """Parse a Java map with its ``put(...)`` calls, or a JavaScript object; other text stays text."""
    if language == "java":
        return _java_map(text)
    if not (text.startswith("{") and text.endswith("}")):
        return text
    values: dict[str, Any] = {}
    for pair_source in split_source(text[1:-1]):
        key, *value_parts = split_source(pair_source, ":")
        if not value_parts:
            return text
        values[unquoted(key)] = _untyped(":".join(value_parts), language)
    return values


def _java_map(text: str) -> Any:
    """Parse ``new HashMap<...>() {{ put(key, value); }}``; other text stays text."""
    map_start = _MAP.match(text)
    if map_start is None:
        return text
    values: dict[str, Any] = {}
    for pair_source in _arguments_of("put", text[map_start.end() :]):
        pair = split_source(pair_source)
        if len(pair) == 2:
            values[unquoted(pair[0])] = _untyped(pair[1], "java")
    return values


def _arguments_of(name: str, text: str) -> list[str]:
    """Return the arguments of each call of ``add`` or ``put`` in the body of an initializer."""
    argument_texts: list[str] = []
    for call in split_source(text.rstrip("} \n\t"), ";"):
        if call.startswith(f"{name}(") and call.endswith(")"):
            argument_texts.append(call[len(name) + 1 : -1])
    return argument_texts


def _untyped(text: str, language: str) -> Any:
    """Parse a value for which the schema has no type: a truth value, a number, a list, an object or text."""
    if text in _BOOLEANS:
        return _BOOLEANS[text]
    for type_name in _NUMBERS_WITHOUT_TYPE[language]:
        value = _number_of(text, type_name)
        if not isinstance(value, str):
            return value
    if language == "javascript" and text.startswith("["):
        return convert(text, {"type": "array"}, language)
    if language == "javascript" and text.startswith("{"):
        return convert(text, {"type": "dict"}, language)
    return unquoted(text)
