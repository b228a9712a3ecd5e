"""Filtered rows as files: JSON lines as they were written, or a table, each with what a person said of it."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from typing import Final, cast

from nemo_evaluator.core.files import dumps, scrub_json
from nemo_evaluator.core.secrets import scrub
from nemo_evaluator.runs.folder import BenchmarkFolder
from nemo_evaluator.runs.labels import Label, read_labels
from nemo_evaluator.runs.query import Order
from nemo_evaluator.runs.row import Row
from nemo_evaluator.view.page_rows import Wish, search

KINDS: Final = {"jsonl": "application/x-ndjson", "csv": "text/csv"}
_COLUMNS: Final = ("problem_idx", "repeat", "status", "cause", "reward", "category", "finish_reason", "tokens")
_MORE: Final = ("latency_ms", "cost_usd", "truncated", "unparsed", "prompt", "response", "expected", "extracted")
# A table program takes what begins like this for a formula.
_FORMULAS: Final = ("=", "+", "-", "@", "\t", "\r")


def exported(folder: BenchmarkFolder, wish: Wish, kind: str) -> Iterator[bytes]:
    """The rows of a wish in one of ``KINDS``, a piece at a time."""
    labels = read_labels(folder.path)
    if kind == "csv":
        yield _line([*_COLUMNS, *_MORE, "label", "note", "who"])
    for row in rows_of(folder, wish):
        label = labels.get(row.key)
        if kind == "csv":
            said = [label.label, label.note, label.who] if label else ["", "", ""]
            yield _line([_cell(getattr(row, name)) for name in (*_COLUMNS, *_MORE)] + [_cell(one) for one in said])
        else:
            yield scrub_json(dumps(labelled(row, label))) + b"\n"


def rows_of(folder: BenchmarkFolder, wish: Wish) -> Iterator[Row]:
    """The rows of a wish."""
    if not wish.scans:
        yield from folder.rows(wish.which, order=cast(Order, wish.order))
        return
    for found in search(folder, wish):
        if not isinstance(found, dict):
            yield found[1]


def labelled(row: Row, label: Label | None) -> dict[str, object]:
    """A row as it was written, with its label."""
    said = {"label": label.label, "note": label.note, "who": label.who, "when": label.when} if label else None
    return row.data | ({"human": said} if said else {})


def _line(cells: list[object]) -> bytes:
    text = io.StringIO()
    csv.writer(text).writerow(cells)
    return scrub(text.getvalue()).encode("utf-8", "replace")


def _cell(value: object) -> object:
    if isinstance(value, int | float) or value is None:
        return value
    text = str(value)
    return f"'{text}" if text.startswith(_FORMULAS) else text
