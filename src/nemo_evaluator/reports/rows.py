"""What only results.jsonl can tell: how latency and length are spread, and a few rows worth a look."""

from __future__ import annotations

from array import array
from pathlib import Path
from typing import Any, Final

import numpy as np

from nemo_evaluator.core.files import iter_jsonl
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.reports.model import Example, Histogram, RowDetails

EXAMPLES_OF_A_KIND: Final = 4
_TEXT_LIMIT: Final = 2000
_BINS: Final = 24


def read_details(results: Path) -> RowDetails | None:
    """One pass over the rows, keeping two numbers of each; None when there is no file."""
    if not results.is_file():
        return None
    latency, tokens = array("d"), array("d")
    examples: dict[str, list[Example]] = {"failed": [], "unparsed": [], "truncated": [], "wrong": [], "right": []}
    rows = 0
    for row in iter_jsonl(results):
        rows += 1
        if isinstance(row.get("latency_ms"), int | float) and row["latency_ms"] > 0:
            latency.append(row["latency_ms"])
        count = row.get("completion_tokens", row.get("tokens"))
        if isinstance(count, int | float) and count > 0:
            tokens.append(count)
        kind = _kind(row)
        if kind and len(examples[kind]) < EXAMPLES_OF_A_KIND:
            examples[kind].append(_example(kind, row))
    return RowDetails(
        rows, _histogram(latency), _histogram(tokens), tuple(e for kind in examples.values() for e in kind)
    )


def _kind(row: JsonDict) -> str | None:
    if row.get("status") == "failed" or row.get("failure"):
        return "failed"
    reward = row.get("reward")
    if not isinstance(reward, int | float):
        return None
    if reward >= 1:
        return "right"
    if row.get("unparsed") or _dict(row.get("scoring_details")).get("unparsed"):
        return "unparsed"
    return "truncated" if row.get("finish_reason") == "length" else "wrong"


def _example(kind: str, row: JsonDict) -> Example:
    failure = _dict(row.get("failure"))
    note = f"{failure.get('cause')}: {failure.get('message')}" if failure else str(row.get("label") or "")
    extracted = row.get("extracted_answer")
    return Example(
        kind=kind,
        problem_idx=int(row.get("problem_idx") or 0),
        repeat=int(row.get("repeat") or 0),
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


def _dict(value: Any) -> JsonDict:
    return value if isinstance(value, dict) else {}
