"""Health figures from a run's answers: empty ones, reasoning that was not removed, labels, retries."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from nemo_evaluator.core.json_coerce import as_dict
from nemo_evaluator.runs.row import Row
from nemo_evaluator.runs.shared_texts import SharedTexts

_DELIMITERS: Final = (
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("<reasoning>", "</reasoning>"),
    ("[THINK]", "[/THINK]"),
)


@dataclass(slots=True)
class Answers:
    """Counts over the scored rows.

    Attributes:
        scored: Rows with a verdict.
        empty: Empty answers that should not be empty.
        unmatched: Answers with only one end of a reasoning block, although the model stopped by itself.
        kept: Answers with a complete reasoning block in front.
        retried: Rows that took more than one attempt.
        unkeyed: Rows with an empty expected answer.
        labels: Labelled rows by label.
        tripwires: Rows in which an agent tried to access its own grading, by tripwire.
        rewarded_trips: Those of them that got a reward.
        shared_texts: Long texts that several problems share.
    """

    scored: int = 0
    empty: int = 0
    # Reasoning whose beginning or end is missing, although the model stopped by itself.
    unmatched: int = 0
    # Complete reasoning in front of the answer.
    kept: int = 0
    retried: int = 0
    unkeyed: int = 0
    labels: Counter[str] = field(default_factory=Counter)
    # Agents that tried to access their own grading, and those of them that were rewarded.
    tripwires: Counter[str] = field(default_factory=Counter)
    rewarded_trips: int = 0
    shared_texts: SharedTexts = field(default_factory=SharedTexts)

    def share(self, count: int) -> float:
        """Return a count as a share of the scored rows."""
        return count / self.scored if self.scored else 0.0

    def add(self, data: Mapping[str, Any]) -> None:
        """Count one row of any writer.

        There are many rows, so values in nel's own form are recognized by their type alone.
        """
        row = Row(data)
        get = data.get
        if (get("status") != "scored" or get("failure")) and row.failed:
            return
        self.scored += 1
        expected = get("expected_answer")
        if not expected or not str(expected).strip():
            self.unkeyed += 1
        self.shared_texts.add(data)
        if get("attempts") != 1:
            self.retried += row.attempts > 1
        tripped = as_dict(as_dict(get("scoring_details")).get("tripwires"))
        if tripped:
            self.tripwires.update(tripped.keys())
            self.rewarded_trips += (row.reward or 0.0) > 0
        if get("label"):
            # The label already says why there is no proper answer.
            self.labels[row.label] += 1
            return
        text = get("model_response")
        if type(text) is not str:
            text = row.response
        # An agent may leave its answer in a workspace and reply with nothing; an empty answer may even be right.
        if not text.strip():
            self.empty += not row.trajectory and not row.right
        if ("<" in text or "[" in text) and not row.truncated:
            self._reasoning(text)

    def _reasoning(self, text: str) -> None:
        """Count reasoning delimiters that are left in an answer."""
        for opening, closing in _DELIMITERS:
            opening_count = text.count(opening)
            closing_count = text.count(closing)
            if opening_count or closing_count:
                self.unmatched += opening_count != closing_count
                self.kept += opening_count == closing_count
                return
