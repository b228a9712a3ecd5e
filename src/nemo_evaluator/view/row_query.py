"""A page's query for rows: the parameters of a URL as a filter, an order and conditions on texts."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.runs.calibration import read_draw
from nemo_evaluator.runs.folder import BenchmarkFolder
from nemo_evaluator.runs.labels import read_labels
from nemo_evaluator.runs.query import RowFilter
from nemo_evaluator.runs.row import Row, shown
from nemo_evaluator.runs.row_filters import FILTERS, FilterDefinition

# Parameters with this prefix are conditions on metadata.
_METADATA: Final = "meta."
# JSON escapes these characters, so the raw bytes of a row do not contain them as they are.
_ESCAPED: Final = frozenset('"\\/')


@dataclass(frozen=True, slots=True)
class RowQuery:
    """A filter and an order that the index answers, and conditions that need the rows themselves.

    Attributes:
        row_filter: The filter of the index.
        order: The field to sort by, with ``-`` in front for descending order.
        text: The text to search for; empty for none.
        place: Where to search for it: ``prompt``, ``answer``, or anything else for both.
        metadata: Names of metadata fields, each with a text that the value must contain.
    """

    row_filter: RowFilter = field(default_factory=RowFilter)
    order: str = "problem_idx"
    text: str = ""
    place: str = "any"
    metadata: tuple[tuple[str, str], ...] = ()

    @property
    def needs_rows(self) -> bool:
        """Whether only the rows themselves tell which of them match."""
        return bool(self.text or self.metadata)

    def matches(self, row: Row) -> bool:
        """Return whether a row contains the requested text and metadata."""
        return self._has_text(row) and self._has_metadata(row)

    def _has_text(self, row: Row) -> bool:
        """Return whether the requested text is in the prompt or the answer."""
        if not self.text:
            return True
        needle = self.text.lower()
        if self.place != "answer" and needle in row.prompt.lower():
            return True
        return self.place != "prompt" and needle in row.response.lower()

    def _has_metadata(self, row: Row) -> bool:
        """Return whether each requested metadata field contains its text."""
        for name, text in self.metadata:
            if name not in row.metadata:
                return False
            if text.lower() not in shown(row.metadata[name]).lower():
                return False
        return True

    def raw_needle(self) -> bytes | None:
        """Return bytes that the raw lines of all matching rows contain in lower case.

        None if there are no such bytes, because JSON may have escaped the text.
        """
        if not self.text or not self.text.isascii() or not self.text.isprintable():
            return None
        if _ESCAPED.intersection(self.text):
            return None
        return self.text.lower().encode()


def parse_row_query(parameters: Mapping[str, str], folder: BenchmarkFolder) -> RowQuery:
    """Parse the parameters of a URL; empty ones count as missing.

    Raises:
        UsageError: A parameter is invalid.
    """
    set_parameters = {name: value for name, value in parameters.items() if value != ""}
    fields: dict[str, Any] = {}
    for definition in FILTERS:
        fields |= _filter_fields(definition, set_parameters)
    label = fields.pop("label", None)
    metadata: list[tuple[str, str]] = []
    for name, value in set_parameters.items():
        if name.startswith(_METADATA):
            metadata.append((name.removeprefix(_METADATA), value))
    return RowQuery(
        row_filter=_restrict_to_labels(RowFilter(**fields), label, folder),
        order=set_parameters.get("sort", "problem_idx"),
        text=set_parameters.get("text", ""),
        place=set_parameters.get("in", "any"),
        metadata=tuple(metadata),
    )


def _filter_fields(
    definition: FilterDefinition, set_parameters: Mapping[str, str]
) -> dict[str, Any]:
    """Return the fields of ``RowFilter`` for one filter's parameters.

    Raises:
        UsageError: The value is not allowed.
    """
    if definition.kind == "range":
        bounds: dict[str, Any] = {}
        for name in (f"min_{definition.name}", f"max_{definition.name}"):
            if name in set_parameters:
                bounds[name] = _parse_number(float, set_parameters[name])
        return bounds
    if definition.name not in set_parameters:
        return {}
    value = set_parameters[definition.name]
    if definition.values and value not in definition.values:
        allowed_values = ", ".join(definition.values)
        raise UsageError(f"{definition.name} cannot be {value!r}", hint=f"known: {allowed_values}")
    if definition.kind == "number":
        return {definition.name: _parse_number(int, value)}
    if definition.kind == "flag":
        return {definition.name: value == "1"}
    return {definition.name: value}


def _parse_number(number: type[int] | type[float], text: str) -> float:
    """Parse a number.

    Raises:
        UsageError: The text is not a number.
    """
    try:
        return number(text)
    except ValueError as error:
        raise UsageError(f"not a number: {error}") from error


def _restrict_to_labels(
    row_filter: RowFilter, label: str | None, folder: BenchmarkFolder
) -> RowFilter:
    """Restrict a filter to the rows that a label filter selects."""
    if label is None:
        return row_filter
    if label == "drawn":
        return replace(row_filter, among=drawn_rows(folder))
    labels = read_labels(folder.path)
    if label == "none":
        return replace(row_filter, beyond=frozenset(labels))
    if label == "any":
        return replace(row_filter, among=frozenset(labels))
    keys = [key for key, row_label in labels.items() if row_label.label == label]
    return replace(row_filter, among=frozenset(keys))


def drawn_rows(folder: BenchmarkFolder) -> frozenset[tuple[int, int]]:
    """Return the rows that were drawn for labelling, by problem and repeat."""
    draw = read_draw(folder.path)
    if draw is None:
        return frozenset()
    return frozenset(row.key for row in draw.rows)
