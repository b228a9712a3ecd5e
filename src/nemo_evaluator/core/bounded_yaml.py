"""YAML from others (results of containers and harnesses, tasks, settings): plain values of bounded size and depth, read
in bounded time. Configs have a reader of their own, which knows lines."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

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
    """A list or mapping whose end has not come yet."""

    anchor: str | None
    nodes_before: int
    is_mapping: bool
    keys: set[str] = field(default_factory=set)
    key_is_next: bool = True
    deepest: int = 0


def _refused(problem: str, event: Any) -> yaml.YAMLError:
    return yaml.MarkedYAMLError(problem=problem, problem_mark=event.start_mark)


class _Sizes:
    """Walks over the events of a text and counts as if every alias were written out."""

    def __init__(self) -> None:
        self._open: list[_Open] = []
        self._nodes = 0
        # How many nodes and how many levels stand behind an anchor.
        self._anchors: dict[str | None, tuple[int, int]] = {}

    def check(self, events: Iterator[Any]) -> None:
        """Raise YAMLError at the first event that is too much."""
        for event in events:
            if isinstance(event, yaml.CollectionStartEvent):
                self._node(event)
                is_mapping = isinstance(event, yaml.MappingStartEvent)
                self._open.append(_Open(event.anchor, self._nodes - 1, is_mapping))
                self._level(event, 0)
            elif isinstance(event, yaml.CollectionEndEvent):
                self._close()
            elif isinstance(event, yaml.AliasEvent):
                if any(opened.anchor == event.anchor for opened in self._open):
                    raise _refused("an alias of itself", event)
                nodes, levels = self._anchors.get(event.anchor, (1, 0))
                self._node(event, nodes)
                self._level(event, levels)
            elif isinstance(event, yaml.ScalarEvent):
                self._node(event)
                if event.anchor:
                    self._anchors[event.anchor] = (1, 0)

    def _node(self, event: Any, nodes: int = 1) -> None:
        self._nodes += nodes
        if self._nodes > MAX_NODES:
            raise _refused(f"more than {MAX_NODES:,} values", event)
        above = self._open[-1] if self._open else None
        if above is None or not above.is_mapping:
            return
        if above.key_is_next and isinstance(event, yaml.ScalarEvent) and event.value != "<<":
            if event.value in above.keys:
                problem = f"the key {event.value[:80]!r} is there twice"
                raise _refused(problem, event)
            above.keys.add(event.value)
        above.key_is_next = not above.key_is_next

    def _level(self, event: Any, below: int) -> None:
        depth = len(self._open) + below
        if depth > MAX_DEPTH:
            raise _refused(f"more than {MAX_DEPTH} levels", event)
        for opened in self._open:
            opened.deepest = max(opened.deepest, depth)

    def _close(self) -> None:
        closed = self._open.pop()
        if closed.anchor:
            self._anchors[closed.anchor] = (
                self._nodes - closed.nodes_before,
                closed.deepest - len(self._open),
            )
