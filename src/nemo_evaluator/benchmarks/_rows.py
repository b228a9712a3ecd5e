"""Rows of benchmarks: parts (languages, tasks, subjects) as asked for, chained; columns kept; options lettered."""

from collections.abc import Callable, Collection, Sequence
from typing import Final

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.datasets import ChainedRows, MappedRows, Rows, open_rows

LETTERS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def option_lines(options: Sequence[str]) -> str:
    """``A) ...`` one a line."""
    return "\n".join(f"{label}) {option}" for label, option in zip(LETTERS, options, strict=False))


def lettered(options: Sequence[str], right: int) -> JsonDict:
    """The columns of a row with options: their texts, their lines, and the letter of the right one."""
    return {"choices": options, "lines": option_lines(options), "target": LETTERS[right]}


def chained(
    asked: str | Sequence[str],
    part: Callable[[str], Rows],
    what: str = "",
    known: Collection[str] = (),
) -> Rows:
    """The rows of one part or of several, one after another; ``what`` names benchmark and kind of part in the error
    for a part that is not ``known``."""
    if isinstance(asked, str):
        chosen = [asked]
    else:
        chosen = list(asked)
    unknown = [name for name in chosen if known and name not in known]
    if unknown:
        raise UsageError(f"{what} {unknown[0]!r}", hint=f"it has: {', '.join(known)}")
    return ChainedRows(part(name) for name in chosen)


def configs(
    repo: str,
    column: str,
    asked: str | Sequence[str],
    split: str = "test",
    what: str = "",
    known: Collection[str] = (),
) -> Rows:
    """The rows of some configs of a hub dataset, one after another; ``column`` says which config a row is of."""

    def part(name: str) -> Rows:
        return MappedRows(
            open_rows(f"hf://{repo}?config={name}&split={split}"),
            lambda row, idx: {**row, column: name},
        )

    return chained(asked, part, what, known=known)


def kept(row: JsonDict, *columns: str) -> JsonDict:
    """These columns of a row, as they are."""
    return {column: row[column] for column in columns}
