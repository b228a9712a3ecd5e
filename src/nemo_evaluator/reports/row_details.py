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
# The outcomes that have examples, in the order in which reports show them.
_KINDS: Final = ("failed", "unparsed", "truncated", "wrong", "right")
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
    rows = _RowSummary()
    for _, document in scan_rows(results):
        if isinstance(document, dict):
            rows.add(Row(document))
        else:
            rows.unreadable += 1
    return RowDetails(
        rows=rows.count,
        latency_ms=histogram(np.asarray(rows.latencies)),
        completion_tokens=histogram(np.asarray(rows.tokens)),
        examples=_with_calls(rows.shown_examples(), TaskPaths(results.parent).trajectories),
        unreadable=rows.unreadable,
        outcomes=dict(rows.outcomes),
        causes=dict(rows.causes.most_common()),
        binary=rows.binary,
    )


class _RowSummary:
    """The numbers and examples of the rows read so far.

    Attributes:
        count: Number of rows.
        unreadable: Number of malformed lines.
        latencies: The latency of each row; 0 when unknown.
        tokens: The answer length of each row; 0 when unknown.
        outcomes: Rows by outcome.
        causes: Failed rows by cause.
        binary: Whether every reward is 0 or 1.
    """

    def __init__(self) -> None:
        self.count = 0
        self.unreadable = 0
        self.latencies = array("d")
        self.tokens = array("d")
        self.outcomes: Counter[str] = Counter()
        self.causes: Counter[str] = Counter()
        self.binary = True
        self._examples: dict[str, list[Example]] = {kind: [] for kind in _KINDS}

    def add(self, row: Row) -> None:
        """Count one row, and keep it as an example if few of its kind have been kept."""
        self.count += 1
        self.latencies.append(row.latency_ms or 0.0)
        tokens = row.completion_tokens
        if tokens is None:
            tokens = row.tokens
        self.tokens.append(tokens or 0)
        self.binary = self.binary and row.reward in (None, 0, 1)
        kind = _kind(row)
        self.outcomes[kind or "unscored"] += 1
        if kind == "failed":
            self.causes[row.cause] += 1
        if kind is not None and len(self._examples[kind]) < EXAMPLES_OF_A_KIND:
            self._examples[kind].append(_example(kind, row))

    def shown_examples(self) -> list[Example]:
        """The examples of all kinds, the failed ones first."""
        examples: list[Example] = []
        for examples_of_kind in self._examples.values():
            examples.extend(examples_of_kind)
        return examples


def _with_calls(examples: list[Example], trajectories: Path) -> tuple[Example, ...]:
    """The examples with the tool calls that only ``trajectories.jsonl`` has."""
    keys_without_calls: set[tuple[int, int]] = set()
    for example in examples:
        if not example.calls:
            keys_without_calls.add((example.problem_idx, example.repeat))
    calls_of_row: dict[tuple[int, int], tuple[str, ...]] = {}
    for row in trajectories_of(trajectories, keys_without_calls):
        calls_of_row[row.key] = _calls(row)
    completed: list[Example] = []
    for example in examples:
        calls = example.calls or calls_of_row.get((example.problem_idx, example.repeat), ())
        completed.append(replace(example, calls=calls))
    return tuple(completed)


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
    extracted = None
    if row.extracted is not None:
        extracted = _cut(row.extracted)
    note = row.label
    if row.failed:
        note = f"{row.cause}: {row.error}"
    return Example(
        kind=kind,
        problem_idx=row.problem_idx,
        repeat=row.repeat,
        prompt=_cut(row.prompt),
        response=_cut(row.response),
        expected=_cut(row.expected),
        extracted=extracted,
        note=_cut(note),
        calls=_calls(row),
        judges=tuple(_judges(row.scoring_details)),
    )


def _calls(row: Row) -> tuple[str, ...]:
    """The tool calls of a row with their results, at most twenty."""
    call_texts: list[str] = []
    for step in row.steps:
        observation = as_dict(step.get("observation"))
        result_of_call: dict[Any, JsonDict] = {}
        for result in as_list(observation.get("results")):
            result_of_call[result.get("source_call_id")] = result
        for call in as_list(step.get("tool_calls")):
            arguments = as_dict(call).get("arguments")
            if not isinstance(arguments, str):
                arguments = dumps(arguments).decode()
            text = f"{call.get('function_name')}({arguments})"
            result = as_dict(result_of_call.get(call.get("tool_call_id")))
            output = result.get("content")
            if output is not None:
                text += f"\n→ {output}"
            call_texts.append(_cut(text))
    return tuple(call_texts[:_MOST_CALLS])


def _judges(details: JsonDict, name: str = "judge") -> Iterator[tuple[str, str]]:
    """The names of judges with the reasons that they gave, at any depth of the scoring details."""
    for key, value in details.items():
        if key in _REASONS and isinstance(value, str) and value:
            yield name, _cut(value)
        nested_name = key.removeprefix("scorer:")
        if isinstance(value, dict):
            yield from _judges(value, nested_name)
        elif isinstance(value, list):
            for number, detail in enumerate(value, 1):
                if isinstance(detail, dict):
                    yield from _judges(detail, f"{nested_name} {number}")


def _cut(value: Any) -> str:
    """The value as text; a long text loses its middle."""
    if value is None:
        return ""
    text = str(value)
    characters_left_out = len(text) - _TEXT_LIMIT
    if characters_left_out <= 0:
        return text
    half = _TEXT_LIMIT // 2
    return f"{text[:half]}\n[… {characters_left_out} characters left out …]\n{text[-half:]}"


def histogram(values: np.ndarray) -> Histogram | None:
    """The distribution of the values above 0; None if there are none.

    The largest percent of the values has one bin, so that an outlier does not flatten the rest.
    """
    positive = values[values > 0]
    if not len(positive):
        return None
    minimum = float(positive.min())
    maximum = float(positive.max())
    percentile_99 = float(np.percentile(positive, 99))
    if percentile_99 <= minimum:
        # Nearly all values are equal: one bin, which must not be empty.
        upper_edge = maximum if maximum > minimum else minimum + 1.0
        return Histogram((minimum, upper_edge), (len(positive),))
    edges = np.linspace(minimum, percentile_99, _BINS + 1)
    if maximum > percentile_99:
        edges = np.append(edges, maximum)
    counts, edges = np.histogram(positive, bins=edges)
    return Histogram(tuple(map(float, edges)), tuple(map(int, counts)))
