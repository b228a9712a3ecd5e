"""Names of a package that load on first use, so that starting a command stays quick.

The ``__init__.pyi`` beside a package's ``__init__.py`` says which names there are and where they live, to type checkers
and to this module alike::

    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
"""

import importlib
import os
import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, cast

from nemo_evaluator.core.errors import MissingExtraError

_IMPORT: Final = re.compile(r"^from (\S+) import (\w+)", re.MULTILINE)
# ``import Name as Name`` and ``Name = Other`` are a package's own; a plain import is there for an alias.
_NAME: Final = re.compile(r"(?:\bas |^(?=\w+ = ))(\w+)(?: = (\w+))?$", re.MULTILINE)
_VALUE: Final = re.compile(r"^(\w+): ", re.MULTILINE)
_PLUGINS: Final = "PYDANTIC_DISABLE_PLUGINS"
_ENVIRONMENT: Final = threading.RLock()


def optional(module: str, *, extra: str, what: str = "") -> Any:
    """A library that need not be installed, loaded when it is asked for. Raises MissingExtraError with its extra."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtraError(what or module, extra=extra) from error


@contextmanager
def without_plugins() -> Iterator[None]:
    """Keep pydantic from reading the metadata of every installed package in search of plugins for its first schema."""
    # Schemas are built inside each other, and by several threads.
    with _ENVIRONMENT:
        before = os.environ.get(_PLUGINS)
        os.environ[_PLUGINS] = "__all__"
        try:
            yield
        finally:
            del os.environ[_PLUGINS]
            if before is not None:
                os.environ[_PLUGINS] = before


class Lazy:
    """Stands for a module, or what else ``load`` makes, which is loaded when something of it is first asked for."""

    def __init__(self, *given: Any, load: Callable[..., Any] = importlib.import_module) -> None:
        self._load, self._given = load, given

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._load(*self._given), name)
        setattr(self, name, found)
        return found


def lazy_pattern(text: str, flags: int = 0) -> re.Pattern[str]:
    """A regular expression that is compiled when it is first used: some cost a millisecond."""
    return cast("re.Pattern[str]", Lazy(text, flags, load=re.compile))


def lazy_names(package: str, file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """``__getattr__``, ``__dir__`` and ``__all__`` of a package whose names live in modules."""
    stub = Path(file).with_suffix(".pyi").read_text(encoding="utf-8")
    places = {inner: module for module, inner in _IMPORT.findall(stub)}
    homes = {name: (places[inner or name], inner or name) for name, inner in _NAME.findall(stub)}

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module, inner = homes[name]
        value = getattr(importlib.import_module(module), inner)
        setattr(sys.modules[package], name, value)
        return value

    names = sorted((*homes, *_VALUE.findall(stub)))
    return load, lambda: names, names
