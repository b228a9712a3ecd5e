"""``-O key=value``: changes single values of a composed config from the command line."""

import copy
import math
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
    """Return the document with every override applied, in order.

    Raises:
        ConfigError: With all overrides that are wrong.
    """
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
    """Split ``key=value``.

    Returns:
        The keys and indices of the path, as text, and the value.

    Raises:
        ConfigError: If there is no ``=``, no key, or an invalid value.
    """
    key, equals, text = override.partition("=")
    if not equals:
        raise _wrong(override, "has no =", _EXAMPLE)
    # The paths of error messages (`benchmarks[0].name`) can be pasted.
    dotted_path = re.sub(r"(?<!\\)\[(-?\d+)\]", r".\1", key.strip())
    escaped_parts = _PART.findall(dotted_path)
    if not escaped_parts or dotted_path.strip(".") != dotted_path:
        raise _wrong(override, "has no key before the =", _EXAMPLE)
    keys = [re.sub(r"\\(.)", r"\1", part) for part in escaped_parts]
    return keys, parse_value(text, override)


def parse_value(text: str, override: str) -> Any:
    """Parse the value of an override.

    Args:
        text: What follows the ``=``: null, true, false, a number, a quoted string, or a YAML list or mapping.
            Anything else is a string.
        override: The whole override, for the error.

    Raises:
        ConfigError: If a quoted string, list or mapping is not valid YAML.
    """
    stripped = text.strip()
    if stripped and stripped in NULLS:
        return None
    if stripped.lower() in ("true", "false"):
        return stripped.lower() == "true"
    if stripped[:1] in ("[", "{", '"', "'"):
        return _parse_yaml(stripped, override)
    return _parse_number(text)


def _parse_yaml(text: str, override: str) -> Any:
    try:
        return parse_document(text, "-O").value
    except ConfigError as error:
        reason = error.problems[0].message.removeprefix("is not valid YAML: ")
        hint = "quote it for the shell: -O 'key=[a, \"b c\"]'"
        raise _wrong(override, f"cannot be parsed: {reason}", hint) from None


def _parse_number(text: str) -> int | float | str:
    """Return the number in a text, or the text itself if it is not a number."""
    try:
        return int(text)
    except ValueError:
        pass
    try:
        number = float(text)
    except ValueError:
        return text
    # No setting accepts `nan` or `inf` as a number, so they stay text.
    return number if math.isfinite(number) else text


def _assign(document: Document, parts: list[str], value: Any, override: str) -> None:
    """Set the value at the path in the document, creating the mappings on the way."""
    path: Path = ()
    container = document.value
    for part in parts[:-1]:
        key = _key_in(container, part, path, override=override)
        if isinstance(container, dict) and container.get(part) is None:
            container[part] = {}
        path = (*path, key)
        container = container[key]
    last_key = _key_in(container, parts[-1], path, override=override)
    container[last_key] = value
    path = (*path, last_key)
    for marked_path in list(document.marks):
        if marked_path[: len(path)] == path:
            del document.marks[marked_path]
    document.marks[path] = SourcePosition("-O " + override.partition("=")[0])


def _key_in(container: Any, part: str, path: Path, override: str) -> str | int:
    """Return the key or index that a part of the path means in the container at ``path``."""
    if isinstance(container, dict):
        return part
    container_path = show_path(path)
    if not isinstance(container, list):
        raise _wrong(
            override,
            f"{container_path} is a plain value; it has no keys",
            f"set {container_path} itself",
        )
    if not re.fullmatch(r"-?\d{1,9}", part):
        message = f"{container_path} is a list; {part!r} is not a number"
        raise _wrong(override, message, _index_hint(container, part, path))
    index = int(part)
    if not -len(container) <= index < len(container):
        hint = "the list is empty"
        if container:
            hint = f"the last one is {show_path((*path, len(container) - 1))}"
        message = f"{container_path} has {len(container)} entries; there is no {index}"
        raise _wrong(override, message, hint)
    return index % len(container)


def _index_hint(entries: list[Any], part: str, path: Path) -> str:
    """Return a hint for a name that is used where a list index is needed."""
    indices: dict[str, int] = {}
    for index, entry in enumerate(entries):
        if isinstance(entry, dict) and "name" in entry:
            indices.setdefault(str(entry["name"]), index)
    similar_name = nearest(part, list(reversed(indices)))
    if similar_name:
        return f"{similar_name!r} is {show_path((*path, indices[similar_name]))}"
    return f"write {show_path(path)}.0 for the first entry"


def _wrong(override: str, message: str, hint: str) -> ConfigError:
    # The message shows only the key, because the value may be a secret.
    return ConfigError([Problem(f"-O {override.partition('=')[0]}", message, hint)])
