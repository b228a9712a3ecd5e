"""Benchmarks whose rows come in parts (languages, tasks, subjects, categories): those that were asked for, chained."""

from collections.abc import Callable, Collection, Sequence
from typing import Any

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.datasets import ChainedRows, MappedRows, Rows, open_rows


def chained(
    asked: str | Sequence[str], part: Callable[[str], Rows], what: str = "", known: Collection[str] = ()
) -> Rows:
    """The rows of one part or of several, one after another; ``what`` names benchmark and kind of part in the error
    for a part that is not ``known``."""
    chosen = [asked] if isinstance(asked, str) else list(asked)
    unknown = [name for name in chosen if known and name not in known]
    if unknown:
        raise UsageError(f"{what} {unknown[0]!r}", hint=f"it has: {', '.join(known)}")
    return ChainedRows(part(name) for name in chosen)


def labelled(uri: str, **columns: Any) -> Rows:
    """The rows of a dataset, each with further columns."""
    return MappedRows(open_rows(uri), lambda row, idx: {**row, **columns})
