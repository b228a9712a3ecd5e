"""Reuse of an earlier run's journal: decides for each step whether to reuse, verify or rerun it, and why."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

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

_BREATHE: Final = 500


@dataclass(slots=True)
class Reuse:
    """Compares an earlier journal, and its history, with the run that is about to start."""

    context: StepContext
    history: History

    async def decide(self, plan: Plan) -> ReusePlan:
        """Decide about every step.

        Reused outcomes are counted in the tally, and shown to the stop rule, which they may already satisfy.
        """
        reuse = self.context.reuse
        index = self.context.index
        damaged = {record.step for record in self.history.damage}
        current_problem = -1
        seed = None
        for count, step in enumerate(plan.steps()):
            if count % _BREATHE == 0:
                await asyncio.sleep(0)
            if index.answer(step) is None and index.outcome(step) is None:
                reuse.reasons["damaged record" if step in damaged else "new"] += 1
                continue
            if step.problem_idx != current_problem:
                current_problem = step.problem_idx
                seed = await self._seed(step.problem_idx)
            decision, reason = self._decide(step, seed)
            reuse.decisions[step.problem_idx * plan.repeats + step.repeat] = decision
            reuse.reasons[reason] += 1
            if decision == ASK:
                index.forget(step)
        return reuse

    async def _seed(self, problem_idx: int) -> SeedResult | None:
        try:
            with boundary(Cause.SEED):
                return await self.context.environment.seed(problem_idx)
        except BoundaryError:
            return None

    def _decide(self, step: Step, seed: SeedResult | None) -> tuple[int, str]:
        """Return the decision for one step, and its reason."""
        if seed is None:
            return ASK, "the problem could not be read"
        problem = problem_hash(seed)
        fingerprint = self.context.prints.answer(problem, step)
        answer = self._answer(step)
        outcome = self._outcome(step)
        if answer is not None and answer["fp"] != fingerprint:
            return ASK, self._why_changed(answer)
        verifiable = self._is_verifiable(step, answer)
        if outcome is None:
            if verifiable:
                return VERIFY, "answered, not yet verified"
            return ASK, "sandbox lost"
        if outcome["status"] == "failed":
            cause = Cause(outcome["failure"]["cause"])
            if POLICY[cause].redo is not Redo.NOTHING:
                return VERIFY if verifiable else ASK, f"failed before ({cause})"
        elif outcome["fp"][:VERDICT_DIGITS] != self.context.prints.verdict(fingerprint, seed):
            if answer is None:
                return ASK, self._why_changed(outcome)
            if verifiable:
                return VERIFY, "scorer changed"
            return ASK, "scorer changed, sandbox gone"
        else:
            self.context.ended(step, problem, outcome["reward"], fresh=False)
        self.context.tally.add(outcome)
        self.context.tally.reused += 1
        return REUSE, "unchanged"

    def _is_verifiable(self, step: Step, answer: AnswerRecord | None) -> bool:
        """True if a stored answer can be verified: it needs no sandbox, or its workspace was saved."""
        if answer is None:
            return False
        if not answer.get("sandbox_used"):
            return True
        task = TaskPaths(self.context.journal.path.parent)
        return task.workspace(step, answer.get("crc", "")).is_file()

    def _why_changed(self, record: AnswerRecord | OutcomeRecord) -> str:
        """Return which setting has changed since a record was written."""
        old_parts = self.history.fingerprints
        new_parts = self.context.prints.parts
        if old_parts.get("service") and old_parts["service"] != new_parts.get("service"):
            return "service changed"
        if old_parts.get("solver") and old_parts["solver"] != new_parts.get("solver"):
            return "solver or generation settings changed"
        if old_parts.get("template") != new_parts.get("template"):
            return "instruction template changed"
        if record.get("problem_hash"):
            return "problem changed"
        return "settings changed"

    def _answer(self, step: Step) -> AnswerRecord | None:
        offset = self.context.index.answer(step)
        if offset is None:
            return None
        return self.context.journal.answer_at(offset)

    def _outcome(self, step: Step) -> OutcomeRecord | None:
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
    journal = context.journal
    index = context.index
    prints = context.prints
    for path in journals:
        past_index = StepIndex(plan.dataset_size, plan.repeats)
        past_index.take(scan_records(path), History())
        with path.open("rb") as file:
            for step in plan.steps():
                answer_at = past_index.answer(step)
                outcome_at = past_index.outcome(step)
                if answer_at is None:
                    continue
                own_at = index.answer(step)
                if own_at is not None and _fits(journal.read_at(own_at), step, prints):
                    continue
                answer = read_record(file.fileno(), answer_at)
                if not _fits(answer, step, prints):
                    continue
                adopted += 1
                index.forget(step)
                index.set_answer(step, journal.append(_unsealed(answer) | {"adopted": True}))
                if outcome_at is not None:
                    verdict = _unsealed(read_record(file.fileno(), outcome_at))
                    index.set_outcome(step, journal.append(verdict | {"of": journal.checksum}))
    return adopted


def _fits(answer: JsonDict, step: Step, prints: RunFingerprints) -> bool:
    """Whether an answer was produced with the settings of this run."""
    return bool(answer.get("fp") == prints.answer(answer.get("problem_hash", ""), step))


def _unsealed(record: JsonDict) -> JsonDict:
    """Return a record without its checksums; it gets new ones in this journal."""
    return {key: value for key, value in record.items() if key not in ("crc", "of")}
