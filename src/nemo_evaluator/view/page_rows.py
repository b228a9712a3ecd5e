"""Rows as the table shows them: which, in which order, how many; the search through their texts, and rows as files."""

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
# Rows longer than this are listed without their texts; a search still reads them.
_LONG: Final = 1 << 20
_PEEK: Final = 160
_KNOWN: Final = ("reward", "cause", "category", "finish_reason", "tokens", "latency_ms", "cost_usd")
# How many bytes a search reads before it says how far it is.
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
    """What a page asks for: a filter of the index, an order, and what only the rows themselves can tell."""

    which: RowFilter = field(default_factory=RowFilter)
    order: str = "problem_idx"
    text: str = ""
    place: str = "any"
    metadata: tuple[tuple[str, str], ...] = ()

    def fits(self, row: Row) -> bool:
        """Whether a row has the text and the metadata that are asked for."""
        said = {"prompt": (row.prompt,), "answer": (row.response,)}.get(
            self.place, (row.prompt, row.response)
        )
        if self.metadata:
            held: dict[str, str] = {}
            for name, value in row.metadata.items():
                held[name] = shown(value).lower()
        else:
            held = {}
        found = not self.text or any(self.text.lower() in text.lower() for text in said)
        return found and all(
            name in held and value.lower() in held[name] for name, value in self.metadata
        )


def read_wish(query: Mapping[str, str], folder: BenchmarkFolder) -> Wish:
    """The wish in the parameters of a URL. Raises UsageError for what is none."""
    given = {name: value for name, value in query.items() if value != ""}
    fields: dict[str, Any] = {}
    for definition in FILTERS:
        fields |= _filter_fields(definition, given)
    label = fields.pop("label", None)
    which = _labelled(RowFilter(**fields), label, folder)
    metadata = tuple((name[5:], value) for name, value in given.items() if name.startswith("meta."))
    return Wish(
        which,
        given.get("sort", "problem_idx"),
        given.get("text", ""),
        place=given.get("in", "any"),
        metadata=metadata,
    )


def _filter_fields(definition: FilterDefinition, given: Mapping[str, str]) -> dict[str, Any]:
    """What a filter's parameters say, as fields of ``RowFilter``. Raises UsageError for a value that is not known."""
    if definition.kind == "range":
        bounds = (f"min_{definition.name}", f"max_{definition.name}")
        return {name: _parsed(float, given[name]) for name in bounds if name in given}
    if definition.name not in given:
        return {}
    value = given[definition.name]
    if definition.values and value not in definition.values:
        known = ", ".join(definition.values)
        raise UsageError(f"{definition.name} cannot be {value!r}", hint=f"known: {known}")
    if definition.kind == "number":
        return {definition.name: _parsed(int, value)}
    if definition.kind == "flag":
        return {definition.name: value == "1"}
    return {definition.name: value}


def _parsed(number: type[int] | type[float], text: str) -> float:
    try:
        return number(text)
    except ValueError as error:
        raise UsageError(f"not a number: {error}") from error


def _labelled(which: RowFilter, label: str | None, folder: BenchmarkFolder) -> RowFilter:
    if label is None:
        return which
    if label == "drawn":
        return replace(which, among=drawn_rows(folder))
    found = read_labels(folder.path)
    if label == "none":
        return replace(which, beyond=frozenset(found))
    keys = (key for key, one in found.items() if label in ("any", one.label))
    return replace(which, among=frozenset(keys))


def drawn_rows(folder: BenchmarkFolder) -> frozenset[tuple[int, int]]:
    """The rows that were drawn to be labelled, by problem and repeat."""
    draw = read_draw(folder.path)
    if draw is None:
        return frozenset()
    return frozenset(row.key for row in draw.rows)


