"""A parsed config, with the source position of each of its parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from nemo_evaluator.core.errors import ConfigError, Problem
from nemo_evaluator.core.values import dataclass, field

Path: TypeAlias = tuple[str | int, ...]
WHOLE_FILE = "(whole file)"


@dataclass(frozen=True, slots=True)
class SourcePosition:
    """A file and line; without a line for a value from the command line."""

    source: str
    line: int | None = None


@dataclass(slots=True)
class Document:
    """A value, and the source positions of its parts by path."""

    value: Any
    marks: dict[Path, SourcePosition] = field(default_factory=dict)

    def mark(self, path: Path) -> SourcePosition | None:
        """Return where the part at ``path`` was written, or else the nearest part that contains it."""
        for end in range(len(path), -1, -1):
            mark = self.marks.get(path[:end])
            if mark is not None:
                return mark
        return None

    def problem(self, path: Path, message: str, hint: str | None = None) -> Problem:
        """Return a problem at ``path``, with its source position."""
        mark = self.mark(path)
        return Problem(
            show_path(path),
            message,
            hint,
            line=mark.line if mark else None,
            source=mark.source if mark else None,
        )

    def error(self, path: Path, message: str, hint: str, source: object = None) -> ConfigError:
        """Return an error with one problem at ``path``, for the file ``source``."""
        return ConfigError(
            [self.problem(path, message, hint)], source=str(source) if source else None
        )

    def under(self, key: str) -> Document:
        """Return this document as the value of ``key`` in a larger one."""
        return Document(
            {key: self.value}, {(key, *path): mark for path, mark in self.marks.items()}
        )

    def over(self, base: Document) -> Document:
        """Merge this document over ``base``: mappings are merged, all other values replaced."""
        return Document(deep_merge(base.value, self.value), {**base.marks, **self.marks})


def show_path(path: Path) -> str:
    """Write a path as errors show it: ``benchmarks[0].solver.service``."""
    text = ""
    for key in path:
        if isinstance(key, int):
            text += f"[{key}]"
        elif not key or "." in key:
            text += f'."{key}"'
        else:
            text += f".{key}"
    return text.removeprefix(".") or WHOLE_FILE


def map_texts(value: Any, change: Callable[[str, Path], Any], path: Path = ()) -> Any:
    """Copy a value with every text in it replaced by ``change(text, path)``."""
    if isinstance(value, dict):
        return {key: map_texts(item, change, (*path, key)) for key, item in value.items()}
    if isinstance(value, list):
        return [map_texts(item, change, (*path, index)) for index, item in enumerate(value)]
    if isinstance(value, str):
        return change(value, path)
    return value


def deep_merge(base: Any, over: Any) -> Any:
    """Merge mappings key by key; any other value in ``over`` replaces the one in ``base``."""
    if not isinstance(base, dict) or not isinstance(over, dict):
        return over
    merged = dict(base)
    for key, value in over.items():
        if key in base:
            merged[key] = deep_merge(base[key], value)
        else:
            merged[key] = value
    return merged


def prune_nulls(value: Any) -> Any:
    """Remove keys whose value is null, except inside lists, where a null may override a default."""
    if isinstance(value, dict):
        return {key: prune_nulls(item) for key, item in value.items() if item is not None}
    return value
