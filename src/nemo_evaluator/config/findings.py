"""One wrong reference in a config, and how plain data is looked at to find it."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from nemo_evaluator.config._document import Path as Path
from nemo_evaluator.config._document import show_path


class Finding(NamedTuple):
    """One reference that is wrong."""

    path: Path
    message: str
    hint: str

    def __str__(self) -> str:
        return f"{show_path(self.path)}: {self.message} ({self.hint})"


def benchmarks_of(data: dict[str, Any]) -> Iterator[tuple[Path, dict[str, Any]]]:
    """The benchmarks of a config that are mappings, with their paths."""
    benchmarks = data.get("benchmarks")
    for number, benchmark in enumerate(benchmarks if isinstance(benchmarks, list) else []):
        if isinstance(benchmark, dict):
            yield ("benchmarks", number), benchmark


def get_in(data: Any, *keys: str) -> Any:
    """What stands under keys, one below the other; None where there is nothing."""
    for key in keys:
        data = data.get(key) if isinstance(data, dict) else None
    return data


def number_of(value: Any, default: int) -> int:
    """A whole number, also one that is written as text."""
    if isinstance(value, str) and value.isdigit() and len(value) < 10:
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else default
