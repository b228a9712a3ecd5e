"""The rows of a finished benchmark as columns, collected in one pass over the journal while the views are written."""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.runs.answers import Answers
from nemo_evaluator.runs.bundle import NOT_BREAKDOWNS
from nemo_evaluator.runs.row_parser import cluster_key, content_key
from nemo_evaluator.runs.row_table import Floats, Ints, RowTable, WrittenRows
from nemo_evaluator.statistics.clusters import codes_of_clusters
from nemo_evaluator.store.view_rows import is_refusal

if TYPE_CHECKING:
    from nemo_evaluator.store.bundle_document import Exemplar
    from nemo_evaluator.store.journal_record import AnswerRecord, OutcomeRecord, QuestionFields
    from nemo_evaluator.store.result_row import ResultRow

_EXEMPLARS: Final = 3
_EXEMPLAR_CHARS: Final = 500
_GROUP_CHARS: Final = 100
_GROUPS_MAX: Final = 50
_BYTE_CODES: Final = 256
_NO_CATEGORY: Final = "unknown"
_TOKENS: Final = ("prompt_tokens", "completion_tokens", "reasoning_tokens", "cached_tokens")
# Columns of the row table that the check of a run does not read.
_UNCHECKED: Final = (
    "prompt",
    "expected",
    "category",
    "tokens",
    "total",
    "cost",
    "unanswered",
    "offset",
)


@dataclass(slots=True)
class Labels:
    """A column of texts, stored as small integers."""

    # One byte per row while there are few distinct texts.
    codes: array[int] = field(default_factory=lambda: array("B"))
    names: dict[str, int] = field(default_factory=dict)

    def add(self, name: str) -> None:
        """Append a text."""
        code = self.names.setdefault(name, len(self.names))
        if code == _BYTE_CODES and self.codes.typecode == "B":
            self.codes = array("i", self.codes)
        self.codes.append(code)

    def counts(self) -> Counter[str]:
        """Return how often each text occurs."""
        names = list(self.names)
        return Counter({names[code]: count for code, count in Counter(self.codes).items()})


@dataclass(slots=True)
class ExtraColumn:
    """The rewards of a further scorer, with the problem and the cluster of each row that it scored."""

    problem: array[int] = field(default_factory=lambda: array("i"))
    reward: array[float] = field(default_factory=lambda: array("d"))
    cluster: array[int] = field(default_factory=lambda: array("q"))


