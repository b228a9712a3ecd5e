"""YAML from others (results of containers and harnesses, tasks, settings): plain values of bounded size and depth.

Reading takes bounded time. Configs have a reader of their own, which knows line numbers.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import yaml

MAX_BYTES: Final = 50_000_000
MAX_DEPTH: Final = 100
MAX_NODES: Final = 1_000_000
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def load_yaml(data: bytes | str) -> Any:
    """The value of a YAML text.

    Raises:
        yaml.YAMLError: It is not YAML, is too large or nested too deeply with its aliases written out, or has a key
            twice, or a value that cannot be represented.
    """
    if len(data) > MAX_BYTES:
        raise yaml.YAMLError(f"too large ({len(data):,} bytes; at most {MAX_BYTES:,})")
    if isinstance(data, bytes):
        try:
            data = data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise yaml.YAMLError(f"not text in UTF-8 (byte {error.start})") from error
    _Sizes().check(yaml.parse(data, Loader=_LOADER))
    try:
        return yaml.load(data, Loader=_LOADER)  # noqa: S506 - a safe loader
    except (ValueError, OverflowError, TypeError) as error:
        # Integers of thousands of digits, dates such as 2024-99-99, mappings as keys.
        raise yaml.YAMLError(f"a value cannot be read: {str(error)[:200]}") from error


@dataclass(slots=True)
class _Open:
    """A list or mapping whose end was not read yet.

    Attributes:
        anchor: The name under which aliases may repeat it.
        nodes_before: How many nodes the text has before it.
        is_mapping: Whether it is a mapping.
        keys: The keys of the mapping so far.
        key_is_next: Whether the next node is a key, not a value.
        deepest: The deepest level inside, counted from the top of the text.
    """

    anchor: str | None
    nodes_before: int
    is_mapping: bool
    keys: set[str] = field(default_factory=set)
    key_is_next: bool = True
    deepest: int = 0


class _Size(NamedTuple):
    """How many nodes and how many levels an anchored value has, with its aliases written out."""

    nodes: int
    levels: int


_SCALAR: Final = _Size(1, 0)


def _refused(problem: str, event: Any) -> yaml.YAMLError:
    return yaml.MarkedYAMLError(problem=problem, problem_mark=event.start_mark)


class _Sizes:
    """Walks over the events of a text and counts as if every alias were written out."""

    def __init__(self) -> None:
        self._open: list[_Open] = []
        self._nodes = 0
        self._anchors: dict[str | None, _Size] = {}

    def check(self, events: Iterator[Any]) -> None:
        """Raise YAMLError at the first event that exceeds a limit."""
        for event in events:
            if isinstance(event, yaml.CollectionStartEvent):
                self._node(event)
                is_mapping = isinstance(event, yaml.MappingStartEvent)
                self._open.append(_Open(event.anchor, self._nodes - 1, is_mapping))
                self._level(event, 0)
            elif isinstance(event, yaml.CollectionEndEvent):
                self._close()
            elif isinstance(event, yaml.AliasEvent):
                if any(open_value.anchor == event.anchor for open_value in self._open):
                    raise _refused("an alias of itself", event)
                size = self._anchors.get(event.anchor, _SCALAR)
                self._node(event, size.nodes)
                self._level(event, size.levels)
            elif isinstance(event, yaml.ScalarEvent):
                self._node(event)
                if event.anchor:
                    self._anchors[event.anchor] = _SCALAR

    def _node(self, event: Any, nodes: int = 1) -> None:
        """Count a node, or the nodes of an alias; refuse a key that its mapping already has."""
        self._nodes += nodes
        if self._nodes > MAX_NODES:
            raise _refused(f"more than {MAX_NODES:,} values", event)
        parent = self._open[-1] if self._open else None
        if parent is None or not parent.is_mapping:
            return
        is_plain_key = parent.key_is_next and isinstance(event, yaml.ScalarEvent)
        if is_plain_key and event.value != "<<":
            if event.value in parent.keys:
                raise _refused(f"duplicate key {event.value[:80]!r}", event)
            parent.keys.add(event.value)
        parent.key_is_next = not parent.key_is_next

    def _level(self, event: Any, below: int) -> None:
        """Note a value with so many levels below it."""
        depth = len(self._open) + below
        if depth > MAX_DEPTH:
            raise _refused(f"more than {MAX_DEPTH} levels", event)
        for open_value in self._open:
            open_value.deepest = max(open_value.deepest, depth)

    def _close(self) -> None:
        closed_value = self._open.pop()
        if closed_value.anchor:
            nodes = self._nodes - closed_value.nodes_before
            levels = closed_value.deepest - len(self._open)
            self._anchors[closed_value.anchor] = _Size(nodes, levels)
