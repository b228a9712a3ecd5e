"""Helpers for the rows of benchmarks: chain parts such as languages or tasks, select columns, letter options."""

from collections.abc import Callable, Collection, Sequence
from typing import Final

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.datasets import ChainedRows, MappedRows, Rows, open_rows

# Begins the questions of MMLU on a passage that several questions share.
_ON_A_PASSAGE: Final = "refers to the following information"
# So much of a passage tells it apart; the question follows without a mark.
_PASSAGE_START: Final = 150
LETTERS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def option_lines(options: Sequence[str]) -> str:
    """Write the options one per line, each after its letter: ``A) ...``."""
    return "\n".join(f"{label}) {option}" for label, option in zip(LETTERS, options, strict=False))


def lettered(options: Sequence[str], right: int) -> JsonDict:
    """Make the columns of a multiple-choice row.

    Args:
        options: The texts of the options.
        right: The index of the right option.

    Returns:
        The texts (``choices``), the lettered lines (``lines``) and the letter of the right option (``target``).
    """
    return {"choices": options, "lines": option_lines(options), "target": LETTERS[right]}


def chained(
    asked: str | Sequence[str],
    part: Callable[[str], Rows],
    what: str = "",
    known: Collection[str] = (),
) -> Rows:
    """Chain the rows of one or several parts of a benchmark.

    Args:
        asked: The name of a part, or several names.
        part: Loads the rows of a part.
        what: The start of the error message for an unknown part: "BENCHMARK has no KIND".
        known: The names of all parts; empty if they are not checked.

    Raises:
        UsageError: A name is not among the known ones.
    """
    if isinstance(asked, str):
        part_names = [asked]
    else:
        part_names = list(asked)
    unknown_names = [name for name in part_names if known and name not in known]
    if unknown_names:
        raise UsageError(f"{what} {unknown_names[0]!r}", hint=f"it has: {', '.join(known)}")
    return ChainedRows(part(name) for name in part_names)


def configs(
    repo: str,
    column: str,
    asked: str | Sequence[str],
    split: str = "test",
    what: str = "",
    known: Collection[str] = (),
    *,
    number: str | None = None,
) -> Rows:
    """Chain the rows of one or several configurations of a dataset on the Hugging Face hub.

    Args:
        repo: The dataset.
        column: The column that receives the name of the row's configuration.
        asked: The name of a configuration, or several names.
        split: The split.
        what: The start of the error message for an unknown name.
        known: The names of all configurations; empty if they are not checked.
        number: The column that receives the row's number within its configuration; None for no such column.

    Raises:
        UsageError: A name is not among the known ones.
    """

    def part(name: str) -> Rows:
        """Load one configuration, with its name in the column."""

        def completed(row: JsonDict, idx: int) -> JsonDict:
            """Add the name, and the number if it is wanted."""
            numbered = {} if number is None else {number: idx}
            return {**row, column: name, **numbered}

        return MappedRows(open_rows(f"hf://{repo}?config={name}&split={split}"), completed)

    return chained(asked, part, what, known=known)


def shared_passage(row: JsonDict) -> str | None:
    """Return the beginning of the passage that a question of MMLU is about; None for a question without one."""
    introduction, mark, passage = row["question"].partition(_ON_A_PASSAGE)
    if not mark or len(introduction) > _PASSAGE_START:
        return None
    words = passage.lstrip(".: ").split()
    return " ".join(words)[:_PASSAGE_START]


def kept(row: JsonDict, *columns: str) -> JsonDict:
    """Select columns of a row."""
    return {column: row[column] for column in columns}
