"""What the answers themselves tell of a run's health: empty ones, reasoning that was not taken out, labels, retries."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from nemo_evaluator.core.json_coerce import as_dict
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.runs.row import Row

_DELIMITERS: Final = (
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("<reasoning>", "</reasoning>"),
    ("[THINK]", "[/THINK]"),
)


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
    # Agents that reached for their own grading, and those of them that were rewarded.
    tripwires: Counter[str] = field(default_factory=Counter)
    rewarded_trips: int = 0

    def share(self, count: int) -> float:
        """A count as a share of the scored rows."""
        return count / self.scored if self.scored else 0.0

    def add(self, data: JsonDict) -> None:
        """Count one row, whoever wrote it. Rows are many: what is as nel writes it is told by its type alone."""
        row = Row(data)
        get = data.get
        if (get("status") != "scored" or get("failure")) and row.failed:
            return
        self.scored += 1
        if get("attempts") != 1:
            self.retried += row.attempts > 1
        tripped = as_dict(as_dict(get("scoring_details")).get("tripwires"))
        if tripped:
            self.tripwires.update(tripped.keys())
            self.rewarded_trips += (row.reward or 0.0) > 0
        if get("label"):
            # The label says already why there is no proper answer.
            self.labels[row.label] += 1
            return
        text = get("model_response")
        if type(text) is not str:
            text = row.response
        # An agent may leave its answer in a workspace and say nothing; saying nothing may even be right.
        if not text.strip():
            self.empty += not row.trajectory and not row.right
        if ("<" in text or "[" in text) and not row.truncated:
            self._reasoning(text)

    def _reasoning(self, text: str) -> None:
        for opening, closing in _DELIMITERS:
            opened = text.count(opening)
            closed = text.count(closing)
            if opened or closed:
                self.unmatched += opened != closed
                self.kept += opened == closed
                return
