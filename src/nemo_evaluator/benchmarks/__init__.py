"""The built-in benchmarks: one file or folder each, named like the benchmark and imported when it is used."""

from functools import cache
from pkgutil import iter_modules


@cache
def builtin_names() -> frozenset[str]:
    """The names of the built-in benchmarks: the file names of this folder. Nothing is imported or read."""
    return frozenset(
        module.name for module in iter_modules(__path__) if not module.name.startswith("_")
    )
