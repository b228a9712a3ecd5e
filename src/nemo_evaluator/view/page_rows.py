"""Rows for the viewer's table: filters, order and counts, full-text search, and export to files."""

import csv
import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, cast

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.files import dumps, scrub_json
from nemo_evaluator.core.secrets import scrub
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.reports.data_formats import safe_cell
from nemo_evaluator.runs.calibration import read_draw
from nemo_evaluator.runs.folder import BenchmarkFolder
from nemo_evaluator.runs.index_piece import WORDS
from nemo_evaluator.runs.labels import Label, read_labels
from nemo_evaluator.runs.query import FLAGS, IndexedRow, Order, RowFilter, count, places, tally
from nemo_evaluator.runs.row import Row, shown
from nemo_evaluator.runs.row_file import RowReader
from nemo_evaluator.runs.row_filters import FILTERS, FilterDefinition

MOST: Final = 500
# Longer rows are listed without their texts; a search still reads them.
_LONG: Final = 1 << 20
_PEEK: Final = 160
_KNOWN: Final = ("reward", "cause", "category", "finish_reason", "tokens", "latency_ms", "cost_usd")
# How many bytes a search reads between two progress messages.
_STRIDE: Final = 16 << 20
KINDS: Final = {"jsonl": "application/x-ndjson", "csv": "text/csv"}
_COLUMNS: Final = (
    "problem_idx",
    "repeat",
    "status",
    "cause",
    "reward",
    "category",
    "finish_reason",
    "tokens",
)
_MORE: Final = (
    "latency_ms",
    "cost_usd",
    "truncated",
    "unparsed",
    "prompt",
    "response",
    "expected",
    "extracted",
)


@dataclass(frozen=True, slots=True)
class Wish:
    """A page's request for rows: a filter and an order of the index, and conditions that need the rows themselves."""

    which: RowFilter = field(default_factory=RowFilter)
    order: str = "problem_idx"
    text: str = ""
    place: str = "any"
    metadata: tuple[tuple[str, str], ...] = ()

    def fits(self, row: Row) -> bool:
        """Return whether a row contains the requested text and metadata."""
        searched_texts = {"prompt": (row.prompt,), "answer": (row.response,)}.get(
            self.place, (row.prompt, row.response)
        )
        if self.metadata:
            metadata_texts: dict[str, str] = {}
            for name, value in row.metadata.items():
                metadata_texts[name] = shown(value).lower()
        else:
            metadata_texts = {}
        has_text = not self.text or any(
            self.text.lower() in text.lower() for text in searched_texts
        )
        return has_text and all(
            name in metadata_texts and value.lower() in metadata_texts[name]
            for name, value in self.metadata
        )


def read_wish(query: Mapping[str, str], folder: BenchmarkFolder) -> Wish:
    """Parse the parameters of a URL.

    Raises:
        UsageError: A parameter is invalid.
    """
    parameters = {name: value for name, value in query.items() if value != ""}
    fields: dict[str, Any] = {}
    for definition in FILTERS:
        fields |= _filter_fields(definition, parameters)
    label = fields.pop("label", None)
    row_filter = _labelled(RowFilter(**fields), label, folder)
    metadata = tuple(
        (name[5:], value) for name, value in parameters.items() if name.startswith("meta.")
    )
    return Wish(
        row_filter,
        parameters.get("sort", "problem_idx"),
        parameters.get("text", ""),
        place=parameters.get("in", "any"),
        metadata=metadata,
    )


def _filter_fields(definition: FilterDefinition, given: Mapping[str, str]) -> dict[str, Any]:
    """Return the fields of ``RowFilter`` for one filter's parameters.

    Raises:
        UsageError: The value is not allowed.
    """
    if definition.kind == "range":
        bounds = (f"min_{definition.name}", f"max_{definition.name}")
        return {name: _parsed(float, given[name]) for name in bounds if name in given}
    if definition.name not in given:
        return {}
    value = given[definition.name]
    if definition.values and value not in definition.values:
        allowed_values = ", ".join(definition.values)
        raise UsageError(f"{definition.name} cannot be {value!r}", hint=f"known: {allowed_values}")
    if definition.kind == "number":
        return {definition.name: _parsed(int, value)}
    if definition.kind == "flag":
        return {definition.name: value == "1"}
    return {definition.name: value}


def _parsed(number: type[int] | type[float], text: str) -> float:
    """Parse a number.

    Raises:
        UsageError: The text is not a number.
    """
    try:
        return number(text)
    except ValueError as error:
        raise UsageError(f"not a number: {error}") from error


def _labelled(which: RowFilter, label: str | None, folder: BenchmarkFolder) -> RowFilter:
    """Restrict a filter to the rows that a label filter selects."""
    if label is None:
        return which
    if label == "drawn":
        return replace(which, among=drawn_rows(folder))
    labels = read_labels(folder.path)
    if label == "none":
        return replace(which, beyond=frozenset(labels))
    keys = (key for key, row_label in labels.items() if label in ("any", row_label.label))
    return replace(which, among=frozenset(keys))


def drawn_rows(folder: BenchmarkFolder) -> frozenset[tuple[int, int]]:
    """Return the rows that were drawn for labelling, by problem and repeat."""
    draw = read_draw(folder.path)
    if draw is None:
        return frozenset()
    return frozenset(row.key for row in draw.rows)


