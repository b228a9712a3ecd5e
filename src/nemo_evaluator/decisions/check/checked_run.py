"""What a check looks at: a run, its rows and answers, and the limits from which a problem degrades it."""

from dataclasses import dataclass

import numpy as np

from nemo_evaluator.runs.answers import Answers
from nemo_evaluator.runs.bundle import Bundle
from nemo_evaluator.runs.row_table import RowTable


@dataclass(frozen=True, slots=True)
class CheckLimits:
    """The share of answers from which a problem degrades the run; below it the problem is only a note.

    Attributes:
        truncated: Truncated answers; also prompts that exceed the context and tasks that ran out of budget.
        unparsed: Answers that could not be parsed; also empty answers.
        failed: Failed rows.
        refusals: Answers that look like refusals without being right.
        reasoning: Answers with an unmatched reasoning tag.
        retried: Retried steps; above the limit they are noted, never more.
        slow: How many times slower than the median the slowest answer must be to be noted.
    """

    truncated: float = 0.05
    unparsed: float = 0.05
    failed: float = 0.005
    refusals: float = 0.10
    reasoning: float = 0.05
    retried: float = 0.05
    slow: float = 20.0


@dataclass(frozen=True, slots=True)
class CheckedRun:
    """The run under check: its rows, the limits, and what its answers look like."""

    run: Bundle
    rows: RowTable
    limits: CheckLimits
    answers: Answers

    def share(self, flags: np.ndarray) -> float:
        """The share of scored rows for which a flag is set; 0 without scored rows."""
        scored = self.rows.scored
        if scored.any():
            return float(flags[scored].mean())
        return 0.0
