"""The built-in benchmarks: one file or folder each, named like the benchmark and imported when it is used."""

from functools import cache
from pkgutil import iter_modules


@cache
def builtin_names() -> frozenset[str]:
    """Return the names of the built-in benchmarks: the module names of this package, which are not imported."""
    return frozenset(
        module.name for module in iter_modules(__path__) if not module.name.startswith("_")
    )
