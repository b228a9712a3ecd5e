"""Checks of a benchmark's rows before the first request: what would score every answer 0 is refused.

A column counts as empty in a row if the row lacks it, or its value is null, NaN or blank text.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from nemo_evaluator.core.errors import NelError, UsageError, boundary
from nemo_evaluator.core.failures import Cause
from nemo_evaluator.core.registry import did_you_mean
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.datasets import Rows
from nemo_evaluator.environments._scorer_code import (
    metadata_read,
    reads_expected_answer,
    reads_target,
)
from nemo_evaluator.environments.definition import BenchmarkDefinition

# The number of rows that show the columns of a dataset whose rows differ.
LOOKED_AT: Final = 20
# Whole floats up to this size are written without their fraction.
_EXACT_FLOAT: Final = 2.0**53
# The entries that nel adds to the columns in a problem's metadata.
_ADDED_METADATA: Final = frozenset({"source", "benchmark", "fewshot"})


def target_text(value: Any) -> str:
    """Return the expected answer as text: empty for a missing value, and 42 for the float 42.0.

    Files with missing numbers turn the others into floats, and no model answers ``42.0`` to 6 times 7.
    """
    if type(value) is str:
        return value
    if is_blank(value):
        return ""
    if isinstance(value, float) and value.is_integer() and abs(value) < _EXACT_FLOAT:
        return str(int(value))
    return str(value)


def is_blank(value: Any) -> bool:
    """Return whether a cell has no value: null, NaN or blank text."""
    if isinstance(value, str):
        return not value.strip()
    return value is None or (isinstance(value, float) and math.isnan(value))


def uses_target(definition: BenchmarkDefinition) -> bool:
    """Return whether scoring compares answers with the target: without a scorer, by its code, or by its judge's."""
    if definition.score is None or reads_target(definition.score):
        return True
    judge_functions = (definition.judge_prompt, definition.parse_judge)
    return any(function and reads_expected_answer(function) for function in judge_functions)


def check_mapping(name: str, mapping: Mapping[str, str], rows: Rows) -> None:
    """Check that ``field_mapping`` names columns of the dataset.

    Args:
        name: The benchmark.
        mapping: The new name of each column.
        rows: The rows before the mapping.

    Raises:
        UsageError: The first rows lack a column.
    """
    columns: set[str] = set()
    for idx in range(min(LOOKED_AT, len(rows))):
        columns.update(rows[idx])
    for source in mapping:
        if columns and source not in columns:
            available = sorted(columns)
            raise UsageError(
                f"{name}: field_mapping renames the column {source!r}, and the dataset has no such column; "
                f"it has {', '.join(available)}",
                hint=did_you_mean(source, available, "write {column of the dataset: new name}"),
            )


def check_values(definition: BenchmarkDefinition, columns: Iterable[str], rows: Rows) -> list[str]:
    """Check that the target and the columns of the prompt have values.

    Args:
        definition: The benchmark.
        columns: The columns that the prompt shows.
        rows: The prepared rows.

    Returns:
        Warnings about some of several columns in the prompt.

    Raises:
        UsageError: Every expected answer or every prompt is empty, the target is a list or dict that nothing can
            equal, or the scorer reads a column that does not exist.
    """
    if not len(rows):
        return []
    name = definition.name
    target = definition.target_field
    shown = sorted(columns)
    required = set(shown)
    if uses_target(definition):
        required.add(target)
        _check_target_type(definition, rows)
    empty = _empty_columns(required, rows)
    if target in empty and target not in shown:
        raise UsageError(
            f"{name}: the column {target!r} (target_field) is empty in all {len(rows):,} rows, so no answer could be "
            "right",
            hint="set target_field to the column of the right answer",
        )
    empty_shown = [column for column in shown if column in empty]
    _check_metadata(definition, rows)
    if not empty_shown:
        return []
    words = ", ".join(f"{{{column}}}" for column in empty_shown)
    message = f"{name}: the prompt shows {words}, which is empty in all {len(rows):,} rows"
    if empty_shown == shown or target in empty:
        raise UsageError(message, hint="name a column of the dataset that has values")
    return [message]


def _check_target_type(definition: BenchmarkDefinition, rows: Rows) -> None:
    """Check that text can equal the target, if no scorer reads it.

    Raises:
        UsageError: The target of one of the first rows is a list or a dict.
    """
    if definition.score is not None:
        return
    for row in _prepared_rows(rows, LOOKED_AT):
        value = row.get(definition.target_field)
        if isinstance(value, (list, tuple, dict)):
            raise UsageError(
                f"{definition.name}: the column {definition.target_field!r} (target_field) holds a "
                f"{type(value).__name__}, which no answer equals as text",
                hint="write a scorer that reads it, or turn it into text with prepare_row",
            )


def _check_metadata(definition: BenchmarkDefinition, rows: Rows) -> None:
    """Check that the columns that the scorer reads from ``sample.metadata`` exist.

    Raises:
        UsageError: No row has the column.
    """
    if definition.score is None:
        return
    missing = metadata_read(definition.score) - _ADDED_METADATA
    available: set[str] = set()
    for row in _prepared_rows(rows, len(rows)):
        if not missing:
            return
        missing -= row.keys()
        available.update(row)
    if missing:
        column = min(missing)
        raise UsageError(
            f"{definition.name}: the scorer reads metadata[{column!r}], and the dataset has no such column; "
            f"it has {', '.join(sorted(available))}",
            hint=did_you_mean(
                column,
                sorted(available),
                f"metadata.get({column!r}, DEFAULT) reads one that is optional",
            ),
        )


def _empty_columns(columns: Iterable[str], rows: Rows) -> set[str]:
    """Return the columns that are empty in every row; reading ends when each has had a value."""
    empty = set(columns)
    for row in _prepared_rows(rows, len(rows)):
        empty -= {column for column in empty if not is_blank(row.get(column))}
        if not empty:
            break
    return empty


def _prepared_rows(rows: Rows, most: int) -> Iterator[JsonDict]:
    """Yield the first rows, except those that cannot be prepared: the run reports each of them as failed."""
    for idx in range(min(most, len(rows))):
        try:
            with boundary(Cause.SEED):
                row = rows[idx]
        except NelError:
            continue
        yield row
