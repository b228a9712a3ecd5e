"""One index, several writers: the run that writes, and whoever looks at it meanwhile; no row is lost, no run ends."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from nemo_evaluator.runs import index, index_file
from nemo_evaluator.runs.folder import BenchmarkFolder
from nemo_evaluator.runs.index import kept_index, open_index, settle_index
from nemo_evaluator.store.journal import Journal
from nemo_evaluator.store.layout import TaskPaths

_ROUNDS = 60
_LOOK = """
import sys
from pathlib import Path
from nemo_evaluator.runs.folder import BenchmarkFolder
from nemo_evaluator.store.layout import TaskPaths

task, seen = TaskPaths(Path(sys.argv[1])), 0
print("here", flush=True)
while not (task.root / "over").exists():
    task.index.unlink(missing_ok=True)
    now = BenchmarkFolder(task.root).count()
    assert now >= seen, (now, seen)
    seen = now
"""


def _append(journal: Journal, number: int) -> None:
    step = {"problem_idx": number, "repeat": 0, "fp": "f"}
    journal.append(
        {"kind": "answer", **step, "response": "yes", "finish_reason": "stop", "prompt": "?"}
    )
    journal.append(
        {"kind": "outcome", **step, "status": "scored", "reward": 1.0, "scoring_details": {}}
    )


def test_a_run_and_somebody_who_looks_lose_no_row_between_them(tmp_path: Path) -> None:
    task = TaskPaths(tmp_path / "b")

    async def run() -> None:
        journal = Journal(task.journal)
        _append(journal, 0)
        journal.flush()
        with subprocess.Popen(
            [sys.executable, "-c", _LOOK, str(task.root)], stdout=subprocess.PIPE
        ) as looking:
            assert looking.stdout is not None and looking.stdout.readline() == b"here\n"
            with kept_index(task, journal):
                for number in range(1, 50 * _ROUNDS):
                    _append(journal, number)
                    if number % 50 == 0:
                        await asyncio.sleep(0)
                        journal.listener.flush()  # type: ignore[union-attr, attr-defined]
            journal.close()
            (task.root / "over").touch()
            assert looking.wait(60) == 0

    asyncio.run(run())
    assert BenchmarkFolder(task.root).count() == 50 * _ROUNDS
    assert BenchmarkFolder(task.root).progress().scored == 50 * _ROUNDS


def test_what_does_not_follow_on_the_index_is_not_written(tmp_path: Path) -> None:
    task = TaskPaths(tmp_path / "b")

    async def run() -> None:
        journal = Journal(task.journal)
        with kept_index(task, journal):
            for number in range(3):
                _append(journal, number)
                await asyncio.sleep(0)
                # Somebody begins the index anew, and has not read anything yet.
                if number == 1:
                    index._start(task, task.journal, index._covers(task))
                journal.listener.flush()  # type: ignore[union-attr, attr-defined]
        journal.close()

    asyncio.run(run())
    with sqlite3.connect(task.index) as db:
        assert db.execute("SELECT coalesce(sum(rows), 0) FROM pieces").fetchone() == (0,)
    assert BenchmarkFolder(task.root).count() == 3


def test_an_index_that_another_puts_in_its_place_does_not_end_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = TaskPaths(tmp_path / "b")

    async def run() -> None:
        journal = Journal(task.journal)
        with kept_index(task, journal):
            _append(journal, 0)
        journal.close()

    asyncio.run(run())
    task.results.write_text('{"problem_idx": 0, "repeat": 0, "reward": 1.0}\n')
    connect, calls = index_file.connect, list[Any]()

    def swapping(path: Any) -> Any:
        db = connect(path)
        calls.append(path)
        if len(calls) == 1:
            db.execute("SELECT name, upto, known, stamp FROM source").fetchall()
            whole = task.index.read_bytes()
            task.index.unlink()
            task.index.write_bytes(whole)
        return db

    with monkeypatch.context() as swapped:
        swapped.setattr(index_file, "connect", swapping)
        settle_index(task, 1)
    assert len(calls) > 1
    db, source = open_index(task)
    db.close()
    assert source == task.journal, "the index of the journal stands for the rows"
