"""Answers of runs that were moved aside to ``previous/``: a resumed run takes over those that fit it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from nemo_evaluator.core.types import JsonDict, Step
from nemo_evaluator.engine.plan import Plan
from nemo_evaluator.store.fingerprints import RunFingerprints
from nemo_evaluator.store.index import History, StepIndex
from nemo_evaluator.store.journal import Journal
from nemo_evaluator.store.sealed import read_record, scan_records


def adopt_answers(
    journals: Sequence[Path], plan: Plan, journal: Journal, index: StepIndex, prints: RunFingerprints
) -> int:
    """Copy what fits, with its verdict, to the end of ``journal``; returns how many answers were taken over.

    An answer fits when it was given under the settings of this run, and the run has none of its own.
    """
    adopted = 0
    for path in journals:
        past = StepIndex(plan.dataset_size, plan.repeats)
        past.take(scan_records(path), History())
        with path.open("rb") as file:
            for step in plan.steps():
                answer_at, outcome_at = past.answer(step), past.outcome(step)
                if answer_at is None or _has_own(step, journal, index, prints):
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


def _has_own(step: Step, journal: Journal, index: StepIndex, prints: RunFingerprints) -> bool:
    offset = index.answer(step)
    return offset is not None and _fits(journal.read_at(offset), step, prints)


def _fits(answer: JsonDict, step: Step, prints: RunFingerprints) -> bool:
    return bool(answer.get("fp") == prints.answer(answer.get("problem_hash", ""), step))


def _unsealed(record: JsonDict) -> JsonDict:
    return {key: value for key, value in record.items() if key not in ("crc", "of")}
