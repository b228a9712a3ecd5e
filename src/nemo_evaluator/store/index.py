"""Where in the journal the newest records of each step are: two offsets a step, so that memory stays flat."""

from array import array
from collections.abc import Iterable

from nemo_evaluator.core.types import JsonDict, Step
from nemo_evaluator.core.values import dataclass, field
from nemo_evaluator.store.journal import Journal
from nemo_evaluator.store.records import ANSWER, OUTCOME, RUN, total_tokens
from nemo_evaluator.store.sealed import Damage

_NONE = -1


@dataclass(slots=True)
class History:
    """Earlier sessions, by the journal.

    Attributes:
        runs: How many there were.
        elapsed: Their seconds in all.
        usd: What their answers cost; answers that were taken over from another run are not counted.
        tokens: The tokens of those answers.
        requests: The requests for those answers.
        fingerprints: The parts of the last session's fingerprints.
        canaries: What the judges made of a right and a wrong answer, in the last session that had judges.
        damage: Damaged records.
        fresh: Whether a session started over on purpose.
        looked_at: The planned ends of those sessions at whose scores a stop rule has looked.
    """

    runs: int = 0
    elapsed: float = 0.0
    usd: float = 0.0
    tokens: int = 0
    requests: int = 0
    fingerprints: JsonDict = field(default_factory=dict)
    canaries: JsonDict = field(default_factory=dict)
    damage: list[Damage] = field(default_factory=list)
    fresh: bool = False
    looked_at: set[int] = field(default_factory=set)
    _started: float | None = None
    _last: float = 0.0

    def note(self, record: JsonDict) -> None:
        """Count a record, in the order of writing."""
        at = record.get("at")
        if record.get("kind") == RUN:
            self.close()
            self.runs += 1
            self.fresh = self.fresh or bool(record.get("fresh"))
            self.fingerprints = record.get("fingerprints", {})
            self.canaries = record.get("canaries") or self.canaries
            if "looked_at" in record:
                self.looked_at.add(record["looked_at"])
            self._started = at or 0.0
            self._last = self._started
        elif at is not None:
            self._last = max(self._last, at)
        # What another run has paid for is not spent again by the one that took it over.
        if record.get("kind") == ANSWER and not record.get("adopted"):
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
        """Note where the answer of a step is."""
        self._answers[step.problem_idx * self._repeats + step.repeat] = offset

    def set_outcome(self, step: Step, offset: int) -> None:
        """Note where the outcome of a step is."""
        self._outcomes[step.problem_idx * self._repeats + step.repeat] = offset

    def answer(self, step: Step) -> int | None:
        """The offset of a step's answer; None when it has none."""
        offset = self._answers[step.problem_idx * self._repeats + step.repeat]
        return None if offset == _NONE else offset

    def outcome(self, step: Step) -> int | None:
        """The offset of a step's outcome; None when it has none."""
        offset = self._outcomes[step.problem_idx * self._repeats + step.repeat]
        return None if offset == _NONE else offset

    def forget(self, step: Step) -> None:
        """Drop both offsets: the step is run again."""
        self.set_answer(step, _NONE)
        self.set_outcome(step, _NONE)

    def release(self) -> None:
        """Give the memory back; the index cannot be used afterwards."""
        self._answers = array("q")
        self._outcomes = array("q")

    def load(self, journal: Journal) -> History:
        """Read the journal of earlier runs; steps outside of this plan's range are left alone."""
        history = History()
        self.take(journal.scan(history.damage.append), history)
        return history

    def take(self, records: Iterable[tuple[int, JsonDict]], history: History) -> None:
        """Index records with their offsets, in the order of writing, and note them in ``history``."""
        # The checksums of the answers that the index leads to: a verdict counts only beside the answer it is on.
        checksums = array("q", [_NONE]) * len(self._answers)
        for offset, record in records:
            kind = record.get("kind")
            history.note(record)
            if kind not in (ANSWER, OUTCOME):
                continue
            at = self._number(record)
            if at is None:
                continue
            if kind == ANSWER:
                self._answers[at] = offset
                self._outcomes[at] = _NONE
                checksums[at] = int(record.get("crc", "0"), 16)
                continue
            # A record with a problem hash is the outcome of a step without an answer.
            counts = "problem_hash" in record
            if not counts and checksums[at] != _NONE:
                counts = "of" not in record or int(record["of"], 16) == checksums[at]
            if counts:
                self._outcomes[at] = offset
        history.close()

    def _number(self, record: JsonDict) -> int | None:
        problem = record.get("problem_idx")
        repeat = record.get("repeat")
        if not isinstance(problem, int) or not isinstance(repeat, int):
            return None
        if not 0 <= problem < self._problems or not 0 <= repeat < self._repeats:
            return None
        return problem * self._repeats + repeat
