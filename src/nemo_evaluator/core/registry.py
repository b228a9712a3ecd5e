"""One generic registry: lazy targets, entry points, "did you mean" on a miss, an error on a collision."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Iterator
from typing import Any, Generic, TypeVar, cast

from nemo_evaluator.core.errors import UsageError

T = TypeVar("T")


def nearest(word: str, words: list[str]) -> str | None:
    """The closest of ``words`` to ``word``, if one is close."""
    found = difflib.get_close_matches(word.lower(), words, n=1, cutoff=0.6)
    return found[0] if found else None


def load_object(target: str) -> Any:
    """Import ``package.module:attribute`` (or ``package.module.attribute``)."""
    module, _, attribute = target.partition(":") if ":" in target else target.rpartition(".")
    if not module or not attribute:
        raise UsageError(f"{target!r} does not name an object", hint="write it as package.module:Name")
    try:
        loaded = importlib.import_module(module)
    except ImportError as error:
        raise UsageError(
            f"cannot import {module!r}: {error}", hint="is the package installed, and on PYTHONPATH?"
        ) from error
    value: Any = loaded
    for part in attribute.split("."):
        if not hasattr(value, part):
            raise UsageError(f"{module!r} has no attribute {attribute!r}")
        value = getattr(value, part)
    return value


class Registry(Generic[T]):
    """Names to things of one kind.

    A target is the thing itself, or ``"package.module:Name"``, imported on first use. Third parties add
    theirs through the entry-point group given as ``group``.
    """

    def __init__(self, kind: str, *, group: str | None = None) -> None:
        self.kind = kind
        self._group = group
        self._targets: dict[str, T | str] = {}
        self._scanned = group is None

    def add(self, name: str, target: T | str, *, replace: bool = False) -> None:
        """Register ``target`` as ``name``; a taken name is an error unless ``replace``."""
        taken = self._targets.get(name)
        if taken is not None and taken != target and not replace:
            raise UsageError(f"{self.kind} {name!r} is registered twice", hint="rename one of the two")
        self._targets[name] = target

    def get(self, name: str) -> T:
        """The thing called ``name``, imported if need be."""
        if name not in self._targets:
            self._scan()
        if name not in self._targets:
            close = nearest(name, self.names())
            hint = f"did you mean {close!r}?" if close else f"known: {', '.join(self.names()) or 'none'}"
            raise UsageError(f"unknown {self.kind} {name!r}", hint=hint)
        target = self._targets[name]
        if isinstance(target, str):
            target = cast(T, load_object(target))
            self._targets[name] = target
        return target

    def names(self) -> list[str]:
        """All names, sorted."""
        self._scan()
        return sorted(self._targets)

    def knows(self, name: str) -> bool:
        """True when a name was added in this process; entry points are not looked at."""
        return name in self._targets

    def __contains__(self, name: object) -> bool:
        if name in self._targets:
            return True
        self._scan()
        return name in self._targets

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def _scan(self) -> None:
        if self._scanned or self._group is None:
            return
        self._scanned = True
        from importlib.metadata import entry_points  # noqa: PLC0415 - a heavy module, needed on a miss only

        for point in entry_points(group=self._group):
            self.add(point.name, point.value)
