"""What only results.jsonl can tell: how latency and length are spread, and a few rows worth a look."""

from __future__ import annotations

from array import array
from collections import Counter
from pathlib import Path
from typing import Any, Final

import numpy as np

from nemo_evaluator.reports.model import Example, Histogram, RowDetails
from nemo_evaluator.runs.row import Row
from nemo_evaluator.runs.row_file import scan_rows

EXAMPLES_OF_A_KIND: Final = 4
_TEXT_LIMIT: Final = 2000
_BINS: Final = 24


def read_details(results: Path) -> RowDetails | None:
    """One pass over the rows, keeping two numbers of each; None when there is no file. What is no row is counted."""
    if not results.is_file():
        return None
    latency, tokens = array("d"), array("d")
    examples: dict[str, list[Example]] = {"failed": [], "unparsed": [], "truncated": [], "wrong": [], "right": []}
    outcomes: Counter[str] = Counter()
    causes: Counter[str] = Counter()
    binary = True
    rows = unreadable = 0
    for _, line in scan_rows(results):
        if not isinstance(line, dict):
            unreadable += 1
            continue
        row = Row(line)
        rows += 1
        if (took := row.latency_ms or 0.0) > 0:
            latency.append(took)
        if (count := row.tokens if row.completion_tokens is None else row.completion_tokens) and count > 0:
            tokens.append(count)
        kind = _kind(row)
        outcomes[kind or "unscored"] += 1
        if kind == "failed":
            causes[row.cause] += 1
        binary = binary and row.reward in (None, 0, 1)
        if kind and len(examples[kind]) < EXAMPLES_OF_A_KIND:
            examples[kind].append(_example(kind, row))
    shown = tuple(example for kind in examples.values() for example in kind)
    known = dict(outcomes), dict(causes.most_common()), binary
    return RowDetails(rows, _histogram(latency), _histogram(tokens), shown, unreadable, *known)


def _kind(row: Row) -> str | None:
    if row.failed:
        return "failed"
    if row.reward is None:
        return None
    if row.right:
        return "right"
    return "unparsed" if row.unparsed else "truncated" if row.truncated else "wrong"


def _example(kind: str, row: Row) -> Example:
    return Example(
        kind=kind,
        problem_idx=row.problem_idx,
        repeat=row.repeat,
        prompt=_cut(row.prompt),
        response=_cut(row.response),
        expected=_cut(row.expected),
        extracted=None if row.extracted is None else _cut(row.extracted),
        note=_cut(f"{row.cause}: {row.error}" if row.failed else row.label),
    )


def _cut(value: Any) -> str:
    text = "" if value is None else str(value)
    if len(text) <= _TEXT_LIMIT:
        return text
    half = _TEXT_LIMIT // 2
    return f"{text[:half]}\n[… {len(text) - _TEXT_LIMIT} characters left out …]\n{text[-half:]}"


def _histogram(values: array[float]) -> Histogram | None:
    if not values:
        return None
    numbers = np.frombuffer(values, dtype=np.float64)
    # The last percent gets one bin of its own, so that an outlier does not flatten the rest.
    low, high, top = float(numbers.min()), float(np.percentile(numbers, 99)), float(numbers.max())
    if high <= low:
        return Histogram((low, top if top > low else low + 1.0), (len(numbers),))
    edges = np.linspace(low, high, _BINS + 1)
    if top > high:
        edges = np.append(edges, top)
    counts, edges = np.histogram(numbers, bins=edges)
    return Histogram(tuple(float(edge) for edge in edges), tuple(int(count) for count in counts))
