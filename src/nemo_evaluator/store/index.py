"""The journal offsets of the newest records of each sample: two numbers per sample, so that memory stays flat."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from typing import TYPE_CHECKING

from nemo_evaluator.core.types import JsonDict, Step
from nemo_evaluator.core.values import dataclass, field
from nemo_evaluator.store.journal import Journal
from nemo_evaluator.store.records import ANSWER, OUTCOME, RUN, total_tokens
from nemo_evaluator.store.sealed import Damage

if TYPE_CHECKING:
    from nemo_evaluator.store.journal_record import FingerprintParts, JudgeCheck

_NONE = -1


def _no_fingerprints() -> FingerprintParts:
    return {}


@dataclass(slots=True)
class History:
    """What the journal records about earlier sessions.

    Attributes:
        runs: The number of sessions.
        elapsed: Their total time in seconds.
        usd: The cost of their answers, without answers adopted from another run.
        tokens: The tokens of those answers.
        requests: The requests for those answers.
        fingerprints: The parts of the last session's fingerprints.
        canaries: The judges' verdicts on a right and a wrong answer, from the last session with judges.
        damage: Damaged records.
        fresh: Whether a session deliberately started over.
        looked_at: The planned ends at which a stop rule inspected the scores of these sessions.
    """

    runs: int = 0
    elapsed: float = 0.0
    usd: float = 0.0
    tokens: int = 0
    requests: int = 0
    fingerprints: FingerprintParts = field(default_factory=_no_fingerprints)
    canaries: dict[str, JudgeCheck] = field(default_factory=dict)
    damage: list[Damage] = field(default_factory=list)
    fresh: bool = False
    looked_at: set[int] = field(default_factory=set)
    _started: float | None = None
    _last: float = 0.0

    def note(self, record: JsonDict) -> None:
        """Count one record; records must come in the order of writing."""
        timestamp = record.get("at")
        if record.get("kind") == RUN:
            self.close()
            self.runs += 1
            self.fresh = self.fresh or bool(record.get("fresh"))
            self.fingerprints = record.get("fingerprints", {})
            self.canaries = record.get("canaries") or self.canaries
            if "looked_at" in record:
                self.looked_at.add(record["looked_at"])
            self._started = timestamp or 0.0
            self._last = self._started
        elif timestamp is not None:
            self._last = max(self._last, timestamp)
        # The run that first got an adopted answer has already paid for it.
        if record.get("kind") == ANSWER and not record.get("adopted"):
            self.usd += record.get("cost_usd") or 0.0
            self.tokens += total_tokens(record)
            self.requests += record.get("attempts") or 1

    def close(self) -> None:
        """Add the duration of the session that was being read to the total."""
        if self._started is not None:
            self.elapsed += max(0.0, self._last - self._started)
            self._started = None


class StepIndex:
    """The offsets of the newest answer and outcome of every sample in a plan."""

    def __init__(self, problems: int, repeats: int) -> None:
        """Create an empty index for a plan of ``problems`` times ``repeats`` samples."""
        self._problems = problems
        self._repeats = repeats
        size = problems * repeats
        self._answers = array("q", [_NONE]) * size
        self._outcomes = array("q", [_NONE]) * size

    def set_answer(self, step: Step, offset: int) -> None:
        """Record the offset of a sample's answer."""
        self._answers[step.problem_idx * self._repeats + step.repeat] = offset

    def set_outcome(self, step: Step, offset: int) -> None:
        """Record the offset of a sample's outcome."""
        self._outcomes[step.problem_idx * self._repeats + step.repeat] = offset

    def answer(self, step: Step) -> int | None:
        """Return the offset of a sample's answer, or None if it has none."""
        offset = self._answers[step.problem_idx * self._repeats + step.repeat]
        return None if offset == _NONE else offset

    def outcome(self, step: Step) -> int | None:
        """Return the offset of a sample's outcome, or None if it has none."""
        offset = self._outcomes[step.problem_idx * self._repeats + step.repeat]
        return None if offset == _NONE else offset

    def forget(self, step: Step) -> None:
        """Drop both offsets of a sample, so that it runs again."""
        self.set_answer(step, _NONE)
        self.set_outcome(step, _NONE)

    def release(self) -> None:
        """Free the memory; the index cannot be used afterwards."""
        self._answers = array("q")
        self._outcomes = array("q")

    def load(self, journal: Journal) -> History:
        """Index the journal of earlier sessions; samples outside this plan are ignored."""
        history = History()
        self.take(journal.scan(history.damage.append), history)
        return history

    def take(self, records: Iterable[tuple[int, JsonDict]], history: History) -> None:
        """Index records with their offsets and count them in ``history``.

        Args:
            records: Offsets and records, in the order of writing.
            history: Collects the statistics of the sessions.
        """
        # The checksums of the indexed answers: a verdict counts only together with the answer it judged.
        checksums = array("q", [_NONE]) * len(self._answers)
        for offset, record in records:
            kind = record.get("kind")
            history.note(record)
            if kind not in (ANSWER, OUTCOME):
                continue
            position = self._number(record)
            if position is None:
                continue
            if kind == ANSWER:
                self._answers[position] = offset
                self._outcomes[position] = _NONE
                checksums[position] = int(record.get("crc", "0"), 16)
                continue
            # A record with a problem hash is the outcome of a step without an answer.
            is_current = "problem_hash" in record
            if not is_current and checksums[position] != _NONE:
                is_current = "of" not in record or int(record["of"], 16) == checksums[position]
            if is_current:
                self._outcomes[position] = offset
        history.close()

    def _number(self, record: JsonDict) -> int | None:
        """Return the position of a record's sample in the arrays, or None if it is outside the plan."""
        problem = record.get("problem_idx")
        repeat = record.get("repeat")
        if not isinstance(problem, int) or not isinstance(repeat, int):
            return None
        if not 0 <= problem < self._problems or not 0 <= repeat < self._repeats:
            return None
        return problem * self._repeats + repeat
