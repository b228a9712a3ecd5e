"""Where in the journal the newest records of each step are: two offsets a step, so that memory stays flat."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field

from nemo_evaluator.core.types import JsonDict, Step
from nemo_evaluator.store.journal import Journal
from nemo_evaluator.store.records import ANSWER, OUTCOME, RUN, total_tokens

_NONE = -1


@dataclass(slots=True)
class History:
    """What the journal says of the runs before this one."""

    runs: int = 0
    elapsed: float = 0.0
    usd: float = 0.0
    tokens: int = 0
    requests: int = 0
    fingerprints: JsonDict = field(default_factory=dict)
    # What the judges of the last run that had any made of a right and a wrong answer.
    canaries: JsonDict = field(default_factory=dict)
    # How many problems were planned in those whose scores a stop rule has looked at.
    looked_at: set[int] = field(default_factory=set)
    _started: float | None = None
    _last: float = 0.0

    def note(self, record: JsonDict) -> None:
        """Take in one record."""
        at = record.get("at")
        if record.get("kind") == RUN:
            self.close()
            self.runs += 1
            self.fingerprints = record.get("fingerprints", {})
            self.canaries = record.get("canaries") or self.canaries
            self.looked_at |= {record["looked_at"]} if "looked_at" in record else set()
            self._started = self._last = at or 0.0
        elif at is not None:
            self._last = max(self._last, at)
        if record.get("kind") == ANSWER:
            self.usd += record.get("cost_usd") or 0.0
            self.tokens += total_tokens(record)
            self.requests += record.get("attempts") or 1

    def close(self) -> None:
        """Add the time of the run that was being read."""
        if self._started is not None:
            self.elapsed += max(0.0, self._last - self._started)
            self._started = None


class StepIndex:
    """Offsets of the newest answer and outcome of every step of a plan."""

    def __init__(self, problems: int, repeats: int) -> None:
        self._problems = problems
        self._repeats = repeats
        size = problems * repeats
        self._answers = array("q", [_NONE]) * size
        self._outcomes = array("q", [_NONE]) * size

    def set_answer(self, step: Step, offset: int) -> None:
        """Remember the newest answer of a step."""
        self._answers[step.problem_idx * self._repeats + step.repeat] = offset

    def set_outcome(self, step: Step, offset: int) -> None:
        """Remember the newest outcome of a step."""
        self._outcomes[step.problem_idx * self._repeats + step.repeat] = offset

    def answer(self, step: Step) -> int | None:
        """The offset of the newest answer, if there is one."""
        offset = self._answers[step.problem_idx * self._repeats + step.repeat]
        return None if offset == _NONE else offset

    def outcome(self, step: Step) -> int | None:
        """The offset of the newest outcome, if there is one."""
        offset = self._outcomes[step.problem_idx * self._repeats + step.repeat]
        return None if offset == _NONE else offset

    def forget(self, step: Step) -> None:
        """Drop both offsets: the step is done anew."""
        self.set_answer(step, _NONE)
        self.set_outcome(step, _NONE)

    def load(self, journal: Journal) -> History:
        """Read the journal of earlier runs; steps outside of this plan's range are left alone."""
        history = History()
        for offset, record in journal.scan():
            kind = record.get("kind")
            history.note(record)
            if kind not in (ANSWER, OUTCOME):
                continue
            step = Step(record["problem_idx"], record["repeat"])
            if step.problem_idx >= self._problems or step.repeat >= self._repeats:
                continue
            if kind == ANSWER:
                self.set_answer(step, offset)
            else:
                self.set_outcome(step, offset)
        history.close()
        return history
