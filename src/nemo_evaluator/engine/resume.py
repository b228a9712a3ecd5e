"""Reuse of an earlier run's journal: decides for each step whether to reuse, verify or rerun it, and why."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, NamedTuple

from nemo_evaluator.core.errors import BoundaryError, boundary
from nemo_evaluator.core.failures import POLICY, Cause, Redo
from nemo_evaluator.core.types import JsonDict, SeedResult, Step
from nemo_evaluator.core.values import dataclass
from nemo_evaluator.engine.job import StepContext
from nemo_evaluator.engine.plan import ASK, REUSE, VERIFY, Plan, ReusePlan
from nemo_evaluator.store.fingerprints import VERDICT_DIGITS, RunFingerprints, problem_hash
from nemo_evaluator.store.index import History, StepIndex
from nemo_evaluator.store.layout import TaskPaths
from nemo_evaluator.store.sealed import read_record, scan_records

if TYPE_CHECKING:
    from nemo_evaluator.store.journal_record import AnswerRecord, OutcomeRecord

# After so many steps, the other tasks of the process get a turn.
_STEPS_PER_TURN: Final = 500


class _Decision(NamedTuple):
    """What to do with a step (ASK, VERIFY or REUSE), and why."""

    action: int
    reason: str


_UNCHANGED: Final = _Decision(REUSE, "unchanged")


@dataclass(slots=True)
class Reuse:
    """Compares an earlier journal, and its history, with the run that is about to start.

    Attributes:
        context: The shared state of the run, with the earlier journal and its index.
        history: What the journal records about earlier sessions.
    """

    context: StepContext
    history: History

    async def decide(self, plan: Plan) -> ReusePlan:
        """Decide about every step.

        Reused outcomes are counted in the tally, and shown to the stop rule, which they may already satisfy. The index
        forgets the records of steps that run again.
        """
        reuse = self.context.reuse
        index = self.context.index
        damaged_steps = {record.step for record in self.history.damage}
        current_problem: int | None = None
        seed: SeedResult | None = None
        for count, step in enumerate(plan.steps()):
            if count % _STEPS_PER_TURN == 0:
                await asyncio.sleep(0)
            if index.answer(step) is None and index.outcome(step) is None:
                reuse.reasons["damaged record" if step in damaged_steps else "new"] += 1
                continue
            if step.problem_idx != current_problem:
                current_problem = step.problem_idx
                seed = await self._seed(step.problem_idx)
            if seed is None:
                decision = _Decision(ASK, "the problem could not be read")
            else:
                decision = self._decide(step, seed)
            reuse.decisions[step.problem_idx * plan.repeats + step.repeat] = decision.action
            reuse.reasons[decision.reason] += 1
            if decision.action == ASK:
                index.forget(step)
        return reuse

    async def _seed(self, problem_idx: int) -> SeedResult | None:
        """Return a problem; None if it cannot be read."""
        try:
            with boundary(Cause.SEED):
                return await self.context.environment.seed(problem_idx)
        except BoundaryError:
            return None

    def _decide(self, step: Step, seed: SeedResult) -> _Decision:
        """Decide about one step that has an answer or an outcome in the journal."""
        problem = problem_hash(seed)
        fingerprint = self.context.prints.answer(problem, step)
        answer = self._answer(step)
        if answer is not None and answer["fp"] != fingerprint:
            return _Decision(ASK, self._why_changed(answer))
        outcome = self._outcome(step)
        if outcome is None:
            return self._decide_without_outcome(step, answer)
        if outcome["status"] == "failed":
            decision = self._decide_failed(step, answer, outcome)
        else:
            verdict = self.context.prints.verdict(fingerprint, seed)
            decision = self._decide_scored(step, answer, outcome, verdict=verdict)
            if decision.action == REUSE:
                self.context.ended(step, problem, outcome["reward"], fresh=False)
        if decision.action == REUSE:
            self.context.tally.add(outcome)
            self.context.tally.reused += 1
        return decision

    def _decide_without_outcome(self, step: Step, answer: AnswerRecord | None) -> _Decision:
        """Decide about a step whose answer was not verified."""
        if self._is_verifiable(step, answer):
            return _Decision(VERIFY, "answered, not yet verified")
        return _Decision(ASK, "sandbox lost")

    def _decide_failed(
        self, step: Step, answer: AnswerRecord | None, outcome: OutcomeRecord
    ) -> _Decision:
        """Decide about a step that failed: the policy of the cause says whether another attempt can help."""
        cause = Cause(outcome["failure"]["cause"])
        if POLICY[cause].redo is Redo.NOTHING:
            return _UNCHANGED
        reason = f"failed before ({cause})"
        if self._is_verifiable(step, answer):
            return _Decision(VERIFY, reason)
        return _Decision(ASK, reason)

    def _decide_scored(
        self, step: Step, answer: AnswerRecord | None, outcome: OutcomeRecord, verdict: str
    ) -> _Decision:
        """Decide about a step that was scored.

        Args:
            step: The step.
            answer: Its stored answer; old journals may have an outcome without one.
            outcome: Its stored outcome.
            verdict: The fingerprint that the verdict would have today.
        """
        if outcome["fp"][:VERDICT_DIGITS] == verdict:
            return _UNCHANGED
        if answer is None:
            return _Decision(ASK, self._why_changed(outcome))
        if self._is_verifiable(step, answer):
            return _Decision(VERIFY, "scorer changed")
        return _Decision(ASK, "scorer changed, sandbox gone")

    def _is_verifiable(self, step: Step, answer: AnswerRecord | None) -> bool:
        """True if a stored answer can be verified: it needs no sandbox, or its workspace was saved."""
        if answer is None:
            return False
        if not answer.get("sandbox_used"):
            return True
        task = TaskPaths(self.context.journal.path.parent)
        return task.workspace(step, answer.get("crc", "")).is_file()

    def _why_changed(self, record: AnswerRecord | OutcomeRecord) -> str:
        """Return what has changed since a record was written: the parts of the fingerprint are compared in turn."""
        old_parts = self.history.fingerprints
        new_parts = self.context.prints.parts
        old_service = old_parts.get("service")
        if old_service and old_service != new_parts.get("service"):
            return "service changed"
        old_solver = old_parts.get("solver")
        if old_solver and old_solver != new_parts.get("solver"):
            return "solver or generation settings changed"
        if old_parts.get("template") != new_parts.get("template"):
            return "instruction template changed"
        if record.get("problem_hash"):
            return "problem changed"
        return "settings changed"

    def _answer(self, step: Step) -> AnswerRecord | None:
        """Return the stored answer of a step, if there is one."""
        offset = self.context.index.answer(step)
        if offset is None:
            return None
        return self.context.journal.answer_at(offset)

    def _outcome(self, step: Step) -> OutcomeRecord | None:
        """Return the stored outcome of a step, if there is one."""
        offset = self.context.index.outcome(step)
        if offset is None:
            return None
        return self.context.journal.outcome_at(offset)


def adopt_answers(context: StepContext, journals: Sequence[Path], plan: Plan) -> int:
    """Copy the answers of other journals that fit, with their verdicts, to the run's journal.

    An answer fits if it was produced with the settings of this run, and the run has none for the same step.

    Args:
        context: The shared state of the run.
        journals: The journals of earlier runs.
        plan: The steps.

    Returns:
        The number of answers that were copied.
    """
    adopted = 0
    for path in journals:
        past_index = StepIndex(plan.dataset_size, plan.repeats)
        past_index.take(scan_records(path), History())
        with path.open("rb") as past_journal:
            for step in plan.steps():
                if _adopt_answer(context, past_journal, past_index, step=step):
                    adopted += 1
    return adopted


def _adopt_answer(
    context: StepContext, past_journal: BinaryIO, past_index: StepIndex, step: Step
) -> bool:
    """Copy the answer of one step, and its verdict, from another journal if it fits.

    Args:
        context: The shared state of the run.
        past_journal: The other journal.
        past_index: Where the records of each step are in it.
        step: The step.

    Returns:
        Whether an answer was copied.
    """
    answer_offset = past_index.answer(step)
    if answer_offset is None:
        return False
    journal = context.journal
    index = context.index
    own_offset = index.answer(step)
    if own_offset is not None and _fits(journal.read_at(own_offset), step, context.prints):
        return False
    answer = read_record(past_journal.fileno(), answer_offset)
    if not _fits(answer, step, context.prints):
        return False
    index.forget(step)
    index.set_answer(step, journal.append(_unsealed(answer) | {"adopted": True}))
    outcome_offset = past_index.outcome(step)
    if outcome_offset is not None:
        outcome = _unsealed(read_record(past_journal.fileno(), outcome_offset))
        # An outcome names the answer that it belongs to by the checksum of that answer's record.
        index.set_outcome(step, journal.append(outcome | {"of": journal.checksum}))
    return True


def _fits(answer: JsonDict, step: Step, prints: RunFingerprints) -> bool:
    """Whether an answer was produced with the settings of this run."""
    return bool(answer.get("fp") == prints.answer(answer.get("problem_hash", ""), step))


def _unsealed(record: JsonDict) -> JsonDict:
    """Return a record without its checksums; it gets new ones in this journal."""
    return {key: value for key, value in record.items() if key not in ("crc", "of")}