def page_of(folder: BenchmarkFolder, wish: Wish, offset: int, limit: int) -> JsonDict:
    """One page of rows, and how many there are of that wish."""
    labels = read_labels(folder.path)
    with folder.reading() as (columns, reader):
        total = count(columns, wish.which)
        found = places(
            columns, wish.which, cast(Order, wish.order), offset=offset, limit=min(limit, MOST)
        )
        return {
            "total": total,
            "rows": [listed(place, _short_row(reader, place), labels) for place in found],
        }


def facets(folder: BenchmarkFolder) -> JsonDict:
    """What rows can be filtered by: the values of columns with their counts, and the names of metadata fields."""
    with folder.reading() as (columns, reader):
        values = {name: tally(columns, name) for name in WORDS}
        rows: list[Row | None] = []
        for place in places(columns, RowFilter(), "problem_idx", offset=0, limit=20):
            rows.append(_short_row(reader, place))
    names = dict.fromkeys(name for row in rows if row is not None for name in row.metadata)
    return {name: [one[:2] for one in found] for name, found in values.items()} | {
        "metadata": list(names)
    }


def search(folder: BenchmarkFolder, wish: Wish) -> Iterator[JsonDict | tuple[IndexedRow, Row]]:
    """The rows that fit, in the order of problems, and now and then how far the search is; stops when it is closed."""
    labels_needed = (
        wish.text.isascii() and wish.text.isprintable() and not set(wish.text) & set('"\\/')
    )
    if wish.text and labels_needed:
        needle = wish.text.lower().encode()
    else:
        needle = b""
    read = 0
    with folder.reading() as (columns, reader):
        total = count(columns, wish.which)
        for at, place in enumerate(
            places(columns, wish.which, "problem_idx", offset=0, limit=None)
        ):
            raw = reader.raw(place) or b""
            read += len(raw)
            if needle in raw.lower() if needle else True:
                row = reader.row(place)
                if wish.fits(row):
                    yield place, row
            if read > _STRIDE:
                read = 0
                yield {"searched": at + 1, "of": total}
        yield {"searched": total, "of": total, "done": True}


def listed(place: IndexedRow, row: Row | None, labels: Mapping[tuple[int, int], Label]) -> JsonDict:
    """A row of the table; without texts where it is too long to be read for them."""
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
    if reader.raw(place, _LONG) is None:
        return None
    return reader.row(place)


def _peek(value: Any) -> str:
    return " ".join(shown(value)[: 4 * _PEEK].split())[:_PEEK]


def exported(folder: BenchmarkFolder, wish: Wish, kind: str) -> Iterator[bytes]:
    """The rows of a wish in one of ``KINDS``, a piece at a time."""
    labels = read_labels(folder.path)
    if kind == "csv":
        yield _line([*_COLUMNS, *_MORE, "label", "note", "who"])
    rows = _indexed_rows(folder, wish)
    if wish.text or wish.metadata:
        # Which are meant, only the rows themselves tell.
        rows = (found[1] for found in search(folder, wish) if not isinstance(found, dict))
    for row in rows:
        label = labels.get(row.key)
        if kind == "csv":
            said = [label.label, label.note, label.who] if label else ["", "", ""]
            values = [getattr(row, name) for name in (*_COLUMNS, *_MORE)]
            texts = [shown(value) if isinstance(value, dict | list) else value for value in values]
            yield _line([safe_cell(value) for value in (*texts, *said)])
        else:
            names = ("label", "note", "who", "when")
            if label:
                human = {"human": {name: getattr(label, name) for name in names}}
            else:
                human = {}
            yield scrub_json(dumps(row.data | human)) + b"\n"


def _indexed_rows(folder: BenchmarkFolder, wish: Wish) -> Iterator[Row]:
    """The rows by way of the index: it also knows of rows that cannot be read, which have a placeholder."""
    with folder.reading() as (columns, reader):
        for place in places(columns, wish.which, cast(Order, wish.order)):
            yield reader.row(place)


def _line(cells: list[object]) -> bytes:
    text = io.StringIO()
    csv.writer(text).writerow(cells)
    return scrub(text.getvalue()).encode("utf-8", "replace")
