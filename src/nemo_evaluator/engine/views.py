"""The views of a journal, ``results.jsonl`` and ``trajectories.jsonl``, written in one pass by problem."""

from __future__ import annotations

import hashlib
import io
import os
from array import array
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from nemo_evaluator.core.failures import POLICY, Cause, RowOutcome
from nemo_evaluator.core.files import dumps
from nemo_evaluator.core.types import Step
from nemo_evaluator.engine.columns import Columns
from nemo_evaluator.engine.plan import Plan
from nemo_evaluator.solvers.trajectory import single_turn
from nemo_evaluator.store.index import StepIndex
from nemo_evaluator.store.journal import Journal
from nemo_evaluator.store.layout import TaskPaths
from nemo_evaluator.store.sums import FILE as SUMS
from nemo_evaluator.store.view_rows import content_of, result_row, trajectory_row

if TYPE_CHECKING:
    from nemo_evaluator.core.trajectory_document import TrajectoryDocument
    from nemo_evaluator.store.journal_record import AnswerRecord, OutcomeRecord
    from nemo_evaluator.store.result_row import ResultRow

# Up to this many repeats fit in two bytes.
_SHORT_REPEATS: Final = 1 << 16


def write_views(
    task: TaskPaths,
    plan: Plan,
    journal: Journal,
    index: StepIndex,
    *,
    full: bool = False,
) -> Columns:
    """Write both views, and collect the columns.

    Args:
        task: The files.
        plan: The steps that count.
        journal: Their records.
        index: The positions of the records.
        full: Also write the trajectories to ``results.jsonl``.

    Returns:
        The columns.
    """
    repeat_type = "H" if plan.repeats <= _SHORT_REPEATS else "i"
    columns = Columns(planned=len(plan), repeat=array(repeat_type))
    # The checksums belong to the earlier rows; they are written again with the bundle.
    (task.root / SUMS).unlink(missing_ok=True)
    results_file = _replacing(task.results, columns.digests)
    trajectories_file = _replacing(task.trajectories, columns.digests)
    with results_file as write_result, trajectories_file as write_trajectory:
        for problem in _in_order(plan):
            has_rows = False
            for answer, outcome in _settled_steps(problem, plan.repeats, journal, index=index):
                has_rows = True
                row = result_row(answer, outcome)
                turns: list[TrajectoryDocument] = []
                if answer is not None:
                    turns = trajectory_of(answer, row)
                if full and turns:
                    row["trajectory"] = turns
                category = columns.add(answer, outcome, row)
                trajectory = trajectory_row(
                    answer, outcome, row, trajectory=turns, category=category
                )
                write_result(dumps(row) + b"\n")
                write_trajectory(dumps(trajectory) + b"\n")
            if has_rows:
                columns.samples += 1
    return columns


def _settled_steps(
    problem: int, repeats: int, journal: Journal, *, index: StepIndex
) -> Iterator[tuple[AnswerRecord | None, OutcomeRecord]]:
    """Yield the answer, if there is one, and the outcome of each repeat of a problem that gets a row."""
    for repeat in range(repeats):
        step = Step(problem, repeat)
        outcome_at = index.outcome(step)
        if outcome_at is None:
            continue
        # Answer and outcome are read in the order in which they were written.
        answer: AnswerRecord | None = None
        answer_at = index.answer(step)
        if answer_at is not None:
            answer = journal.answer_at(answer_at)
        outcome = journal.outcome_at(outcome_at)
        if not _is_absent(outcome):
            yield answer, outcome


def trajectory_of(answer: AnswerRecord, row: ResultRow) -> list[TrajectoryDocument]:
    """Return the trajectory of a step as one ATIF document, in a list; empty if the answer did not come from a model.

    Args:
        answer: The record of its answer.
        row: Its row.
    """
    stored = answer.get("trajectory") or []
    if stored or "finish_reason" not in answer:
        return stored
    return single_turn(row["prompt"], content_of(answer), answer)


def _is_absent(outcome: OutcomeRecord) -> bool:
    """Whether a step failed in a way for which the policy table requires no row."""
    if outcome["status"] != "failed":
        return False
    cause = Cause(outcome["failure"]["cause"])
    return POLICY[cause].row is RowOutcome.ABSENT


def _in_order(plan: Plan) -> Iterator[int]:
    """Return the problems of a plan in numerical order, using one byte per problem."""
    chosen = bytearray(plan.dataset_size)
    for problem in plan.problems:
        chosen[problem] = 1
    return (problem for problem in range(plan.dataset_size) if chosen[problem])


class _Hashed(io.FileIO):
    """A file that hashes what is written to it; it is used below a buffer, so that many lines are hashed at once."""

    def __init__(self, path: Path, mode: str) -> None:
        super().__init__(path, mode)
        self.hash = hashlib.sha256()

    def write(self, data: Any, /) -> int:
        """Write as much as the system accepts at once, and hash that part."""
        written = super().write(data)
        self.hash.update(memoryview(data)[:written])
        return written


@contextmanager
def _replacing(path: Path, digests: dict[Path, str]) -> Iterator[Callable[[bytes], int]]:
    """Write a file that replaces its predecessor only when complete, and store its checksum in ``digests``."""
    temporary = path.with_name(f".{path.name}.writing")
    hashed_file = _Hashed(temporary, "wb")
    try:
        with io.BufferedWriter(hashed_file, 1 << 18) as file:
            yield file.write
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    digests[path] = hashed_file.hash.hexdigest()
