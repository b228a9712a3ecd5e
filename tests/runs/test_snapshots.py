"""Looking at a run while it writes: every look sees one moment, however fast rows come and whoever else looks."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from nemo_evaluator.launch.status import benchmark_status
from nemo_evaluator.runs.folder import BenchmarkFolder
from nemo_evaluator.runs.index import kept_index
from nemo_evaluator.runs.index_file import COLUMNS
from nemo_evaluator.runs.query import RowFilter, count, outcomes, places, tally
from nemo_evaluator.store.journal import Journal
from nemo_evaluator.store.layout import TaskPaths
from nemo_evaluator.view.page_rows import facets, table_page
from nemo_evaluator.view.row_query import RowQuery
from nemo_evaluator.view.run_page import benchmark_figures

_LOOKS = 400 if os.environ.get("NEL_TEST_ALL") else 12
# Enough that pieces of the index fill up and are rewritten, and few enough that every look is short.
_MOST_ROWS = 3_000
_CHILD = """
import sys
from pathlib import Path
from nemo_evaluator.runs.folder import BenchmarkFolder

folder, seen = BenchmarkFolder(Path(sys.argv[1])), 0
for _ in range(int(sys.argv[2])):
    newest = [row.problem_idx for row in folder.rows(order="-problem_idx", limit=50)]
    rows = newest[0] + 1
    assert rows >= seen and newest == list(range(newest[0], max(-1, newest[0] - 50), -1)), newest
    seen = rows
"""


def _append(journal: Journal, number: int) -> None:
    step = {"problem_idx": number, "repeat": 0, "fp": "f"}
    answer = {"kind": "answer", **step, "response": "yes", "finish_reason": "stop", "prompt": "?"}
    journal.append(answer | {"metadata": {"category": f"c{number % 5}"}})
    if number % 7:
        journal.append(
            {"kind": "outcome", **step, "status": "scored", "reward": 1.0, "scoring_details": {}}
        )
    else:
        failure = {"cause": "transport", "message": "reset"}
        journal.append({"kind": "outcome", **step, "status": "failed", "failure": failure})


def _look_at_columns(folder: BenchmarkFolder) -> int:
    with folder.reading() as (columns, reader):
        total = count(columns, RowFilter())
        assert {len(columns[name]) for name in COLUMNS} == {total}
        assert (
            count(columns, RowFilter(status="failed")) + count(columns, RowFilter(status="scored"))
            == total
        )
        assert sum(outcomes(columns)[0].values()) == total
        assert sum(rows for _, rows, _ in tally(columns, "category")) == total
        assert sum(number for number, _ in columns.causes().values()) == int(
            np.sum(columns["cause"] != 0)
        )
        newest = next(places(columns, RowFilter(), "-problem_idx", 0, 1), None)
        assert newest is None or reader.row(newest).problem_idx == total - 1
    return total


def _look_at_pages(folder: BenchmarkFolder) -> int:
    benchmark_figures(folder)
    facets(folder)
    page = table_page(folder, RowQuery(order="-tokens"), 0, 50)
    assert len(page.rows) == min(50, page.total)
    return page.total


def _look_at_status(folder: BenchmarkFolder) -> int:
    status = benchmark_status(folder.path, {}, running=True)
    return status.scored + status.failed


@pytest.mark.parametrize("look", [_look_at_columns, _look_at_pages, _look_at_status])
def test_every_look_sees_one_moment(tmp_path: Path, look: object) -> None:
    assert callable(look)
    task = TaskPaths(tmp_path / "out" / "b")
    folder = BenchmarkFolder(task.root)
    over = threading.Event()

    def looks() -> None:
        seen = 0
        for _ in range(_LOOKS):
            total = look(folder)
            assert total >= seen
            seen = total

    async def run() -> int:
        journal = Journal(task.journal)
        _append(journal, 0)
        written = 1
        with ThreadPoolExecutor(2) as readers, kept_index(task, journal):
            reading = [readers.submit(looks), readers.submit(looks)]
            while not all(reader.done() for reader in reading):
                # As fast as it goes, up to a bound that keeps every look short.
                for _ in range(20 if written < _MOST_ROWS else 0):
                    _append(journal, written)
                    written += 1
                await asyncio.sleep(0)
                journal.listener.flush()  # type: ignore[union-attr, attr-defined]
            over.set()
            for reader in reading:
                reader.result()
        journal.close()
        return written

    written = asyncio.run(run())
    assert over.is_set()
    assert folder.count() == written


def test_other_processes_see_whole_rows_only(tmp_path: Path) -> None:
    task = TaskPaths(tmp_path / "out" / "b")

    async def run() -> int:
        journal = Journal(task.journal)
        _append(journal, 0)
        journal.flush()
        written = 1
        command = [sys.executable, "-c", _CHILD, str(task.root), str(_LOOKS)]
        with kept_index(task, journal), subprocess.Popen(command) as child:
            while child.poll() is None:
                for _ in range(20 if written < _MOST_ROWS else 0):
                    _append(journal, written)
                    written += 1
                await asyncio.sleep(0)
                journal.listener.flush()  # type: ignore[union-attr, attr-defined]
            assert child.returncode == 0
        journal.close()
        return written

    written = asyncio.run(run())
    assert BenchmarkFolder(task.root).count() == written


def test_a_look_that_was_begun_stays_as_it_was(tmp_path: Path) -> None:
    task = TaskPaths(tmp_path / "out" / "b")

    async def run() -> None:
        journal = Journal(task.journal)
        for number in range(851):
            _append(journal, number)
        with kept_index(task, journal), BenchmarkFolder(task.root).reading() as (columns, _):
            assert len(columns["number"]) == 851
            for number in range(851, 1_702):
                _append(journal, number)
            await asyncio.sleep(0)
            journal.listener.flush()  # type: ignore[union-attr, attr-defined]
            # A column that is read only now has the rows of then, and the run was not held up by the reader.
            assert len(columns["reward"]) == 851
            assert BenchmarkFolder(task.root).count() == 1_702
        journal.close()

    asyncio.run(run())
