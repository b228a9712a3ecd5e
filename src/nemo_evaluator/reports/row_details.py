"""What only results.jsonl shows: the distributions of latency and length, and a few example rows."""

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
    """The counts of values between edges.

    Attributes:
        edges: The edges; one more than counts.
        counts: The counts.
    """

    edges: tuple[float, ...]
    counts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Example:
    """One row that a report shows.

    Attributes:
        kind: "failed", "unparsed", "truncated", "wrong" or "right".
        problem_idx: The number of its problem.
        repeat: The number of its repeat.
        prompt: Its prompt; this and all other texts are shortened.
        response: The model's response.
        expected: The expected answer.
        extracted: The answer that was extracted; None if there is none.
        note: The cause and error of a failed row, otherwise the row's label.
        calls: Tool calls with their results.
        judges: Names of judges and the reasons that they gave.
    """

    kind: str
    problem_idx: int
    repeat: int
    prompt: str
    response: str
    expected: str
    extracted: str | None
    note: str
    calls: tuple[str, ...] = ()
    judges: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class RowDetails:
    """What only the rows of a run show.

    Attributes:
        rows: Number of rows.
        latency_ms: The distribution of latency; None when unknown.
        completion_tokens: The distribution of answer lengths; None when unknown.
        examples: A few rows of each kind.
        unreadable: Malformed lines of results.jsonl.
        outcomes: Rows by outcome; together all rows.
        causes: Failed rows by cause.
        binary: Whether every reward is 0 or 1, so that rows are right or wrong.
    """

    rows: int = 0
    latency_ms: Histogram | None = None
    completion_tokens: Histogram | None = None
    examples: tuple[Example, ...] = ()
    unreadable: int = 0
    outcomes: dict[str, int] = field(default_factory=dict)
    causes: dict[str, int] = field(default_factory=dict)
    binary: bool = True


def read_details(results: Path) -> RowDetails | None:
    """Read the rows once, keeping only two numbers of each and a few examples.

    Args:
        results: The file of rows. Malformed lines are counted.

    Returns:
        The details; None when the file does not exist.
    """
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
    for _, document in scan_rows(results):
        if not isinstance(document, dict):
            unreadable += 1
            continue
        row = Row(document)
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
    examples_shown = [example for kind in examples.values() for example in kind]
    # Some rows have their tool calls only in ``trajectories.jsonl``.
    keys_without_calls = {
        (example.problem_idx, example.repeat) for example in examples_shown if not example.calls
    }
    calls_of_row = {
        row.key: _calls(row)
        for row in trajectories_of(TaskPaths(results.parent).trajectories, keys_without_calls)
    }
    completed = tuple(
        replace(
            example,
            calls=example.calls or calls_of_row.get((example.problem_idx, example.repeat), ()),
        )
        for example in examples_shown
    )
    summary = dict(outcomes), dict(causes.most_common()), binary
    latency_histogram, token_histogram = (
        histogram(np.asarray(values)) for values in (latency, tokens)
    )
    return RowDetails(rows, latency_histogram, token_histogram, completed, unreadable, *summary)


def _kind(row: Row) -> str | None:
    """The outcome of a row; None when it has neither failed nor a reward."""
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
    """The texts of a row that a report shows, shortened."""
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
    """The tool calls of a row with their results, at most twenty."""
    call_texts = []
    for step in row.steps:
        result_of_call: dict[Any, Any] = {}
        for result in as_list(as_dict(step.get("observation")).get("results")):
            result_of_call[result.get("source_call_id")] = result
        for call in as_list(step.get("tool_calls")):
            arguments = as_dict(call).get("arguments")
            if isinstance(arguments, str):
                text = arguments
            else:
                text = dumps(arguments).decode()
            output = as_dict(result_of_call.get(call.get("tool_call_id"))).get("content")
            call_texts.append(
                _cut(
                    f"{call.get('function_name')}({text})"
                    + ("" if output is None else f"\n→ {output}")
                )
            )
    return tuple(call_texts[:_MOST_CALLS])


def _judges(details: JsonDict, name: str = "judge") -> Iterator[tuple[str, str]]:
    """The names of judges with the reasons that they gave, at any depth of the scoring details."""
    for key, value in details.items():
        if key in _REASONS and isinstance(value, str) and value:
            yield name, _cut(value)
        for number, detail in enumerate(value if isinstance(value, list) else [value], 1):
            if isinstance(detail, dict):
                if isinstance(value, list):
                    suffix = f" {number}"
                else:
                    suffix = ""
                yield from _judges(detail, key.removeprefix("scorer:") + suffix)


def _cut(value: Any) -> str:
    """The value as text; a long text loses its middle."""
    if value is None:
        text = ""
    else:
        text = str(value)
    if len(text) <= _TEXT_LIMIT:
        return text
    half = _TEXT_LIMIT // 2
    return f"{text[:half]}\n[… {len(text) - _TEXT_LIMIT} characters left out …]\n{text[-half:]}"


def histogram(values: np.ndarray) -> Histogram | None:
    """The distribution of the values above 0; None if there are none.

    The largest percent of the values has one bin, so that an outlier does not flatten the rest.
    """
    positive = values[values > 0]
    if not len(positive):
        return None
    minimum = float(positive.min())
    percentile_99 = float(np.percentile(positive, 99))
    maximum = float(positive.max())
    if percentile_99 <= minimum:
        return Histogram(
            (minimum, maximum if maximum > minimum else minimum + 1.0), (len(positive),)
        )
    edges = np.linspace(minimum, percentile_99, _BINS + 1)
    if maximum > percentile_99:
        edges = np.append(edges, maximum)
    counts, edges = np.histogram(positive, bins=edges)
    return Histogram(tuple(float(edge) for edge in edges), tuple(int(count) for count in counts))
