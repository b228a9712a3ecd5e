"""What only results.jsonl can tell: how latency and length are spread, and a few rows worth a look."""

from array import array
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from nemo_evaluator.core.files import dumps
from nemo_evaluator.core.json_coerce import as_dict, as_list
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.runs.row import Row
from nemo_evaluator.runs.row_file import scan_rows, trajectories_of
from nemo_evaluator.store.layout import TaskPaths

EXAMPLES_OF_A_KIND: Final = 4
_TEXT_LIMIT: Final = 2000
_BINS: Final = 24
_MOST_CALLS: Final = 20
_REASONS: Final = frozenset(
    {"reasoning", "explanation", "rationale", "justification", "critique", "judge_reply"}
)


@dataclass(frozen=True, slots=True)
class Histogram:
    """Counts between edges; one more edge than counts."""

    edges: tuple[float, ...]
    counts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Example:
    """One row worth a look."""

    kind: str
    problem_idx: int
    repeat: int
    prompt: str
    response: str
    expected: str
    extracted: str | None
    note: str
    # Calls of tools with what came back, and what judges said, by their names.
    calls: tuple[str, ...] = ()
    judges: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class RowDetails:
    """What only the rows can tell: shapes of distributions, and a few rows to look at."""

    rows: int = 0
    latency_ms: Histogram | None = None
    completion_tokens: Histogram | None = None
    examples: tuple[Example, ...] = ()
    # Lines of results.jsonl that hold no row.
    unreadable: int = 0
    # Rows by what became of them, failed ones by their cause; together all rows.
    outcomes: dict[str, int] = field(default_factory=dict)
    causes: dict[str, int] = field(default_factory=dict)
    # Whether every reward is 0 or 1, so that rows are right or wrong.
    binary: bool = True


def read_details(results: Path) -> RowDetails | None:
    """Read the rows once, keeping two numbers of each; None without a file. Malformed lines are counted."""
    if not results.is_file():
        return None
    latency = array("d")
    tokens = array("d")
    examples: dict[str, list[Example]] = {
        "failed": [],
        "unparsed": [],
        "truncated": [],
        "wrong": [],
        "right": [],
    }
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
        latency.append(row.latency_ms or 0.0)
        tokens.append((row.tokens if row.completion_tokens is None else row.completion_tokens) or 0)
        kind = _kind(row)
        outcomes[kind or "unscored"] += 1
        if kind == "failed":
            causes[row.cause] += 1
        binary = binary and row.reward in (None, 0, 1)
        if kind and len(examples[kind]) < EXAMPLES_OF_A_KIND:
            examples[kind].append(_example(kind, row))
    shown = [example for kind in examples.values() for example in kind]
    # The tools that they called, where these are in ``trajectories.jsonl``.
    wanted = {(one.problem_idx, one.repeat) for one in shown if not one.calls}
    found = {
        row.key: _calls(row)
        for row in trajectories_of(TaskPaths(results.parent).trajectories, wanted)
    }
    whole = tuple(
        replace(one, calls=one.calls or found.get((one.problem_idx, one.repeat), ()))
        for one in shown
    )
    known = dict(outcomes), dict(causes.most_common()), binary
    times, lengths = (histogram(np.asarray(values)) for values in (latency, tokens))
    return RowDetails(rows, times, lengths, whole, unreadable, *known)


def _kind(row: Row) -> str | None:
    if row.failed:
        return "failed"
    if row.reward is None:
        return None
    if row.right:
        return "right"
    if row.unparsed:
        return "unparsed"
    if row.truncated:
        return "truncated"
    return "wrong"


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
        calls=_calls(row),
        judges=tuple(_judges(row.scoring_details)),
    )


def _calls(row: Row) -> tuple[str, ...]:
    said = []
    for step in row.steps:
        results: dict[Any, Any] = {}
        for one in as_list(as_dict(step.get("observation")).get("results")):
            results[one.get("source_call_id")] = one
        for call in as_list(step.get("tool_calls")):
            given = as_dict(call).get("arguments")
            if isinstance(given, str):
                text = given
            else:
                text = dumps(given).decode()
            came = as_dict(results.get(call.get("tool_call_id"))).get("content")
            said.append(
                _cut(
                    f"{call.get('function_name')}({text})" + ("" if came is None else f"\n→ {came}")
                )
            )
    return tuple(said[:_MOST_CALLS])


def _judges(details: JsonDict, name: str = "judge") -> Iterator[tuple[str, str]]:
    """The reasons that judges gave, at any depth of the details."""
    for key, value in details.items():
        if key in _REASONS and isinstance(value, str) and value:
            yield name, _cut(value)
        for at, part in enumerate(value if isinstance(value, list) else [value], 1):
            if isinstance(part, dict):
                if isinstance(value, list):
                    number = f" {at}"
                else:
                    number = ""
                yield from _judges(part, key.removeprefix("scorer:") + number)


def _cut(value: Any) -> str:
    if value is None:
        text = ""
    else:
        text = str(value)
    if len(text) <= _TEXT_LIMIT:
        return text
    half = _TEXT_LIMIT // 2
    return f"{text[:half]}\n[… {len(text) - _TEXT_LIMIT} characters left out …]\n{text[-half:]}"


def histogram(values: np.ndarray) -> Histogram | None:
    """How the values above 0 are spread; the last percent has one bin, so that an outlier does not flatten the rest."""
    numbers = values[values > 0]
    if not len(numbers):
        return None
    low = float(numbers.min())
    high = float(np.percentile(numbers, 99))
    top = float(numbers.max())
    if high <= low:
        return Histogram((low, top if top > low else low + 1.0), (len(numbers),))
    edges = np.linspace(low, high, _BINS + 1)
    if top > high:
        edges = np.append(edges, top)
    counts, edges = np.histogram(numbers, bins=edges)
    return Histogram(tuple(float(edge) for edge in edges), tuple(int(count) for count in counts))
