"""The numbers of a finished benchmark as columns, gathered in one pass over the journal while the views are written."""

from __future__ import annotations

import hashlib
import io
import os
from array import array
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from nemo_evaluator.core.failures import POLICY, Cause, Row
from nemo_evaluator.core.files import dumps
from nemo_evaluator.core.types import JsonDict, ModelResponse, Step
from nemo_evaluator.engine.plan import Plan
from nemo_evaluator.runs.bundle import NOT_BREAKDOWNS
from nemo_evaluator.runs.row_table import WrittenRows
from nemo_evaluator.solvers.trajectory import single_turn
from nemo_evaluator.store.index import StepIndex
from nemo_evaluator.store.journal import Journal
from nemo_evaluator.store.layout import TaskPaths
from nemo_evaluator.store.sums import FILE as SUMS
from nemo_evaluator.store.view_rows import (
    TRUNCATED,
    content_of,
    failure_category,
    is_unparsed,
    result_row,
    trajectory_row,
)

_EXEMPLARS: Final = 3
_EXEMPLAR_CHARS: Final = 500
_GROUP_CHARS: Final = 100
_GROUPS_MAX: Final = 50
_TOKENS: Final = ("prompt_tokens", "completion_tokens", "reasoning_tokens", "cached_tokens")


@dataclass(slots=True)
class Labels:
    """A column of words as small numbers."""

    codes: array[int] = field(default_factory=lambda: array("i"))
    names: dict[str, int] = field(default_factory=dict)

    def add(self, name: str) -> None:
        """Append a word."""
        self.codes.append(self.names.setdefault(name, len(self.names)))


@dataclass(slots=True)
class Columns:
    """One entry per scored row in ``problem``/``reward``/``category``; one per answer in ``latency`` and ``queue``."""

    problem: array[int] = field(default_factory=lambda: array("i"))
    reward: array[float] = field(default_factory=lambda: array("d"))
    category: Labels = field(default_factory=Labels)
    has_category: bool = False
    latency: array[float] = field(default_factory=lambda: array("f"))
    queue: array[float] = field(default_factory=lambda: array("f"))
    extra: dict[str, tuple[array[int], array[float]]] = field(default_factory=dict)
    groups: dict[str, Labels] = field(default_factory=dict)
    finish_reasons: Counter[str] = field(default_factory=Counter)
    totals: Counter[str] = field(default_factory=Counter)
    cost_usd: float = 0.0
    planned: int = 0
    scored: int = 0
    failed: int = 0
    truncated: int = 0
    unparsed: int = 0
    # How rows were scored that a judge should have scored.
    fallbacks: Counter[str] = field(default_factory=Counter)
    # What agents did to reach their own grading, and in how many rows.
    tripwires: Counter[str] = field(default_factory=Counter)
    tripped: int = 0
    samples: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    # Causes of the rows that failed; ``failures`` has flaws of scored ones as well.
    failed_by: Counter[str] = field(default_factory=Counter)
    exemplars: dict[str, list[JsonDict]] = field(default_factory=dict)
    # What the views hold, by path.
    digests: dict[Path, str] = field(default_factory=dict)
    written: WrittenRows | None = None

    def add(self, answer: JsonDict | None, outcome: JsonDict, row: JsonDict) -> str | None:
        """Take in one step and its row; returns its failure category, if it has one."""
        if answer is not None:
            self._add_answer(answer, row["tokens"])
        category = failure_category(answer, outcome)
        if category is not None:
            self._add_failure(category, answer, outcome)
        if outcome["status"] == "failed":
            self.failed += 1
            self.failed_by[str((outcome.get("failure") or {}).get("cause") or "unknown")] += 1
        else:
            self._add_scored(answer, outcome, row["scorer_rewards"])
        return category

    def _add_answer(self, answer: JsonDict, tokens: int) -> None:
        self.latency.append(answer.get("latency_ms") or 0.0)
        self.queue.append(answer.get("queue_ms") or 0.0)
        reason = answer.get("finish_reason")
        if reason:
            self.finish_reasons[reason] += 1
            self.truncated += reason in TRUNCATED
        for key in _TOKENS:
            count = answer.get(key)
            if count:
                self.totals[key] += count
        self.totals["total_tokens"] += tokens
        self.totals["attempts"] += answer.get("attempts") or 1
        self.cost_usd += answer.get("cost_usd") or 0.0

    def _add_failure(self, category: str, answer: JsonDict | None, outcome: JsonDict) -> None:
        self.failures[category] += 1
        shown = self.exemplars.setdefault(category, [])
        if len(shown) < _EXEMPLARS:
            failure = outcome.get("failure") or {}
            text = failure.get("message") or (answer or {}).get("error") or (answer or {}).get("response") or ""
            where = {"problem_idx": outcome["problem_idx"], "repeat": outcome["repeat"]}
            shown.append(where | {"error": text[:_EXEMPLAR_CHARS]})

    def _add_scored(self, answer: JsonDict | None, outcome: JsonDict, more: JsonDict) -> None:
        self.scored += 1
        self.problem.append(outcome["problem_idx"])
        self.reward.append(outcome["reward"])
        self.unparsed += is_unparsed(outcome)
        details = outcome["scoring_details"]
        if "fallback" in details:
            self.fallbacks[str(details["fallback"])] += 1
        if tripwires := details.get("tripwires"):
            self.tripped += 1
            self.tripwires.update(map(str, tripwires))
        category = ((answer or outcome).get("metadata") or {}).get("category") or details.get("category")
        if category and not self.has_category:
            self.has_category = True
            for _ in range(self.scored - 1):
                self.category.add("unknown")
        if self.has_category:
            self.category.add(str(category) if category else "unknown")
        for name, reward in more.items():
            if reward is not None:
                rows = self.extra.setdefault(name, (array("i"), array("d")))
                rows[0].append(outcome["problem_idx"])
                rows[1].append(float(reward))
        if self.groups or self.scored == 1:
            self._add_groups(details)

    def _add_groups(self, details: JsonDict) -> None:
        if self.scored == 1:
            self.groups = {
                key: Labels()
                for key, value in details.items()
                if key not in NOT_BREAKDOWNS and isinstance(value, (bool, str))
            }
        for key, labels in list(self.groups.items()):
            value = details.get(key)
            groupable = isinstance(value, bool) or (isinstance(value, str) and len(value) < _GROUP_CHARS)
            if not groupable or len(labels.names) > _GROUPS_MAX:
                del self.groups[key]
            else:
                labels.add(str(value))


