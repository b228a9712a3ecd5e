"""The check of a run as JSON, as types: what ``nel check --json`` prints.

The types cost nothing at run time: import them under ``TYPE_CHECKING``.
"""

from typing import TypedDict


class FindingEntry(TypedDict):
    """One problem that a check found."""

    check: str
    level: str
    message: str
    failure_class: str | None


class CheckDocument(TypedDict):
    """The findings of one run."""

    benchmark: str
    run_id: str
    path: str
    rows: int
    problems: int
    findings: list[FindingEntry]
    status: str
    failure_class: str | None
