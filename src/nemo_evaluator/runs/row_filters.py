"""The filters of rows and the orders that rows can be put in, from ``row_filters.json``.

The index (``runs/query.py``), the parameters of the viewer's URLs (``view/page_rows.py``) and its pages, which filter
the rows of an export themselves (``view/static/row_filters.js``), all take them from there. The kind of a filter says
what it does:

======== ==================================================== ===========================
kind     a row fits when                                       parameters of a URL
======== ==================================================== ===========================
status   it has a score, or has failed                         ``NAME``, one of ``values``
word     it has this very word                                 ``NAME``
flag     it has the flag, or has it not                        ``NAME``, ``1`` for yes
label    a person's label is there, missing, or this one       ``NAME``, one of ``values``
range    its number is known and within bounds                 ``min_NAME``, ``max_NAME``
number   it has this very whole number                         ``NAME``
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
    """A filter: its name, what it does, its title in the viewer (none: no box), and the values that it knows."""

    name: str
    kind: FilterKind
    title: str | None = None
    values: tuple[str, ...] = ()


# What the viewer's pages get.
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
# The words that name an order, each with the field of a row that it goes by.
ORDERS: Final[dict[str, str]] = {entry["name"]: entry["field"] for entry in DEFINITIONS["orders"]}


def filter_names(kind: FilterKind) -> tuple[str, ...]:
    """The names of the filters of a kind."""
    return tuple(definition.name for definition in FILTERS if definition.kind == kind)
