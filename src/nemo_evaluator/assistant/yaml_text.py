"""Changing values in the text of a YAML file: everything else, comments too, stays as it was written."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import yaml

from nemo_evaluator.core.errors import UsageError

MISSING: Final = "???"
Key = str | int
# That of libyaml where there is one: the same nodes, sooner.
_LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True, slots=True)
class MissingValue:
    """A value that the user has to give: where it stands, and what the comment beside it says."""

    path: tuple[Key, ...]
    hint: str

    @property
    def name(self) -> str:
        """The path as ``-O`` and ``--set`` take it."""
        return ".".join(map(str, self.path))


def missing_values(text: str) -> list[MissingValue]:
    """Every ``???`` of a file, in order."""
    lines = text.splitlines()
    found = []
    for path, node in _leaves(yaml.compose(text, _LOADER), ()):
        if node.value == MISSING:
            line = lines[node.start_mark.line][node.end_mark.column :]
            found.append(MissingValue(path, line.partition("#")[2].strip()))
    return found


def set_value(text: str, path: Sequence[Key], value: Any) -> str:
    """The text with one value changed, or added where its mapping or list has none of that name yet."""
    node = yaml.compose(text, _LOADER)
    for depth, key in enumerate(path):
        below = _child(node, key)
        if below is None:
            for name in reversed(path[depth + 1 :]):
                value = {name: value}
            return _add(text, node, key, value=value)
        node = below
    start = node.start_mark.index
    # An empty value has no width and stands right behind its colon.
    space = " " if start and text[start - 1] == ":" else ""
    return text[:start] + space + _written(value, flow=True) + text[_end(node) :]


def _leaves(node: Any, path: tuple[Key, ...]) -> Iterator[tuple[tuple[Key, ...], yaml.ScalarNode]]:
    if isinstance(node, yaml.ScalarNode):
        yield path, node
    elif isinstance(node, yaml.SequenceNode):
        for number, item in enumerate(node.value):
            yield from _leaves(item, (*path, number))
    elif isinstance(node, yaml.MappingNode):
        for key, item in node.value:
            yield from _leaves(item, (*path, key.value))


def _child(node: Any, key: Key) -> Any:
    if isinstance(node, yaml.MappingNode):
        return next((value for name, value in node.value if name.value == str(key)), None)
    if isinstance(node, yaml.SequenceNode) and str(key).isdecimal():
        if int(key) < len(node.value):
            return node.value[int(key)]
        return None
    hint = "give the path of a mapping, or of a list entry"
    raise UsageError(f"{key!r} cannot be set under a plain value", hint=hint)


def _add(text: str, node: Any, key: Key, value: Any) -> str:
    """A new entry at the end of a mapping or a list."""
    listed = isinstance(node, yaml.SequenceNode)
    flow = node.flow_style or not node.value
    if listed:
        entry = _written(value, flow=flow)
    else:
        entry = f"{key}: {_written(value, flow=flow)}"
    if flow:
        place = node.end_mark.index - 1
        return f"{text[:place].rstrip()}{', ' if node.value else ''}{entry}{text[place:]}"
    place = text.find("\n", _end(node))
    if place < 0:
        place = len(text)
    else:
        place = place
    return f"{text[:place]}\n{' ' * node.start_mark.column}{'- ' if listed else ''}{entry}{text[place:]}"


def _end(node: Any) -> int:
    """Where a value ends; that of a block is the end of its last leaf, not the comments after it."""
    if isinstance(node, yaml.ScalarNode) or node.flow_style or not node.value:
        return int(node.end_mark.index)
    last = node.value[-1]
    return _end(last[1] if isinstance(node, yaml.MappingNode) else last)


def _written(value: Any, *, flow: bool = False) -> str:
    """A value on one line. Text is quoted where it stands inside braces, and where YAML needs it."""
    if isinstance(value, dict | list) or (
        flow and isinstance(value, str) and any(c in value for c in "{}[],")
    ):
        return json.dumps(value, ensure_ascii=False)
    text = str(yaml.safe_dump(value, width=10**9, allow_unicode=True))
    return text.removesuffix("\n...\n").rstrip("\n")
