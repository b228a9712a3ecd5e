"""What only results.jsonl can tell: how latency and length are spread, and a few rows worth a look."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import orjson

from nemo_evaluator.core.shapes import as_dict, as_number, as_whole
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.reports.model import Example, Histogram, RowDetails
from nemo_evaluator.store.sums import verified

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
    for row in _rows(results):
        if row is None:
            unreadable += 1
            continue
        rows += 1
        took = as_number(row.get("latency_ms")) or 0.0
        if took > 0:
            latency.append(took)
        count = as_number(row.get("completion_tokens", row.get("tokens"))) or 0.0
        if count > 0:
            tokens.append(count)
        kind = _kind(row)
        outcomes[kind or "unscored"] += 1
        if kind == "failed":
            causes[str(as_dict(row.get("failure")).get("cause") or "unknown")] += 1
        binary = binary and row.get("reward") in (None, 0, 1)
        if kind and len(examples[kind]) < EXAMPLES_OF_A_KIND:
            examples[kind].append(_example(kind, row))
    shown = tuple(example for kind in examples.values() for example in kind)
    known = dict(outcomes), dict(causes.most_common()), binary
    return RowDetails(rows, _histogram(latency), _histogram(tokens), shown, unreadable, *known)


def _rows(results: Path) -> Iterator[JsonDict | None]:
    with verified(results).open("rb") as file:
        for line in file:
            try:
                row = orjson.loads(line) if line.strip() else {}
            except orjson.JSONDecodeError:
                row = None
            if row != {}:
                yield row if isinstance(row, dict) else None


def _kind(row: JsonDict) -> str | None:
    if row.get("status") == "failed" or row.get("failure"):
        return "failed"
    reward = as_number(row.get("reward"))
    if reward is None:
        return None
    if reward >= 1:
        return "right"
    if row.get("unparsed") or as_dict(row.get("scoring_details")).get("unparsed"):
        return "unparsed"
    return "truncated" if row.get("finish_reason") == "length" else "wrong"


def _example(kind: str, row: JsonDict) -> Example:
    failure = as_dict(row.get("failure"))
    note = f"{failure.get('cause')}: {failure.get('message')}" if failure else str(row.get("label") or "")
    extracted = row.get("extracted_answer")
    return Example(
        kind=kind,
        problem_idx=as_whole(row.get("problem_idx")) or 0,
        repeat=as_whole(row.get("repeat")) or 0,
        prompt=_cut(row.get("prompt")),
        response=_cut(row.get("model_response")),
        expected=_cut(row.get("expected_answer")),
        extracted=None if extracted is None else _cut(extracted),
        note=_cut(note),
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
