"""Names of a package that load on first use, so that starting a command stays quick.

A package lists its public names twice, as pydantic does: in an ``if TYPE_CHECKING`` block for type checkers and
editors, and in the table of ``lazy_names`` for the interpreter. ``tests/test_public_names.py`` keeps the two equal.
"""

import importlib
import os
import re
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, cast

from nemo_evaluator.core.errors import MissingExtraError

_PLUGINS: Final = "PYDANTIC_DISABLE_PLUGINS"
_ENVIRONMENT: Final = threading.RLock()


def optional(module: str, *, extra: str, what: str = "") -> Any:
    """Import a library that need not be installed.

    Args:
        module: The module to import.
        extra: The extra that installs it.
        what: What messages call it; by default the module.

    Raises:
        MissingExtraError: It is not installed.
    """
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
    """A module, or another object that ``load`` returns, loaded when one of its attributes is first used."""

    def __init__(self, *arguments: Any, load: Callable[..., Any] = importlib.import_module) -> None:
        self._load = load
        self._arguments = arguments

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._load(*self._arguments), name)
        setattr(self, name, value)
        return value


def lazy_pattern(text: str, flags: int = 0) -> re.Pattern[str]:
    """A regular expression that is compiled when it is first used: some cost a millisecond."""
    return cast("re.Pattern[str]", Lazy(text, flags, load=re.compile))


def lazy_names(
    package: str, homes: Mapping[str, str], *, own: Sequence[str] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """The ``__getattr__``, ``__dir__`` and ``__all__`` of a package whose names live in modules.

    Args:
        package: The name of the package.
        homes: The module of each name, or ``module:other`` where the name stands for another one there.
        own: Public names that the package defines itself.

    Returns:
        Three objects, to be bound to those three names. ``__getattr__`` imports a module when one of its names is first
        used, and raises AttributeError for a name that is not in ``homes``.
    """

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module, _, inner_name = homes[name].partition(":")
        value = getattr(importlib.import_module(module), inner_name or name)
        setattr(sys.modules[package], name, value)
        return value

    public = sorted([*homes, *own])

    def names() -> list[str]:
        return public

    return load, names, public
