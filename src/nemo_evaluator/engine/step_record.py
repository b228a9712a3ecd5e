"""The state of a running step, and its records in the journal."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from nemo_evaluator.core.failures import Cause
from nemo_evaluator.core.types import Outcome, Scored, SeedResult, SolveResult, Step, VerifyResult
from nemo_evaluator.core.values import dataclass, field
from nemo_evaluator.engine.job import StepContext
from nemo_evaluator.engine.zero_watch import ZeroWatch
from nemo_evaluator.store.records import outcome_record, unanswered

if TYPE_CHECKING:
    from nemo_evaluator.store.journal_record import AnswerRecord, Timing


def _no_timing() -> Timing:
    return {}


@dataclass(slots=True)
class StepWork:
    """The state of a running step.

    Attributes:
        step: The problem and the repeat.
        seed: The problem, with the instruction template applied.
        problem: The hash of the problem without the template.
        fingerprint: The fingerprint of what the answer depends on.
        started: When the step started, by ``time.perf_counter``.
        timing: Durations of its parts, in milliseconds.
        answer: The solver's answer; None until there is one.
        label: Why an incomplete answer is scored, such as a spent budget.
        attempts: The number of earlier attempts.
        sealed: The checksum of the answer's record, to which the verdict refers.
    """

    step: Step
    seed: SeedResult
    problem: str
    fingerprint: str
    started: float
    timing: Timing = field(default_factory=_no_timing)
    answer: SolveResult | None = None
    label: Cause | None = None
    attempts: int = 0
    sealed: str = ""


class StepRecorder:
    """Appends answers and outcomes to the journal, and counts them."""

    def __init__(self, context: StepContext) -> None:
        self._ctx = context
        #: The number of solver failures since a row was last scored.
        self.crashes = 0
        self._zeros = ZeroWatch()

    def answer(self, work: StepWork, record: AnswerRecord) -> None:
        """Append the record of an answer."""
        journal = self._ctx.journal
        offset = journal.append(record)
        self._ctx.index.set_answer(work.step, offset)
        work.sealed = journal.checksum

    def outcome(self, work: StepWork, outcome: Outcome) -> None:
        """Append the outcome of a step; the tally counts it once it is in the file."""
        context = self._ctx
        answer = work.answer
        work.timing["total_ms"] = milliseconds_since(work.started)
        fingerprint = context.prints.verdict(work.fingerprint, work.seed)
        sealed = work.sealed if answer is not None else None
        record = outcome_record(work.step, fingerprint, outcome, timing=work.timing, of=sealed)
        if work.seed.cluster:
            record["cluster"] = work.seed.cluster
        if answer is None:
            record = unanswered(record, work.seed, work.problem)
        tokens = 0
        cost = 0.0
        if answer is not None and answer.model_response is not None:
            tokens = answer.model_response.total_tokens or 0
            cost = answer.model_response.cost_usd or 0.0
        tally = context.tally
        offset = context.journal.append(record, lambda: tally.add(record, tokens, cost))
        context.index.set_outcome(work.step, offset)
        reward = None
        if isinstance(outcome, Scored):
            self.crashes = 0
            reward = outcome.verdict.reward
            self._watch_zeros(outcome.verdict, work.seed)
        if context.stop is not None:
            context.ended(work.step, work.problem, reward)

    def _watch_zeros(self, verdict: VerifyResult, seed: SeedResult) -> None:
        """Warn while the run continues if its first rows suggest that the scorer is wrong."""
        warning = self._zeros.add(verdict, seed)
        # Rows of earlier sessions may have been right.
        if warning is not None and not self._ctx.tally.reward_sum:
            job = self._ctx.job
            job.say(f"{job.name or job.environment.name}: {warning}")


def milliseconds_since(started: float) -> float:
    """Return the milliseconds since ``started``, with one decimal."""
    # Faster than round() with a number of digits.
    return int((time.perf_counter() - started) * 10_000 + 0.5) / 10
