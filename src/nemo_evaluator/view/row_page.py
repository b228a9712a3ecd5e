"""The page of a row: its fields, the request, the answer, timings and steps. Long texts come in parts."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.runs.folder import BenchmarkFolder
from nemo_evaluator.runs.labels import Label, read_labels
from nemo_evaluator.runs.query import IndexedRow, RowFilter, places
from nemo_evaluator.runs.row import Row
from nemo_evaluator.runs.row_file import answer_of, trajectories_of
from nemo_evaluator.store.layout import TaskPaths
from nemo_evaluator.view.page_rows import ListedRow, RowKey, listed_row

# The number of characters of a text, or of one in an agent's step, to send at first.
FIRST: Final = 65_536
_FIRST_IN_A_STEP: Final = 4_096
# The number of characters of a further part.
PART: Final = 1 << 18
# The deepest level of a row's fields to show.
_DEEPEST: Final = 50
# Search a journal up to this size for an answer that the index does not point to.
_SEARCHED: Final = 1 << 29
_MOST_REPEATS: Final = 1000
# The fields of an answer's record to show.
_ANSWER_FIELDS: Final = (
    "messages",
    "prompt",
    "model",
    "content",
    "reasoning_content",
    "time_to_first_token_ms",
    "queue_ms",
    "reasoning_tokens",
    "cached_tokens",
    "from_cache",
    "error",
    "at",
    "attempts",
)
# The fields of a row that the page shows beside its verdict.
_FACT_FIELDS: Final = (
    "status",
    "cause",
    "error",
    "reward",
    "label",
    "truncated",
    "unparsed",
    "refused",
    "tokens",
    "attempts",
)


@dataclass(frozen=True, slots=True)
class RowDetail:
    """Everything about a row, with unshortened texts.

    Attributes:
        row: The row's fields, without its trajectory.
        sent: The messages of the request.
        answer: The fields of the answer's record.
        timing: The durations of the row's parts.
        facts: The fields that the page shows beside the verdict.
        steps: The steps of the trajectory.
    """

    row: JsonDict
    sent: Any
    answer: JsonDict
    timing: Any
    facts: JsonDict
    steps: list[JsonDict]

    def text_at(self, path: str) -> str:
        """Return the text at a path such as ``steps/3/message``.

        Raises:
            UsageError: There is no value at that path.
        """
        value: Any = {
            "row": self.row,
            "sent": self.sent,
            "answer": self.answer,
            "timing": self.timing,
            "facts": self.facts,
            "steps": self.steps,
        }
        for name in path.split("/"):
            try:
                value = value[int(name)] if isinstance(value, list) else value[name]
            except (KeyError, ValueError, IndexError, TypeError) as error:
                raise UsageError(f"the row has no text {path!r}") from error
        return str(value)


@dataclass(frozen=True, slots=True)
class TerminalCommand:
    """A command line, and what it does."""

    what: str
    command: str


@dataclass(frozen=True, slots=True)
class RowPage:
    """The page of a row: the fields of ``RowDetail`` with shortened texts, and what belongs to the row.

    Attributes:
        row: As in ``RowDetail``, like the next five.
        sent: See there.
        answer: See there.
        timing: See there.
        facts: See there.
        steps: See there.
        cut: The paths of shortened texts with their full lengths.
        repeats: All rows of the problem; empty if there is only one.
        label: The label of the row.
        commands: Commands to show the row and to run its problem again.
    """

    row: JsonDict
    sent: Any
    answer: JsonDict
    timing: Any
    facts: JsonDict
    steps: list[JsonDict]
    cut: dict[str, int]
    repeats: list[ListedRow]
    label: Label | None
    commands: list[TerminalCommand]


def row_page(folder: BenchmarkFolder, problem: int, repeat: int) -> RowPage:
    """Return the page of a row.

    Raises:
        UsageError: There is no such row.
    """
    labels = read_labels(folder.path)
    detail, problem_rows = _read(folder, problem, repeat)
    return page_of_row(folder, detail, labels, key=(problem, repeat), problem_rows=problem_rows)


def page_of_row(
    folder: BenchmarkFolder,
    detail: RowDetail,
    labels: Mapping[RowKey, Label],
    *,
    key: RowKey,
    problem_rows: list[IndexedRow],
) -> RowPage:
    """Return the page of a row whose details were read already.

    Args:
        folder: The benchmark.
        detail: Everything about the row.
        labels: The labels of the benchmark.
        key: The problem and repeat of the row.
        problem_rows: All rows of the problem.
    """
    repeats: list[ListedRow] = []
    if len(problem_rows) > 1:
        for indexed_row in problem_rows:
            repeats.append(listed_row(indexed_row, None, labels))
    texts = _Shortener(FIRST)
    step_texts = _Shortener(_FIRST_IN_A_STEP)
    return RowPage(
        row=texts.shorten(detail.row, "row"),
        sent=texts.shorten(detail.sent, "sent"),
        answer=texts.shorten(detail.answer, "answer"),
        timing=texts.shorten(detail.timing, "timing"),
        facts=texts.shorten(detail.facts, "facts"),
        steps=step_texts.shorten(detail.steps, "steps"),
        cut=step_texts.cut | texts.cut,
        repeats=repeats,
        label=labels.get(key),
        commands=_commands(folder, Row(detail.row)),
    )


def text_part(folder: BenchmarkFolder, problem: int, repeat: int, path: str, start: int) -> str:
    """Return a part of a shortened text.

    Args:
        folder: The benchmark.
        problem: The problem of the row.
        repeat: The repeat of the row.
        path: The path of the text within the page, as in ``cut``.
        start: The first character of the part.

    Raises:
        UsageError: There is no such row, or no text at that path.
    """
    detail, _ = _read(folder, problem, repeat)
    text = detail.text_at(path)
    first = max(0, start)
    return text[first : first + PART]


def _read(folder: BenchmarkFolder, problem: int, repeat: int) -> tuple[RowDetail, list[IndexedRow]]:
    """Read everything about a row, and the indexed fields of all rows of its problem.

    Raises:
        UsageError: There is no such row.
    """
    of_problem = RowFilter(problem_idx=problem)
    with folder.reading() as (columns, reader):
        problem_rows = list(places(columns, of_problem, "problem_idx", limit=_MOST_REPEATS))
        requested_rows = [row for row in problem_rows if row.key == (problem, repeat)]
        if not requested_rows:
            raise UsageError(f"{folder.name} has no row of problem {problem}, repeat {repeat}")
        indexed_row = requested_rows[0]
        row = reader.row(indexed_row)
        answer, outcome = reader.records(indexed_row)
    task = TaskPaths(folder.path)
    if outcome is None and task.journal.is_file() and task.journal.stat().st_size < _SEARCHED:
        answer = answer_of(task.journal, row.key)
    row_with_steps = row
    if not row.trajectory:
        row_with_steps = next(trajectories_of(task.trajectories, {row.key}), row)
    detail = row_detail(indexed_row, row, answer, outcome=outcome, steps=row_with_steps.steps)
    return detail, problem_rows


def row_detail(
    indexed_row: IndexedRow,
    row: Row,
    answer: Mapping[str, Any] | None,
    *,
    outcome: Mapping[str, Any] | None,
    steps: list[JsonDict],
) -> RowDetail:
    """Collect everything about a row.

    Args:
        indexed_row: The indexed fields of the row.
        row: The row.
        answer: The answer's record in the journal, if there is one.
        outcome: The outcome's record in the journal, if there is one.
        steps: The steps of the trajectory.
    """
    fields = dict(row.data)
    fields.pop("trajectory", None)
    answer_fields: JsonDict = {}
    for name in _ANSWER_FIELDS:
        if answer is not None and name in answer:
            answer_fields[name] = answer[name]
    timing: Any = {}
    messages = answer_fields.get("messages")
    if outcome is not None:
        timing = outcome.get("timing", {})
        messages = messages or outcome.get("messages")
    facts = {name: getattr(row, name) for name in _FACT_FIELDS}
    facts["bytes"] = indexed_row.length
    return RowDetail(
        row=fields,
        sent=messages or [{"role": "user", "content": row.prompt}],
        answer=answer_fields,
        timing=timing,
        facts=facts,
        steps=steps,
    )


@dataclass(frozen=True, slots=True)
class _Shortener:
    """Shortens the long texts in values, and keeps their paths with their full lengths in ``cut``."""

    most: int
    cut: dict[str, int] = field(default_factory=dict)

    def shorten(self, value: Any, path: str, level: int = 1) -> Any:
        """Return a value with shortened texts.

        Args:
            value: A text, a list, a dict or any other value.
            path: The path of the value within the page.
            level: How deep the value is nested in the page.
        """
        if isinstance(value, str) and len(value) > self.most:
            self.cut[path] = len(value)
            return value[: self.most]
        if not isinstance(value, dict | list):
            return value
        if level > _DEEPEST:
            return f"[nested deeper than {_DEEPEST} levels]"
        if isinstance(value, list):
            items: list[Any] = []
            for position, item in enumerate(value):
                items.append(self.shorten(item, f"{path}/{position}", level + 1))
            return items
        fields: dict[Any, Any] = {}
        for name, part in value.items():
            fields[name] = self.shorten(part, f"{path}/{name}", level + 1)
        return fields


def _commands(folder: BenchmarkFolder, row: Row) -> list[TerminalCommand]:
    """Return the commands to show this problem in a terminal and to run it again."""
    show_command = ["nel", "show", str(folder.path), "--row", str(row.problem_idx)]
    commands = [TerminalCommand("Show it", shlex.join(show_command))]
    run_folder = folder.path.parent
    config = run_folder / "full_config.yaml"
    if config.is_file():
        problem_id = row.problem_hash[:12] or str(row.problem_idx)
        run_command = ["nel", "eval", "run", str(config)]
        run_command += ["--only", problem_id]
        run_command += ["--output-dir", f"{run_folder}_again"]
        commands.append(TerminalCommand("Ask it again", shlex.join(run_command)))
    return commands
