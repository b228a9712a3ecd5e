"""What the answers themselves tell of a run's health: empty ones, reasoning that was not taken out, labels, retries."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import orjson

from nemo_evaluator.core.shapes import as_number
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.store.sums import verified

_DELIMITERS: Final = (
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("<reasoning>", "</reasoning>"),
    ("[THINK]", "[/THINK]"),
)
_TRUNCATED: Final = frozenset({"length", "max_tokens"})


@dataclass(slots=True)
class Answers:
    """Counts over the scored rows."""

    scored: int = 0
    empty: int = 0
    # Reasoning whose beginning or end is missing, although the model ended by itself.
    unmatched: int = 0
    # Whole reasoning that stands in front of the answer.
    kept: int = 0
    retried: int = 0
    labels: Counter[str] = field(default_factory=Counter)

    def share(self, count: int) -> float:
        """A count as a share of the scored rows."""
        return count / self.scored if self.scored else 0.0

    def add(self, row: JsonDict) -> None:
        """Count one row."""
        if row.get("status", "scored") != "scored" or row.get("failure"):
            return
        self.scored += 1
        attempts = row.get("attempts")
        self.retried += isinstance(attempts, int) and attempts > 1
        label = row.get("label")
        if label:
            # The label says already why there is no proper answer.
            self.labels[str(label)] += 1
            return
        text = row.get("model_response")
        text = text if isinstance(text, str) else ""
        # An agent may leave its answer in a workspace and say nothing; saying nothing may even be right.
        right = (as_number(row.get("reward")) or 0.0) >= 1
        self.empty += not text.strip() and not row.get("trajectory") and not right
        if str(row.get("finish_reason")) not in _TRUNCATED:
            self._reasoning(text)

    def _reasoning(self, text: str) -> None:
        for opening, closing in _DELIMITERS:
            opened, closed = text.count(opening), text.count(closing)
            if opened or closed:
                self.unmatched += opened != closed
                self.kept += opened == closed
                return


def read_answers(results: Path) -> Answers:
    """One pass over ``results.jsonl``; lines that are not rows are left to the accounting."""
    answers = Answers()
    if not results.is_file():
        return answers
    with verified(results).open("rb") as file:
        for line in file:
            try:
                row: Any = orjson.loads(line)
            except orjson.JSONDecodeError:
                continue
            if isinstance(row, dict):
                answers.add(row)
    return answers
