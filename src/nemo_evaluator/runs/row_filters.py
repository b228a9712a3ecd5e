"""The filters and orders of rows, from ``row_filters.json``.

The index (``runs/query.py``), the URL parameters of the viewer (``view/page_rows.py``) and its pages, which filter the
rows of an export themselves (``view/static/row_filters.js``), share these definitions. The kind of a filter says what
it does:

======== ==================================================== ===========================
kind     a row matches if                                      parameters of a URL
======== ==================================================== ===========================
status   it has a score, or has failed                         ``NAME``, one of ``values``
word     it has exactly this word                              ``NAME``
flag     it has the flag, or does not have it                  ``NAME``, ``1`` for yes
label    it has a label, has none, or has this one             ``NAME``, one of ``values``
range    its number is known and within bounds                 ``min_NAME``, ``max_NAME``
number   it has exactly this whole number                      ``NAME``
======== ==================================================== ===========================
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import orjson

FilterKind = Literal["status", "word", "flag", "label", "range", "number"]


@dataclass(frozen=True, slots=True)
class FilterDefinition:
    """A filter: its name, its kind, its title in the viewer (None: it has no control), and its allowed values."""

    name: str
    kind: FilterKind
    title: str | None = None
    values: tuple[str, ...] = ()


# The viewer's pages receive this as it is.
DEFINITIONS: Final[dict[str, Any]] = orjson.loads(Path(__file__).with_suffix(".json").read_bytes())
FILTERS: Final = tuple(
    FilterDefinition(
        name=entry["name"],
        kind=entry["kind"],
        title=entry.get("title"),
        values=tuple(entry.get("values", ())),
    )
    for entry in DEFINITIONS["filters"]
)
# The names of orders, each with the field of a row that it sorts by.
ORDERS: Final[dict[str, str]] = {entry["name"]: entry["field"] for entry in DEFINITIONS["orders"]}


def filter_names(kind: FilterKind) -> tuple[str, ...]:
    """Return the names of the filters of one kind."""
    return tuple(definition.name for definition in FILTERS if definition.kind == kind)