def page_of(folder: BenchmarkFolder, wish: Wish, offset: int, limit: int) -> JsonDict:
    """Return one page of rows, and the number of matching rows."""
    labels = read_labels(folder.path)
    with folder.reading() as (columns, reader):
        total = count(columns, wish.which)
        indexed_rows = places(
            columns, wish.which, cast(Order, wish.order), offset=offset, limit=min(limit, MOST)
        )
        return {
            "total": total,
            "rows": [
                listed(indexed_row, _short_row(reader, indexed_row), labels)
                for indexed_row in indexed_rows
            ],
        }


def facets(folder: BenchmarkFolder) -> JsonDict:
    """Return the choices for filters: the values of columns with their counts, and the names of metadata fields."""
    with folder.reading() as (columns, reader):
        values = {name: tally(columns, name) for name in WORDS}
        rows: list[Row | None] = []
        for indexed_row in places(columns, RowFilter(), "problem_idx", offset=0, limit=20):
            rows.append(_short_row(reader, indexed_row))
    names = dict.fromkeys(name for row in rows if row is not None for name in row.metadata)
    return {name: [entry[:2] for entry in entries] for name, entries in values.items()} | {
        "metadata": list(names)
    }


def search(folder: BenchmarkFolder, wish: Wish) -> Iterator[JsonDict | tuple[IndexedRow, Row]]:
    """Yield the matching rows in order of problems, and progress messages in between."""
    is_plain_text = (
        wish.text.isascii() and wish.text.isprintable() and not set(wish.text) & set('"\\/')
    )
    if wish.text and is_plain_text:
        needle = wish.text.lower().encode()
    else:
        needle = b""
    bytes_read = 0
    with folder.reading() as (columns, reader):
        total = count(columns, wish.which)
        for position, indexed_row in enumerate(
            places(columns, wish.which, "problem_idx", offset=0, limit=None)
        ):
            row_bytes = reader.raw(indexed_row) or b""
            bytes_read += len(row_bytes)
            if needle in row_bytes.lower() if needle else True:
                row = reader.row(indexed_row)
                if wish.fits(row):
                    yield indexed_row, row
            if bytes_read > _STRIDE:
                bytes_read = 0
                yield {"searched": position + 1, "of": total}
        yield {"searched": total, "of": total, "done": True}


def listed(place: IndexedRow, row: Row | None, labels: Mapping[tuple[int, int], Label]) -> JsonDict:
    """Return a row for the table, without texts if it is too long to read them."""
    label = labels.get(place.key)
    return {
        "problem_idx": place.key[0],
        "repeat": place.key[1],
        **{name: getattr(place, name) for name in _KNOWN},
        **{name: bool(place.flags & flag) for name, flag in FLAGS.items()},
        "label": label.label if label else "",
        "prompt": _peek(row.prompt) if row else f"(long row, {place.length / 2**20:,.1f} MB)",
        "answer": _peek(row.error if row.failed else row.response) if row else "",
        "extracted": _peek(row.extracted) if row else "",
        "expected": _peek(row.expected) if row else "",
        "metadata": {name: _peek(value) for name, value in row.metadata.items()} if row else {},
    }


def _short_row(reader: RowReader, place: IndexedRow) -> Row | None:
    """Return a row, or None if it is too long to list with its texts."""
    if reader.raw(place, _LONG) is None:
        return None
    return reader.row(place)


def _peek(value: Any) -> str:
    """Return the beginning of a value as one line of text."""
    return " ".join(shown(value)[: 4 * _PEEK].split())[:_PEEK]


def exported(folder: BenchmarkFolder, wish: Wish, kind: str) -> Iterator[bytes]:
    """Yield the requested rows in one of the formats in ``KINDS``, as pieces of a file."""
    labels = read_labels(folder.path)
    if kind == "csv":
        yield _line([*_COLUMNS, *_MORE, "label", "note", "who"])
    rows = _indexed_rows(folder, wish)
    if wish.text or wish.metadata:
        # Only the rows themselves tell which of them match.
        rows = (hit[1] for hit in search(folder, wish) if not isinstance(hit, dict))
    for row in rows:
        label = labels.get(row.key)
        if kind == "csv":
            label_cells = [label.label, label.note, label.who] if label else ["", "", ""]
            values = [getattr(row, name) for name in (*_COLUMNS, *_MORE)]
            texts = [shown(value) if isinstance(value, dict | list) else value for value in values]
            yield _line([safe_cell(value) for value in (*texts, *label_cells)])
        else:
            names = ("label", "note", "who", "when")
            if label:
                human_label = {"human": {name: getattr(label, name) for name in names}}
            else:
                human_label = {}
            yield scrub_json(dumps(row.data | human_label)) + b"\n"


def _indexed_rows(folder: BenchmarkFolder, wish: Wish) -> Iterator[Row]:
    """Yield the requested rows through the index, which has placeholders for rows that cannot be read."""
    with folder.reading() as (columns, reader):
        for indexed_row in places(columns, wish.which, cast(Order, wish.order)):
            yield reader.row(indexed_row)


def _line(cells: list[object]) -> bytes:
    """Return one line of a CSV file, without secrets."""
    buffer = io.StringIO()
    csv.writer(buffer).writerow(cells)
    return scrub(buffer.getvalue()).encode("utf-8", "replace")