@dataclass(slots=True)
class Columns:
    """The columns, with one entry per row; ``category``, ``groups`` and ``extra`` have scored rows only."""

    problem: array[int] = field(default_factory=lambda: array("i"))
    repeat: array[int] = field(default_factory=lambda: array("i"))
    # NaN for failed steps.
    reward: array[float] = field(default_factory=lambda: array("d"))
    content: array[int] = field(default_factory=lambda: array("Q"))
    # The hash of its cluster; 0 for a problem of its own.
    cluster: array[int] = field(default_factory=lambda: array("q"))
    cause: Labels = field(default_factory=lambda: Labels(names={"": 0}))
    finish: Labels = field(default_factory=Labels)
    # NaN for steps without an answer.
    latency: array[float] = field(default_factory=lambda: array("f"))
    queue: array[float] = field(default_factory=lambda: array("f"))
    unparsed: array[int] = field(default_factory=lambda: array("B"))
    refused: array[int] = field(default_factory=lambda: array("B"))
    category: Labels = field(default_factory=Labels)
    has_category: bool = False
    extra: dict[str, ExtraColumn] = field(default_factory=dict)
    groups: dict[str, Labels] = field(default_factory=dict)
    totals: Counter[str] = field(default_factory=Counter)
    cost_usd: float = 0.0
    planned: int = 0
    scored: int = 0
    failed: int = 0
    answered: int = 0
    # Fallback methods used for rows that a judge should have scored.
    fallbacks: Counter[str] = field(default_factory=Counter)
    # Who computed the rewards that nel took over: a harness, a server, a solver.
    scored_by: Counter[str] = field(default_factory=Counter)
    # Forbidden actions of agents, and the number of rows with one.
    tripwires: Counter[str] = field(default_factory=Counter)
    tripped: int = 0
    samples: int = 0
    # Causes of failed rows, and flaws of scored ones.
    failures: Counter[str] = field(default_factory=Counter)
    exemplars: dict[str, list[Exemplar]] = field(default_factory=dict)
    # Checksums of the views, by path.
    digests: dict[Path, str] = field(default_factory=dict)
    answers: Answers = field(default_factory=Answers)

    def add(
        self, answer: AnswerRecord | None, outcome: OutcomeRecord, row: ResultRow
    ) -> str | None:
        """Add one step.

        Args:
            answer: The record of its answer, if it has one.
            outcome: The record of its outcome.
            row: Its row in ``results.jsonl``.

        Returns:
            Its failure category; None if it has none.
        """
        failed = outcome["status"] == "failed"
        cause = ""
        if failed:
            failure = outcome.get("failure")
            cause = str(failure.get("cause") or "unknown") if failure else "unknown"
        text = row["model_response"]
        reward = row["reward"]
        refused = is_refusal(text, row["finish_reason"])
        unparsed = not failed and bool(row.get("unparsed"))
        self.problem.append(row["problem_idx"])
        self.repeat.append(row["repeat"])
        self.reward.append(math.nan if failed or reward is None else reward)
        self.content.append(content_key(row["problem_hash"]))
        self.cluster.append(cluster_key(row.get("cluster")))
        self.cause.add(cause)
        self.finish.add(row["finish_reason"] or "")
        self.unparsed.append(unparsed)
        self.refused.append(refused)
        self.answers.add(row)
        self._add_answer(answer, row["tokens"])
        category = cause or outcome.get("label")
        if not category and refused:
            category = "refusal"
        elif not category and unparsed and text:
            category = "format_error"
        if category:
            self._add_failure(category, answer, outcome)
        if failed:
            self.failed += 1
        else:
            self._add_scored(answer, outcome, row["scorer_rewards"])
        return category or None

    def _add_answer(self, answer: AnswerRecord | None, tokens: int) -> None:
        """Add latency, tokens, attempts and cost of an answer, if there is one."""
        if answer is None:
            self.latency.append(math.nan)
            self.queue.append(math.nan)
            return
        totals = self.totals
        self.answered += 1
        self.latency.append(answer.get("latency_ms") or 0.0)
        self.queue.append(answer.get("queue_ms") or 0.0)
        totals["prompt_tokens"] += answer.get("prompt_tokens") or 0
        totals["completion_tokens"] += answer.get("completion_tokens") or 0
        totals["reasoning_tokens"] += answer.get("reasoning_tokens") or 0
        totals["cached_tokens"] += answer.get("cached_tokens") or 0
        totals["total_tokens"] += tokens
        totals["attempts"] += answer.get("attempts") or 1
        self.cost_usd += answer.get("cost_usd") or 0.0

    def _add_failure(
        self, category: str, answer: AnswerRecord | None, outcome: OutcomeRecord
    ) -> None:
        """Count a failure, and keep it as an example if there are few of its category."""
        self.failures[category] += 1
        exemplars = self.exemplars.setdefault(category, [])
        if len(exemplars) >= _EXEMPLARS:
            return
        failure = outcome.get("failure")
        text = failure.get("message") or "" if failure else ""
        if not text and answer is not None:
            text = answer.get("error") or answer.get("response") or ""
        exemplars.append(
            {
                "problem_idx": outcome["problem_idx"],
                "repeat": outcome["repeat"],
                "error": text[:_EXEMPLAR_CHARS],
            }
        )

    def _add_scored(
        self, answer: AnswerRecord | None, outcome: OutcomeRecord, more: Mapping[str, float | None]
    ) -> None:
        """Add a scored row's fallback, tripwires, category and rewards of further scorers."""
        self.scored += 1
        details = outcome["scoring_details"]
        if "fallback" in details:
            self.fallbacks[str(details["fallback"])] += 1
        if "scored_by" in details:
            self.scored_by[str(details["scored_by"])] += 1
        tripwires = details.get("tripwires")
        if tripwires:
            self.tripped += 1
            self.tripwires.update(map(str, tripwires))
        question: QuestionFields = answer or outcome
        metadata = question.get("metadata") or {}
        category = metadata.get("category") or details.get("category")
        if category or self.has_category:
            self._add_category(category)
        for name, reward in more.items():
            if reward is not None:
                column = self.extra.setdefault(name, ExtraColumn())
                column.problem.append(outcome["problem_idx"])
                column.reward.append(float(reward))
                column.cluster.append(self.cluster[-1])
        if self.groups or self.scored == 1:
            self._add_groups(details)

    def _add_category(self, category: object) -> None:
        """Add the category of a scored row; before the first row that has one, no row has an entry."""
        if not self.has_category:
            self.has_category = True
            for _ in range(self.scored - 1):
                self.category.add(_NO_CATEGORY)
        self.category.add(str(category) if category else _NO_CATEGORY)

    def _add_groups(self, details: JsonDict) -> None:
        """Add a row to the breakdowns, dropping those whose values are long, of another type or too many."""
        if self.scored == 1:
            for key, value in details.items():
                if key not in NOT_BREAKDOWNS and isinstance(value, (bool, str)):
                    self.groups[key] = Labels()
        for key, labels in list(self.groups.items()):
            value = details.get(key)
            is_short_text = isinstance(value, str) and len(value) < _GROUP_CHARS
            has_few_values = len(labels.names) <= _GROUPS_MAX
            if has_few_values and (isinstance(value, bool) or is_short_text):
                labels.add(str(value))
            else:
                del self.groups[key]

    def scores(self) -> tuple[Ints, Floats]:
        """Return the problem and the reward of each scored row."""
        problem = np.asarray(self.problem)
        reward = np.asarray(self.reward)
        is_scored = ~np.isnan(reward)
        if is_scored.all():
            return problem, reward
        return problem[is_scored], reward[is_scored]

    def clusters(self) -> Ints | None:
        """Return the cluster of each scored row as a code; None if no problem shares one."""
        cluster = np.asarray(self.cluster)
        if not cluster.any():
            return None
        is_scored = ~np.isnan(np.asarray(self.reward))
        problem = np.asarray(self.problem)[is_scored]
        return codes_of_clusters(cluster[is_scored], problem)

    def written(self) -> WrittenRows:
        """Return the rows for the check of the run, without the columns that it does not read."""
        no_column: Any = None
        table = RowTable(
            None,
            **dict.fromkeys(_UNCHECKED, no_column),
            problem=np.asarray(self.problem),
            repeat=np.asarray(self.repeat),
            reward=np.asarray(self.reward),
            content=np.asarray(self.content),
            cluster=np.asarray(self.cluster),
            cause=np.asarray(self.cause.codes),
            finish=np.asarray(self.finish.codes),
            latency=np.nan_to_num(np.asarray(self.latency)),
            unparsed=np.asarray(self.unparsed, dtype=bool),
            refusal=np.asarray(self.refused, dtype=bool),
            categories=[],
            causes=list(self.cause.names),
            finishes=list(self.finish.names),
        )
        return WrittenRows(table, self.answers)
