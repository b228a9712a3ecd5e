"""The rows of a query as a file: JSON lines or CSV."""

import csv
import io
from collections.abc import Iterator
from typing import Final, cast

from nemo_evaluator.core.files import dumps, scrub_json
from nemo_evaluator.core.secrets import scrub
from nemo_evaluator.reports.data_formats import safe_cell
from nemo_evaluator.runs.folder import BenchmarkFolder
from nemo_evaluator.runs.labels import Label, read_labels
from nemo_evaluator.runs.query import Order, places
from nemo_evaluator.runs.row import Row, shown
from nemo_evaluator.view.page_rows import RowMatch, search
from nemo_evaluator.view.row_query import RowQuery

# The formats, each with the media type of its file.
FORMATS: Final = {"jsonl": "application/x-ndjson", "csv": "text/csv"}
_COLUMNS: Final = (
    "problem_idx",
    "repeat",
    "status",
    "cause",
    "reward",
    "category",
    "finish_reason",
    "tokens",
    "latency_ms",
    "cost_usd",
    "truncated",
    "unparsed",
    "prompt",
    "response",
    "expected",
    "extracted",
)
_LABEL_COLUMNS: Final = ("label", "note", "who")


def download(folder: BenchmarkFolder, query: RowQuery, file_format: str) -> Iterator[bytes]:
    """Yield the matching rows as pieces of a file.

    Args:
        folder: The benchmark.
        query: The rows and their order.
        file_format: One of ``FORMATS``.
    """
    labels = read_labels(folder.path)
    if file_format == "csv":
        yield _csv_line([*_COLUMNS, *_LABEL_COLUMNS])
    for row in _matching_rows(folder, query):
        label = labels.get(row.key)
        if file_format == "csv":
            yield _csv_row(row, label)
        else:
            yield _json_line(row, label)


def _matching_rows(folder: BenchmarkFolder, query: RowQuery) -> Iterator[Row]:
    """Yield the matching rows; a row that cannot be read is a placeholder."""
    if query.needs_rows:
        for result in search(folder, query):
            if isinstance(result, RowMatch):
                yield result.row
        return
    with folder.reading() as (columns, reader):
        for indexed_row in places(columns, query.row_filter, cast(Order, query.order)):
            yield reader.row(indexed_row)


def _csv_row(row: Row, label: Label | None) -> bytes:
    """Return a row and its label as a line of a CSV file."""
    cells: list[object] = []
    for name in _COLUMNS:
        value = getattr(row, name)
        if isinstance(value, dict | list):
            value = shown(value)
        cells.append(safe_cell(value))
    for name in _LABEL_COLUMNS:
        cells.append("" if label is None else safe_cell(getattr(label, name)))
    return _csv_line(cells)


def _json_line(row: Row, label: Label | None) -> bytes:
    """Return a row as a line of JSON, with its label under ``human``."""
    fields = dict(row.data)
    if label is not None:
        fields["human"] = {
            "label": label.label,
            "note": label.note,
            "who": label.who,
            "when": label.when,
        }
    return scrub_json(dumps(fields)) + b"\n"


def _csv_line(cells: list[object]) -> bytes:
    """Return one line of a CSV file, without secrets."""
    buffer = io.StringIO()
    csv.writer(buffer).writerow(cells)
    return scrub(buffer.getvalue()).encode("utf-8", "replace")
