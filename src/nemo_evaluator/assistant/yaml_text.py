"""Change values in the text of a YAML file; comments and layout are kept.

The YAML library parses the text into nodes, which know where they begin and end. A change then replaces, or inserts,
exactly these characters of the text.

YAML has two styles for a mapping or list. In flow style it is written with brackets (``{a: 1}``), and an entry ends at
a comma or bracket. In block style each entry has its own line.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import yaml

from nemo_evaluator.core.errors import UsageError

#: The value that a config has in place of one that the user has to give.
MISSING: Final = "???"
#: A key of a mapping, or an index of a list.
Key: TypeAlias = str | int
_Path: TypeAlias = tuple[Key, ...]
# The loader of libyaml, if available, builds the same nodes faster.
_LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
# Characters that end a text in flow style.
_FLOW_CHARACTERS: Final = frozenset("{}[],")
# Wide enough that the YAML library never breaks a line.
_UNLIMITED_WIDTH: Final = 10**9


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
    for path, scalar in _scalars(_parsed(text), ()):
        if scalar.value == MISSING:
            line = lines[scalar.start_mark.line]
            rest_of_line = line[scalar.end_mark.column :]
            _, _, comment = rest_of_line.partition("#")
            missing.append(MissingValue(path, hint=comment.strip()))
    return missing


def set_value(text: str, path: Sequence[Key], value: Any) -> str:
    """Change one value in a text, or add it if the path does not exist yet.

    Args:
        text: The YAML text.
        path: Keys and indices of the value.
        value: The new value.

    Returns:
        The changed text.

    Raises:
        UsageError: If the path leads into a plain value.
    """
    node = _parsed(text)
    for depth, key in enumerate(path):
        child = _child(node, key)
        if child is None:
            missing_keys = path[depth + 1 :]
            return _with_new_entry(text, node, key, value=_nested(missing_keys, value))
        node = child
    return _with_new_value(text, node, value)


def _parsed(text: str) -> Any:
    """Parse a text into nodes, and return the outermost; None for an empty text."""
    return yaml.compose(text, _LOADER)


def _scalars(node: Any, path: _Path) -> Iterator[tuple[_Path, yaml.ScalarNode]]:
    """Yield every plain value below a node, with its path."""
    if isinstance(node, yaml.ScalarNode):
        yield path, node
    elif isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            yield from _scalars(item, (*path, index))
    elif isinstance(node, yaml.MappingNode):
        for key_node, member in node.value:
            yield from _scalars(member, (*path, key_node.value))


def _child(node: Any, key: Key) -> Any:
    """Return the node under a key or index; None if there is none.

    Raises:
        UsageError: ``node`` is a plain value, or a list and ``key`` is not an index.
    """
    if isinstance(node, yaml.MappingNode):
        for key_node, member in node.value:
            if key_node.value == str(key):
                return member
        return None
    if isinstance(node, yaml.SequenceNode) and str(key).isdecimal():
        index = int(key)
        if index >= len(node.value):
            return None
        return node.value[index]
    hint = "give the path of a mapping, or of a list entry"
    raise UsageError(f"{key!r} cannot be set under a plain value", hint=hint)


def _nested(keys: Sequence[Key], value: Any) -> Any:
    """Wrap a value in one mapping for each key: ``(["a", "b"], 1)`` gives ``{"a": {"b": 1}}``."""
    for key in reversed(keys):
        value = {key: value}
    return value


def _with_new_value(text: str, node: Any, value: Any) -> str:
    """Replace the text of a node by a new value."""
    start = node.start_mark.index
    before = text[:start]
    if before.endswith(":"):
        # The node is empty: it starts right after its colon, which needs a space.
        before += " "
    return before + _flow_text(value) + text[_end(node) :]


def _with_new_entry(text: str, node: Any, key: Key, value: Any) -> str:
    """Add an entry at the end of a mapping or list.

    Args:
        text: The YAML text.
        node: The mapping or list.
        key: The key of the entry; unused for a list.
        value: The value of the entry.
    """
    if node.flow_style or not node.value:
        return _with_flow_entry(text, node, key, value=value)
    return _with_block_entry(text, node, key, value=value)


def _with_flow_entry(text: str, node: Any, key: Key, value: Any) -> str:
    """Add an entry before the closing bracket of a mapping or list; an empty one always has brackets."""
    entry = _flow_text(value)
    if not isinstance(node, yaml.SequenceNode):
        entry = f"{key}: {entry}"
    separator = ", " if node.value else ""
    bracket = node.end_mark.index - 1
    return f"{text[:bracket].rstrip()}{separator}{entry}{text[bracket:]}"


def _with_block_entry(text: str, node: Any, key: Key, value: Any) -> str:
    """Add an entry on a new line below the last entry of a mapping or list."""
    indent = " " * node.start_mark.column
    label = "-" if isinstance(node, yaml.SequenceNode) else f"{key}:"
    line = f"{indent}{label} {_block_text(value)}"
    end_of_line = _end_of_comments(text, _end(node), node.start_mark.column)
    return f"{text[:end_of_line]}\n{line}{text[end_of_line:]}"


def _end_of_comments(text: str, position: int, column: int) -> int:
    """Return the end of the line at a position, or of the comment lines below it that are indented deeper.

    Such comments belong to the value before them, for example entries of a list that are commented out.
    """
    end_of_line = _line_end(text, position)
    while end_of_line < len(text):
        next_end = _line_end(text, end_of_line + 1)
        next_line = text[end_of_line + 1 : next_end]
        content = next_line.lstrip(" ")
        if not content.startswith("#") or len(next_line) - len(content) <= column:
            break
        end_of_line = next_end
    return end_of_line


def _line_end(text: str, position: int) -> int:
    """Return the index of the end of the line at a position."""
    end = text.find("\n", position)
    return len(text) if end < 0 else end


def _end(node: Any) -> int:
    """Return the index where the text of a node ends.

    The node of a block ends where the next one starts, after blank lines and comments. Its last plain value ends
    before them.
    """
    is_block = not isinstance(node, yaml.ScalarNode) and not node.flow_style and node.value
    if not is_block:
        return int(node.end_mark.index)
    last_entry = node.value[-1]
    if isinstance(node, yaml.MappingNode):
        _, last_value = last_entry
        return _end(last_value)
    return _end(last_entry)


def _flow_text(value: Any) -> str:
    """Write a value on one line, in the form that is allowed inside brackets."""
    if isinstance(value, str) and not _FLOW_CHARACTERS.isdisjoint(value):
        return _json_text(value)
    return _block_text(value)


def _block_text(value: Any) -> str:
    """Write a value on one line; a mapping or list is written as JSON, which YAML can read."""
    if isinstance(value, dict | list):
        return _json_text(value)
    text = str(yaml.safe_dump(value, width=_UNLIMITED_WIDTH, allow_unicode=True))
    # The YAML library marks the end of a document that is a single plain value.
    return text.removesuffix("\n...\n").rstrip("\n")


def _json_text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
