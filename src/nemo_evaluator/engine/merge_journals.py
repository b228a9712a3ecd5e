"""The records of several journals as one: of every step the pair that its shard shows, each line as it was written."""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.types import JsonDict, Step
from nemo_evaluator.engine.plan import Plan
from nemo_evaluator.runs.row_file import read_rows
from nemo_evaluator.store.index import StepIndex
from nemo_evaluator.store.layout import TaskPaths
from nemo_evaluator.store.records import ANSWER, OUTCOME, RUN
from nemo_evaluator.store.sealed import Damage, scan_records

# How far a shard got with a step.
_NOTHING: Final = 0
_ANSWERED: Final = 1
_FAILED: Final = 2
_SCORED: Final = 3
_NONE: Final = -1
_BUFFER: Final = 1 << 20


class ShardJournal:
    """Where in one shard's journal the records are that count: two offsets and a byte a step.

    Attributes:
        path: The journal.
        answers: The offset of each step's answer.
        outcomes: The offset of each step's outcome.
        reached: How far the shard got with each step.
        others: The offsets of all other records.
    """

    def __init__(self, folder: Path, plan: Plan) -> None:
        """Read the journal of a shard.

        Args:
            folder: The shard's task folder.
            plan: The steps of the whole benchmark.

        Raises:
            UsageError: When records are damaged.
        """
        self.path = TaskPaths(folder).journal
        self.others = array("q")
        self._plan = plan
        self._sessions = 0
        # Where the last session begins.
        self._session_at = 0
        size = plan.dataset_size * plan.repeats
        # Numbers of arrays are set one by one in a fraction of the time that those of numpy take.
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
            at = self._number(record)
            if at is None:
                continue
            if kind == ANSWER:
                # A newer answer has no verdict yet, whatever an older one got.
                answers[at] = offset
                outcomes[at] = _NONE
                reached[at] = _ANSWERED
                continue
            if "problem_hash" in record and answers[at] < self._session_at:
                # It carries its own question: asked anew in this session, and never answered.
                answers[at] = _NONE
            outcomes[at] = offset
            reached[at] = _SCORED if record["status"] == "scored" else _FAILED
        if damage:
            hint = "finish that shard with --resume, which runs the sample again, then merge again"
            raise UsageError(f"{damage[0]} ({len(damage)} in all)", hint=hint)

    def _forget_replaced(self, folder: Path) -> None:
        """Leave out what the last session of a resumed shard would not reuse: its rows say what counts."""
        shown = np.zeros(len(self.reached), dtype=bool)
        for row in read_rows(TaskPaths(folder).results):
            at = self._number(row.data)
            if at is not None:
                shown[at] = True
        fresh = (self.reached == _ANSWERED) & (self.answers >= self._session_at)
        self.reached[~(shown | fresh)] = _NOTHING

    def _number(self, record: JsonDict) -> int | None:
        """The number of a record's step; None when it is not in the plan."""
        problem = record["problem_idx"]
        repeat = record["repeat"]
        if problem >= self._plan.dataset_size or repeat >= self._plan.repeats:
            return None
        return int(problem * self._plan.repeats + repeat)


class Gathering:
    """Collects the shards of a benchmark one after another, then writes their records as one journal.

    A step that several shards hold is taken from the one that got furthest with it, of equals from the first.
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
        better = shard.reached > self._reached
        self._owner[better] = len(self._journals)
        self._answers[better] = shard.answers[better]
        self._outcomes[better] = shard.outcomes[better]
        self._reached[better] = shard.reached[better]
        self._journals.append((shard.path, shard.others))

    def write(self, target: Path) -> StepIndex:
        """Write the journal; returns where its records are."""
        index = StepIndex(self._plan.dataset_size, self._plan.repeats)
        with target.open("wb", buffering=_BUFFER) as out:
            for number, (path, others) in enumerate(self._journals):
                with path.open("rb", buffering=_BUFFER) as source:
                    for kind, at, offset in self._lines(number, others):
                        source.seek(offset)
                        position = out.tell()
                        out.write(source.readline())
                        if kind == RUN:
                            continue
                        problem, repeat = divmod(at, self._plan.repeats)
                        if kind == ANSWER:
                            index.set_answer(Step(problem, repeat), position)
                        else:
                            index.set_outcome(Step(problem, repeat), position)
            out.flush()
            os.fsync(out.fileno())
        return index

    def _lines(self, number: int, others: array[int]) -> Iterator[tuple[str, int, int]]:
        """The records to copy from one shard, in the order of its journal: kind, step number, offset."""
        mine = np.flatnonzero((self._owner == number) & (self._reached > _NOTHING))
        answered = mine[self._answers[mine] != _NONE]
        settled = mine[self._outcomes[mine] != _NONE]
        offsets = np.concatenate(
            [self._answers[answered], self._outcomes[settled], np.frombuffer(others, np.int64)]
        )
        steps = np.concatenate([answered, settled, np.zeros(len(others), dtype=np.int64)])
        for line in np.argsort(offsets, kind="stable"):
            if line < len(answered):
                kind = ANSWER
            elif line < len(answered) + len(settled):
                kind = OUTCOME
            else:
                kind = RUN
            yield kind, int(steps[line]), int(offsets[line])
