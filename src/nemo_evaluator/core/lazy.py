"""Names of a package that load on first use, so that starting a command stays quick.

::

    __getattr__, __dir__, __all__ = lazy_names(__name__, {"client": ("Client",), "types": ("Send", "ModelReply")})
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any


def lazy_names(
    package: str, modules: Mapping[str, Iterable[str]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """``__getattr__``, ``__dir__`` and ``__all__`` of a package whose names live in modules.

    A module is named within the package, or by its whole name; ``"Name=Other"`` gives what it calls Other as Name.
    """
    homes = {
        name: (module if "." in module else f"{package}.{module}", inner or name)
        for module, names in modules.items()
        for name, _, inner in (entry.partition("=") for entry in names)
    }

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module, inner = homes[name]
        value = getattr(importlib.import_module(module), inner)
        setattr(sys.modules[package], name, value)
        return value

    names = sorted(homes)
    return load, lambda: names, names
