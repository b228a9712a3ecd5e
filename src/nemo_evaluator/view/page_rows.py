"""Rows for the viewer's table: one page of them, the choices for filters, and full-text search."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from nemo_evaluator.runs.folder import BenchmarkFolder
from nemo_evaluator.runs.labels import Label, read_labels
from nemo_evaluator.runs.query import FLAGS, IndexedRow, Order, RowFilter, count, places, tally
from nemo_evaluator.runs.row import Row, shown
from nemo_evaluator.runs.row_file import RowReader
from nemo_evaluator.view.row_query import RowQuery

MOST: Final = 500
# Longer rows are listed without their texts; a search still reads them.
_LONG: Final = 1 << 20
_PREVIEW: Final = 160
# The number of rows whose metadata fields are offered as filters.
_SAMPLED: Final = 20
# How many bytes a search reads between two progress messages.
_STRIDE: Final = 16 << 20

RowKey = tuple[int, int]


@dataclass(frozen=True, slots=True)
class ListedRow:
    """A row of the viewer's table; the texts are previews, and empty for a row that is too long to read for a list."""

    problem_idx: int
    repeat: int
    reward: float | None
    cause: str | None
    category: str | None
    finish_reason: str | None
    tokens: int | None
    latency_ms: float | None
    cost_usd: float | None
    truncated: bool
    unparsed: bool
    refused: bool
    tripped: bool
    label: str
    prompt: str
    answer: str
    extracted: str
    expected: str
    metadata: dict[str, str]


@dataclass(frozen=True, slots=True)
class TablePage:
    """One page of the table, and the number of all matching rows."""

    total: int
    rows: list[ListedRow]


@dataclass(frozen=True, slots=True)
class FilterChoices:
    """The choices for filters: the values of three columns with their counts, and the names of metadata fields."""

    cause: list[tuple[str, int]]
    category: list[tuple[str, int]]
    finish_reason: list[tuple[str, int]]
    metadata: list[str]


@dataclass(frozen=True, slots=True)
class RowMatch:
    """A row that a search found."""

    indexed_row: IndexedRow
    row: Row


@dataclass(frozen=True, slots=True)
class SearchProgress:
    """How many of the rows a search has read."""

    searched: int
    of: int
    done: bool = False


@dataclass(frozen=True, slots=True)
class _RowTexts:
    """The texts of a row in the table."""

    prompt: str = ""
    answer: str = ""
    extracted: str = ""
    expected: str = ""


def table_page(folder: BenchmarkFolder, query: RowQuery, offset: int, limit: int) -> TablePage:
    """Return one page of the matching rows, at most ``MOST``."""
    labels = read_labels(folder.path)
    rows: list[ListedRow] = []
    with folder.reading() as (columns, reader):
        total = count(columns, query.row_filter)
        order = cast(Order, query.order)
        size = min(limit, MOST)
        for indexed_row in places(
            columns, query.row_filter, order=order, offset=offset, limit=size
        ):
            rows.append(listed_row(indexed_row, _short_row(reader, indexed_row), labels))
    return TablePage(total, rows)


def facets(folder: BenchmarkFolder) -> FilterChoices:
    """Return the choices for filters."""
    metadata_names: dict[str, None] = {}
    with folder.reading() as (columns, reader):
        causes = [(cause, rows) for cause, rows, _ in tally(columns, "cause")]
        categories = [(category, rows) for category, rows, _ in tally(columns, "category")]
        finish_reasons = [(reason, rows) for reason, rows, _ in tally(columns, "finish_reason")]
        for indexed_row in places(columns, RowFilter(), "problem_idx", limit=_SAMPLED):
            row = _short_row(reader, indexed_row)
            if row is not None:
                metadata_names |= dict.fromkeys(row.metadata)
    return FilterChoices(
        cause=causes,
        category=categories,
        finish_reason=finish_reasons,
        metadata=list(metadata_names),
    )


def search(folder: BenchmarkFolder, query: RowQuery) -> Iterator[RowMatch | SearchProgress]:
    """Yield the matching rows in order of problems, and how far the search is in between and at the end."""
    # Most rows are skipped by their raw bytes, without parsing them.
    needle = query.raw_needle()
    unreported_bytes = 0
    with folder.reading() as (columns, reader):
        total = count(columns, query.row_filter)
        indexed_rows = places(columns, query.row_filter, "problem_idx")
        for position, indexed_row in enumerate(indexed_rows, start=1):
            row_bytes = reader.raw(indexed_row) or b""
            unreported_bytes += len(row_bytes)
            if needle is None or needle in row_bytes.lower():
                row = reader.row(indexed_row)
                if query.matches(row):
                    yield RowMatch(indexed_row, row)
            if unreported_bytes > _STRIDE:
                unreported_bytes = 0
                yield SearchProgress(searched=position, of=total)
        yield SearchProgress(searched=total, of=total, done=True)


def listed_row(
    indexed_row: IndexedRow, row: Row | None, labels: Mapping[RowKey, Label]
) -> ListedRow:
    """Return a row for the table.

    Args:
        indexed_row: The indexed fields of the row.
        row: The row itself; None if it is too long to read for a list.
        labels: The labels of the benchmark.
    """
    problem, repeat = indexed_row.key
    label = labels.get(indexed_row.key)
    texts = _texts(indexed_row, row)
    metadata: dict[str, str] = {}
    if row is not None:
        metadata = {name: _preview(value) for name, value in row.metadata.items()}
    return ListedRow(
        problem_idx=problem,
        repeat=repeat,
        reward=indexed_row.reward,
        cause=indexed_row.cause,
        category=indexed_row.category,
        finish_reason=indexed_row.finish_reason,
        tokens=indexed_row.tokens,
        latency_ms=indexed_row.latency_ms,
        cost_usd=indexed_row.cost_usd,
        truncated=_has_flag(indexed_row, "truncated"),
        unparsed=_has_flag(indexed_row, "unparsed"),
        refused=_has_flag(indexed_row, "refused"),
        tripped=_has_flag(indexed_row, "tripped"),
        label="" if label is None else label.label,
        prompt=texts.prompt,
        answer=texts.answer,
        extracted=texts.extracted,
        expected=texts.expected,
        metadata=metadata,
    )


def _has_flag(indexed_row: IndexedRow, name: str) -> bool:
    """Return whether a row has a flag of the index."""
    return bool(indexed_row.flags & FLAGS[name])


def _texts(indexed_row: IndexedRow, row: Row | None) -> _RowTexts:
    """Return previews of a row's texts; for a failed row the error is in place of the answer."""
    if row is None:
        return _RowTexts(prompt=f"(long row, {indexed_row.length / 2**20:,.1f} MB)")
    answer = row.error if row.failed else row.response
    return _RowTexts(
        prompt=_preview(row.prompt),
        answer=_preview(answer),
        extracted=_preview(row.extracted),
        expected=_preview(row.expected),
    )


def _short_row(reader: RowReader, indexed_row: IndexedRow) -> Row | None:
    """Return a row, or None if it is too long to list with its texts."""
    if reader.raw(indexed_row, _LONG) is None:
        return None
    return reader.row(indexed_row)


def _preview(value: Any) -> str:
    """Return the beginning of a value as one line of text."""
    beginning = shown(value)[: 4 * _PREVIEW]
    one_line = " ".join(beginning.split())
    return one_line[:_PREVIEW]