def write_views(
    task: TaskPaths,
    plan: Plan,
    journal: Journal,
    index: StepIndex,
    *,
    full: bool = False,
) -> Columns:
    """Write results.jsonl (``full``: with trajectories) and trajectories.jsonl by problem, and gather the columns."""
    columns = Columns(planned=len(plan))
    written = columns.written = WrittenRows(task.results, len(plan))
    offset = 0
    # It speaks of the earlier rows; it is written again with the bundle.
    (task.root / SUMS).unlink(missing_ok=True)
    rows_file, turns_file = _Replacing(task.results), _Replacing(task.trajectories)
    with rows_file as results, turns_file as trajectories:
        for problem in _in_order(plan):
            rows = 0
            for repeat in range(plan.repeats):
                step = Step(problem, repeat)
                outcome_at, answer_at = index.outcome(step), index.answer(step)
                if outcome_at is None:
                    continue
                # In the order in which they were written.
                answer = journal.read_at(answer_at) if answer_at is not None else None
                outcome = journal.read_at(outcome_at)
                if outcome["status"] == "failed" and POLICY[Cause(outcome["failure"]["cause"])].row is Row.ABSENT:
                    continue
                rows += 1
                row = result_row(answer, outcome)
                category = columns.add(answer, outcome, row)
                turns = trajectory_of(answer, row) if answer is not None else []
                shown = row | {"trajectory": turns} if full and turns else row
                written.add(offset, shown)
                offset += results(dumps(shown) + b"\n")
                trajectories(dumps(trajectory_row(answer, outcome, row, turns, category)) + b"\n")
            columns.samples += rows > 0
    columns.digests = {file.path: file.digest for file in (rows_file, turns_file)}
    return columns


def trajectory_of(answer: JsonDict, row: JsonDict) -> list[JsonDict]:
    """One ATIF document, in a list; empty when the answer came from no model. ``row`` is the step's."""
    stored: list[JsonDict] = answer.get("trajectory") or []
    if stored or "finish_reason" not in answer:
        return stored
    reply = ModelResponse(
        content=content_of(answer),
        model=answer.get("model", ""),
        finish_reason=answer["finish_reason"],
        prompt_tokens=answer.get("prompt_tokens"),
        completion_tokens=answer.get("completion_tokens"),
        reasoning_tokens=answer.get("reasoning_tokens"),
        latency_ms=answer.get("latency_ms") or 0.0,
        reasoning_content=answer.get("reasoning_content"),
    )
    return single_turn(row["prompt"], reply, messages=answer.get("messages"))


def _in_order(plan: Plan) -> Iterator[int]:
    """The problems of a plan by number, at a byte a problem."""
    chosen = bytearray(plan.dataset_size)
    for problem in plan.problems:
        chosen[problem] = 1
    return (problem for problem in range(plan.dataset_size) if chosen[problem])


class _Hashed(io.FileIO):
    """A file with the digest of what was written to it; buffered, so that this is done for many lines at once."""

    def __init__(self, path: Path, mode: str) -> None:
        super().__init__(path, mode)
        self.hash = hashlib.sha256()

    def write(self, data: Any, /) -> int:
        """Write what the system takes at once, and hash that much."""
        written = super().write(data)
        self.hash.update(memoryview(data)[:written])
        return written


class _Replacing:
    """A file that replaces its predecessor only when it was written whole; what is written is hashed on the way."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._temporary = path.with_name(f".{path.name}.writing")
        self.digest = ""

    def __enter__(self) -> Callable[[bytes], int]:
        self._raw = _Hashed(self._temporary, "wb")
        self._file = io.BufferedWriter(self._raw, 1 << 18)
        return self._file.write

    def __exit__(self, kind: object, *_: object) -> None:
        try:
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
            self.digest = self._raw.hash.hexdigest()
            if kind is None:
                self._temporary.replace(self.path)
        finally:
            self._temporary.unlink(missing_ok=True)
