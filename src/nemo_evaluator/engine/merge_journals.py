"""Merges the records of several journals: for each step the answer and outcome of one shard, copied unchanged."""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.types import Step
from nemo_evaluator.engine.plan import Plan
from nemo_evaluator.runs.row_file import read_rows
from nemo_evaluator.store.index import StepIndex
from nemo_evaluator.store.layout import TaskPaths
from nemo_evaluator.store.records import ANSWER, OUTCOME, RUN
from nemo_evaluator.store.sealed import Damage, scan_records

# The progress of a shard with a step.
_NOTHING: Final = 0
_ANSWERED: Final = 1
_FAILED: Final = 2
_SCORED: Final = 3
_NONE: Final = -1
_BUFFER: Final = 1 << 20


class ShardJournal:
    """The positions of the valid records in one shard's journal: two offsets and one byte per step.

    Attributes:
        path: The journal.
        answers: The offset of each step's answer.
        outcomes: The offset of each step's outcome.
        reached: The shard's progress with each step.
        others: The offsets of all other records.
    """

    def __init__(self, folder: Path, plan: Plan) -> None:
        """Read the journal of a shard.

        Args:
            folder: The shard's task folder.
            plan: The steps of the whole benchmark.

        Raises:
            UsageError: If records are damaged.
        """
        self.path = TaskPaths(folder).journal
        self.others = array("q")
        self._plan = plan
        self._sessions = 0
        # The offset at which the last session begins.
        self._session_at = 0
        size = plan.dataset_size * plan.repeats
        # Setting single items of an array is several times faster than of a numpy array.
        answers = array("q", [_NONE]) * size
        outcomes = array("q", [_NONE]) * size
        reached = bytearray(size)
        self._read(answers, outcomes, reached)
        self.answers = np.frombuffer(answers, dtype=np.int64)
        self.outcomes = np.frombuffer(outcomes, dtype=np.int64)
        self.reached = np.frombuffer(reached, dtype=np.uint8)
        if self._sessions > 1:
            self._forget_replaced(folder)

    def _read(self, answers: array[int], outcomes: array[int], reached: bytearray) -> None:
        """Fill the columns, in the order in which the records were written."""
        damage: list[Damage] = []
        for offset, record in scan_records(self.path, damage.append):
            kind = record.get("kind")
            if kind not in (ANSWER, OUTCOME):
                self.others.append(offset)
                if kind == RUN:
                    self._sessions += 1
                    self._session_at = offset
                continue
            step_number = self._number(record)
            if step_number is None:
                continue
            if kind == ANSWER:
                # A verdict on an older answer does not apply to a newer one.
                answers[step_number] = offset
                outcomes[step_number] = _NONE
                reached[step_number] = _ANSWERED
            else:
                was_retried = "problem_hash" in record
                if was_retried and answers[step_number] < self._session_at:
                    # The outcome contains its problem, so this session tried the step again without getting an answer.
                    answers[step_number] = _NONE
                outcomes[step_number] = offset
                reached[step_number] = _SCORED if record["status"] == "scored" else _FAILED
        if damage:
            hint = "finish that shard with --resume, which runs the sample again, then merge again"
            raise UsageError(f"{damage[0]} ({len(damage)} in all)", hint=hint)

    def _forget_replaced(self, folder: Path) -> None:
        """Drop what the last session of a resumed shard did not reuse, according to the rows it wrote."""
        has_row = np.zeros(len(self.reached), dtype=bool)
        for row in read_rows(TaskPaths(folder).results):
            step_number = self._number(row.data)
            if step_number is not None:
                has_row[step_number] = True
        newly_answered = (self.reached == _ANSWERED) & (self.answers >= self._session_at)
        self.reached[~(has_row | newly_answered)] = _NOTHING

    def _number(self, record: Mapping[str, Any]) -> int | None:
        """Return the number of a record's step; None if it is not in the plan."""
        problem = record["problem_idx"]
        repeat = record["repeat"]
        if problem >= self._plan.dataset_size or repeat >= self._plan.repeats:
            return None
        return int(problem * self._plan.repeats + repeat)


class Gathering:
    """Collects the shards of a benchmark one after another, then writes their records to one journal.

    A step that is in several shards is taken from the one with the most progress; if equal, from the first.
    """

    def __init__(self, plan: Plan) -> None:
        size = plan.dataset_size * plan.repeats
        self._plan = plan
        self._answers = np.full(size, _NONE, dtype=np.int64)
        self._outcomes = np.full(size, _NONE, dtype=np.int64)
        self._reached = np.zeros(size, dtype=np.uint8)
        self._owner = np.zeros(size, dtype=np.int32)
        self._journals: list[tuple[Path, array[int]]] = []

    def add(self, folder: Path) -> None:
        """Read the journal of one shard's task folder."""
        shard = ShardJournal(folder, self._plan)
        is_further = shard.reached > self._reached
        self._owner[is_further] = len(self._journals)
        self._answers[is_further] = shard.answers[is_further]
        self._outcomes[is_further] = shard.outcomes[is_further]
        self._reached[is_further] = shard.reached[is_further]
        self._journals.append((shard.path, shard.others))

    def write(self, target: Path) -> StepIndex:
        """Write the merged journal.

        Returns:
            The index of its records.
        """
        index = StepIndex(self._plan.dataset_size, self._plan.repeats)
        with target.open("wb", buffering=_BUFFER) as merged_file:
            for shard_number, (path, other_offsets) in enumerate(self._journals):
                with path.open("rb", buffering=_BUFFER) as source:
                    for kind, step_number, offset in self._lines(shard_number, other_offsets):
                        source.seek(offset)
                        position = merged_file.tell()
                        merged_file.write(source.readline())
                        if kind == RUN:
                            continue
                        problem, repeat = divmod(step_number, self._plan.repeats)
                        if kind == ANSWER:
                            index.set_answer(Step(problem, repeat), position)
                        else:
                            index.set_outcome(Step(problem, repeat), position)
            merged_file.flush()
            os.fsync(merged_file.fileno())
        return index

    def _lines(self, number: int, others: array[int]) -> Iterator[tuple[str, int, int]]:
        """Yield the records to copy from one shard, in the order of its journal: kind, step number, offset."""
        is_own = (self._owner == number) & (self._reached > _NOTHING)
        own_steps = np.flatnonzero(is_own)
        answered = own_steps[self._answers[own_steps] != _NONE]
        settled = own_steps[self._outcomes[own_steps] != _NONE]
        # First the answers, then the outcomes, then the other records, which belong to no step.
        other_offsets = np.frombuffer(others, np.int64)
        no_steps = np.zeros(len(others), dtype=np.int64)
        offsets = np.concatenate([self._answers[answered], self._outcomes[settled], other_offsets])
        steps = np.concatenate([answered, settled, no_steps])
        for line in np.argsort(offsets, kind="stable"):
            if line < len(answered):
                kind = ANSWER
            elif line < len(answered) + len(settled):
                kind = OUTCOME
            else:
                kind = RUN
            yield kind, int(steps[line]), int(offsets[line])
