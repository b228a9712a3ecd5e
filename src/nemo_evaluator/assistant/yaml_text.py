"""Change values in the text of a YAML file; comments and layout are kept."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import yaml

from nemo_evaluator.core.errors import UsageError

MISSING: Final = "???"
Key = str | int
# The loader of libyaml, if available, builds the same nodes faster.
_LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True, slots=True)
class MissingValue:
    """A value that the user has to give: its path, and the comment on its line as a hint."""

    path: tuple[Key, ...]
    hint: str

    @property
    def name(self) -> str:
        """The dotted path, as ``-O`` and ``--set`` take it."""
        return ".".join(map(str, self.path))


def missing_values(text: str) -> list[MissingValue]:
    """List every ``???`` of a YAML text, in order."""
    lines = text.splitlines()
    missing: list[MissingValue] = []
    for path, node in _leaves(yaml.compose(text, _LOADER), ()):
        if node.value == MISSING:
            rest_of_line = lines[node.start_mark.line][node.end_mark.column :]
            missing.append(MissingValue(path, rest_of_line.partition("#")[2].strip()))
    return missing


def set_value(text: str, path: Sequence[Key], value: Any) -> str:
    """Change one value in a text, or add it if the path does not exist yet.

    Args:
        text: The YAML text.
        path: Keys and indices of the value.
        value: The new value.

    Raises:
        UsageError: If the path leads into a plain value.
    """
    node = yaml.compose(text, _LOADER)
    for depth, key in enumerate(path):
        child = _child(node, key)
        if child is None:
            for missing_key in reversed(path[depth + 1 :]):
                value = {missing_key: value}
            return _add(text, node, key, value=value)
        node = child
    start = node.start_mark.index
    # An empty value has no width and starts right after its colon.
    space = " " if start and text[start - 1] == ":" else ""
    return text[:start] + space + _written(value, flow=True) + text[_end(node) :]


def _leaves(node: Any, path: tuple[Key, ...]) -> Iterator[tuple[tuple[Key, ...], yaml.ScalarNode]]:
    """Yield every scalar below a node, with its path."""
    if isinstance(node, yaml.ScalarNode):
        yield path, node
    elif isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            yield from _leaves(item, (*path, index))
    elif isinstance(node, yaml.MappingNode):
        for key, item in node.value:
            yield from _leaves(item, (*path, key.value))


def _child(node: Any, key: Key) -> Any:
    """Return the node under a key or index; None if there is none."""
    if isinstance(node, yaml.MappingNode):
        return next((child for key_node, child in node.value if key_node.value == str(key)), None)
    if isinstance(node, yaml.SequenceNode) and str(key).isdecimal():
        if int(key) < len(node.value):
            return node.value[int(key)]
        return None
    hint = "give the path of a mapping, or of a list entry"
    raise UsageError(f"{key!r} cannot be set under a plain value", hint=hint)


def _add(text: str, node: Any, key: Key, value: Any) -> str:
    """Add an entry at the end of the mapping or list ``node``."""
    is_list = isinstance(node, yaml.SequenceNode)
    flow = node.flow_style or not node.value
    entry = _written(value, flow=flow)
    if not is_list:
        entry = f"{key}: {entry}"
    if flow:
        end = node.end_mark.index - 1
        separator = ", " if node.value else ""
        return f"{text[:end].rstrip()}{separator}{entry}{text[end:]}"
    end = text.find("\n", _end(node))
    if end < 0:
        end = len(text)
    indent = " " * node.start_mark.column
    dash = "- " if is_list else ""
    return f"{text[:end]}\n{indent}{dash}{entry}{text[end:]}"


def _end(node: Any) -> int:
    """The index where a value ends; for a block, the end of its last leaf, not the comments after it."""
    if isinstance(node, yaml.ScalarNode) or node.flow_style or not node.value:
        return int(node.end_mark.index)
    last = node.value[-1]
    return _end(last[1] if isinstance(node, yaml.MappingNode) else last)


def _written(value: Any, *, flow: bool = False) -> str:
    """Write a value on one line; text inside braces (``flow``) is quoted if it contains one of ``{}[],``."""
    if isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False)
    if flow and isinstance(value, str) and not set(value).isdisjoint("{}[],"):
        return json.dumps(value, ensure_ascii=False)
    text = str(yaml.safe_dump(value, width=10**9, allow_unicode=True))
    return text.removesuffix("\n...\n").rstrip("\n")
