"""``-O key=value``: one value of a composed config, changed from the command line."""

import copy
import re
from collections.abc import Iterable
from typing import Any

from nemo_evaluator.config._document import Document, Path, SourcePosition, show_path
from nemo_evaluator.config._yaml import NULLS, parse_document
from nemo_evaluator.core.errors import ConfigError, Problem
from nemo_evaluator.core.registry import nearest

_EXAMPLE = "write -O path.to.key=value, such as -O benchmarks.0.max_problems=10"
_PART = re.compile(r"(?:\\.|[^.\\])+")


def apply_overrides(document: Document, overrides: Iterable[str]) -> Document:
    """The document with every override applied, in order; all that are wrong are reported together."""
    changed = Document(copy.deepcopy(document.value), dict(document.marks))
    problems: list[Problem] = []
    for override in overrides:
        try:
            path, value = parse_override(override)
            _assign(changed, path, value, override=override)
        except ConfigError as error:
            problems.extend(error.problems)
    if problems:
        raise ConfigError(problems)
    return changed


def parse_override(override: str) -> tuple[list[str], Any]:
    """The path and the value of ``key=value``."""
    key, equals, text = override.partition("=")
    if not equals:
        raise _wrong(override, "has no =", _EXAMPLE)
    # The paths of error messages (`benchmarks[0].name`) can be pasted.
    dotted = re.sub(r"(?<!\\)\[(-?\d+)\]", r".\1", key.strip())
    parts = [re.sub(r"\\(.)", r"\1", part) for part in _PART.findall(dotted)]
    if not parts or dotted.strip(".") != dotted:
        raise _wrong(override, "has no key before the =", _EXAMPLE)
    return parts, parse_value(text, override)


def parse_value(text: str, override: str) -> Any:
    """Null, true and false, numbers, quoted strings, YAML lists and mappings; anything else is a string."""
    stripped = text.strip()
    if stripped and stripped in NULLS:
        return None
    if stripped.lower() in ("true", "false"):
        return stripped.lower() == "true"
    if stripped[:1] in ("[", "{", '"', "'"):
        try:
            return parse_document(stripped, "-O").value
        except ConfigError as error:
            why = error.problems[0].message.removeprefix("is not valid YAML: ")
            raise _wrong(
                override,
                f"cannot be parsed: {why}",
                "quote it for the shell: -O 'key=[a, \"b c\"]'",
            ) from None
    for kind in (int, float):
        try:
            number = kind(text)
        except (ValueError, OverflowError):
            continue
        # `nan` and `inf` are words here: no setting takes them as numbers.
        if number != number or number in (float("inf"), float("-inf")):
            return text
        return number
    return text


def _assign(document: Document, parts: list[str], value: Any, override: str) -> None:
    path: Path = ()
    place = document.value
    for part in parts[:-1]:
        key = _key(place, part, path, override=override)
        if isinstance(place, dict) and place.get(part) is None:
            place[part] = {}
        path = (*path, key)
        place = place[key]
    key = _key(place, parts[-1], path, override=override)
    place[key] = value
    path = (*path, key)
    for below in [known for known in document.marks if known[: len(path)] == path]:
        del document.marks[below]
    document.marks[path] = SourcePosition("-O " + override.partition("=")[0])


def _key(place: Any, part: str, path: Path, override: str) -> str | int:
    if isinstance(place, dict):
        return part
    if not isinstance(place, list):
        message = f"{show_path(path)} is a plain value; it has no keys"
        raise _wrong(override, message, f"set {show_path(path)} itself")
    if not re.fullmatch(r"-?\d{1,9}", part):
        hint = f"write {show_path(path)}.0 for the first entry"
        named: list[tuple[int, dict[Any, Any]]] = []
        for n, item in enumerate(place):
            if isinstance(item, dict) and "name" in item:
                named.append((n, item))
        numbers = {str(item["name"]): n for n, item in reversed(named)}
        close = nearest(part, list(numbers))
        if close:
            hint = f"{close!r} is {show_path((*path, numbers[close]))}"
        raise _wrong(override, f"{show_path(path)} is a list; {part!r} is not a number", hint)
    number = int(part)
    if not -len(place) <= number < len(place):
        if place:
            hint = f"the last one is {show_path((*path, len(place) - 1))}"
        else:
            hint = "the list is empty"
        raise _wrong(
            override, f"{show_path(path)} has {len(place)} entries; there is no {number}", hint
        )
    return number % len(place)


def _wrong(override: str, message: str, hint: str) -> ConfigError:
    # The value may be a secret: only the key is shown.
    return ConfigError([Problem(f"-O {override.partition('=')[0]}", message, hint)])
