"""The index: kept while a run writes, right after every kind of end, rebuilt when it is missing, older or broken."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import os
import sqlite3
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.runs import index, index_apart
from nemo_evaluator.runs.folder import BenchmarkFolder, BenchmarkProgress, open_run
from nemo_evaluator.runs.index import kept_index, open_index
from nemo_evaluator.runs.query import RowFilter
from nemo_evaluator.store.journal import Journal
from nemo_evaluator.store.layout import TaskPaths


def _row(number: int, **fields: Any) -> dict[str, Any]:
    row = {
        "problem_idx": number,
        "repeat": 0,
        "status": "scored",
        "reward": float(number % 2),
        "finish_reason": "stop",
    }
    return (
        row
        | {"model_response": f"answer {number}", "tokens": number, "latency_ms": 10.0 * number}
        | fields
    )


def _write(folder: Path, rows: list[dict[str, Any]]) -> TaskPaths:
    folder.mkdir(parents=True, exist_ok=True)
    task = TaskPaths(folder)
    task.results.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return task


def _append(journal: Journal, number: int, reward: float | None = 1.0, repeat: int = 0) -> None:
    step = {"problem_idx": number, "repeat": repeat, "fp": "f"}
    answer = {
        "kind": "answer",
        **step,
        "response": "I cannot",
        "finish_reason": "length",
        "prompt_tokens": 3,
    }
    journal.append(answer | {"problem_hash": "aa", "prompt": "?", "metadata": {"category": "sums"}})
    verdict = {"status": "scored", "reward": reward, "scoring_details": {"unparsed": True}}
    failed = {"status": "failed", "failure": {"cause": "transport", "message": "reset"}}
    journal.append({"kind": "outcome", **step, **(failed if reward is None else verdict)})


def test_rows_are_chosen_ordered_and_paged(tmp_path: Path) -> None:
    failed = _row(
        3, status="failed", reward=None, failure={"cause": "transport", "message": "reset"}
    )
    rows = [
        _row(0),
        _row(1, metadata={"category": "x"}),
        _row(2, finish_reason="length"),
        failed,
        _row(4, repeat=1),
    ]
    task = BenchmarkFolder(_write(tmp_path / "b", rows).root)
    assert [row.problem_idx for row in task.rows(RowFilter(status="failed"))] == [3]
    assert [row.problem_idx for row in task.rows(RowFilter(cause="transport"))] == [3]
    assert [row.problem_idx for row in task.rows(RowFilter(category="x"))] == [1]
    assert [row.problem_idx for row in task.rows(RowFilter(truncated=True))] == [2]
    assert [row.problem_idx for row in task.rows(RowFilter(truncated=False, status="scored"))] == [
        0,
        1,
        4,
    ]
    assert [row.problem_idx for row in task.rows(RowFilter(min_reward=1))] == [1]
    assert [row.problem_idx for row in task.rows(order="-latency_ms", offset=1, limit=2)] == [3, 2]
    assert (task.count(), task.count(RowFilter(max_reward=0))) == (5, 3)
    assert task.row(4, 1).data == rows[4]
    with pytest.raises(UsageError, match="no row of problem 4, repeat 0"):
        task.row(4)
    with pytest.raises(UsageError, match="ordered by"):
        list(task.rows(order="prompt"))  # type: ignore[arg-type]


def test_it_is_rebuilt_when_missing_older_or_broken(tmp_path: Path) -> None:
    task = _write(tmp_path / "b", [_row(0)])
    folder = BenchmarkFolder(task.root)
    assert folder.count() == 1
    task.index.unlink()
    assert folder.count() == 1
    _write(task.root, [_row(0), _row(1)])
    assert folder.count() == 2
    # The same size, other rows.
    task.results.write_text(task.results.read_text().replace('"reward": 1.0', '"reward": 0.0'))
    assert folder.progress().mean_reward == 0.0
    task.index.write_bytes(b"no database" * 100)
    assert folder.count() == 2


def test_lines_of_others_are_passed_over(tmp_path: Path) -> None:
    task = _write(tmp_path / "b", [_row(0), {"id": 7}, _row(1, tokens="many", latency_ms=[1])])
    with task.results.open("a") as file:
        file.write('not json\n[1]\n{"problem_idx": 5, "reward": 1}')
    folder = BenchmarkFolder(task.root)
    assert [row.problem_idx for row in folder.rows(order="-problem_idx")] == [5, 1, 0]
    before = task.index.stat().st_mtime_ns
    assert folder.count() == 3
    assert task.index.stat().st_mtime_ns == before


def test_a_folder_that_cannot_be_written_is_read_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = _write(tmp_path / "b", [_row(0), _row(1)])
    task.index.mkdir()
    db, _ = open_index(task)
    assert db.execute("SELECT sum(rows) FROM pieces").fetchone() == (2,)
    db.close()
    assert BenchmarkFolder(task.root).count(RowFilter(min_reward=1)) == 1


def test_it_follows_the_journal_while_a_run_writes(tmp_path: Path) -> None:
    task = TaskPaths(tmp_path / "b")
    folder = BenchmarkFolder(task.root)

    async def run() -> None:
        journal = Journal(task.journal)
        _append(journal, 0)
        await asyncio.sleep(0)
        with kept_index(task, journal):
            _append(journal, 1, reward=None)
            journal.append({"kind": "answer", "problem_idx": 2, "repeat": 0, "response": ""})
            await asyncio.sleep(0)
            # A reader sees what is in the file, whatever the run has indexed of it.
            assert (folder.progress().scored, folder.progress().failed) == (1, 1)
        journal.close()

    asyncio.run(run())
    with sqlite3.connect(task.index) as db:
        name, upto, known, _ = db.execute("SELECT name, upto, known, stamp FROM source").fetchone()
    assert name == "journal.jsonl"
    # An answer without an outcome is read again next time.
    assert 0 < upto < known == task.journal.stat().st_size
    first = folder.row(0)
    assert (first.reward, first.category, first.truncated, first.refused, first.unparsed) == (
        1.0,
        "sums",
        *(True,) * 3,
    )
    assert (first.prompt, first.response, folder.row(1).cause) == ("?", "I cannot", "transport")
    assert folder.count(RowFilter(unparsed=True, truncated=True, refused=True)) == 1

    async def go_on() -> None:
        journal = Journal(task.journal)
        with kept_index(task, journal):
            journal.append(
                {
                    "kind": "outcome",
                    "problem_idx": 2,
                    "repeat": 0,
                    "status": "scored",
                    "reward": 0.5,
                }
            )
            _append(journal, 1, reward=0.0)
        journal.close()

    asyncio.run(go_on())
    assert [row.reward for row in folder.rows()] == [1.0, 0.0, 0.5]
    # A failed row that was done again is counted once.
    assert folder.progress() == BenchmarkProgress(scored=3, failed=0, mean_reward=0.5)


def test_a_cancelled_step_is_no_row(tmp_path: Path) -> None:
    task = TaskPaths(tmp_path / "b")

    async def run() -> None:
        journal = Journal(task.journal)
        failure = {"cause": "cancelled", "message": ""}
        journal.append(
            {
                "kind": "outcome",
                "problem_idx": 0,
                "repeat": 0,
                "status": "failed",
                "failure": failure,
            }
        )
        journal.close()

    asyncio.run(run())
    assert BenchmarkFolder(task.root).count() == 0


def test_the_rows_stand_for_the_run_once_they_are_newer_than_the_journal(tmp_path: Path) -> None:
    task = TaskPaths(tmp_path / "b")

    async def run() -> None:
        journal = Journal(task.journal)
        _append(journal, 0)
        _append(journal, 1)
        journal.close()

    asyncio.run(run())
    assert BenchmarkFolder(task.root).count() == 2
    _write(task.root, [_row(0)])
    os.utime(task.journal, (1, 1))
    assert BenchmarkFolder(task.root).count() == 1


def test_open_run_names_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no run is in"):
        open_run(tmp_path / "nowhere")
    _write(tmp_path / "out" / "b", [_row(0)])
    (tmp_path / "out" / "b" / "eval-b.json").write_text(
        json.dumps({"benchmark": {"name": "b", "scores": {}}})
    )
    run = open_run(tmp_path / "out")
    assert (
        run.bundle.name,
        list(run.benchmarks),
        run.count(),
        run.count("b", status="failed"),
    ) == ("b", ["b"], 1, 0)
    with pytest.raises(UsageError, match="no benchmark 'c'"):
        run.count("c")
    with pytest.raises(UsageError, match="cannot be chosen"):
        list(run.rows(colour="red"))


@pytest.mark.parametrize("page", [1, 2, 5])
def test_a_damaged_index_is_built_anew_or_removed_with_a_word(tmp_path: Path, page: int) -> None:
    task = _write(tmp_path / "b", [_row(number) for number in range(2_000)])
    folder = BenchmarkFolder(task.root)
    assert folder.count(RowFilter(finish_reason="stop")) == 2_000
    data = bytearray(task.index.read_bytes())
    data[4096 * page : 4096 * (page + 1)] = b"\xff" * 4096
    task.index.write_bytes(data)
    for _ in range(2):
        with contextlib.suppress(UsageError):
            assert len(list(folder.rows(RowFilter(finish_reason="stop")))) == 2_000
            assert len(list(folder.rows(RowFilter(min_reward=0.5)))) == 1_000
    assert len(list(folder.rows(RowFilter(min_reward=0.5)))) == 1_000


def test_looking_rows_up_does_not_have_the_index_built_anew(tmp_path: Path) -> None:
    task = _write(tmp_path / "b", [_row(number) for number in range(100)])
    folder = BenchmarkFolder(task.root)
    assert folder.count(RowFilter(finish_reason="stop")) == 100
    built = task.index.stat().st_ino
    assert [folder.count(RowFilter(min_reward=0.5)) for _ in range(3)] == [50, 50, 50]
    assert task.index.stat().st_ino == built


def test_rows_may_be_read_by_several_threads_in_turn(tmp_path: Path) -> None:
    task = _write(tmp_path / "b", [_row(number) for number in range(20)])
    rows = BenchmarkFolder(task.root).rows(RowFilter(min_reward=0.5))
    with ThreadPoolExecutor(1) as one, ThreadPoolExecutor(1) as other:
        first, second = one.submit(next, rows).result(), other.submit(next, rows).result()
        other.submit(rows.close).result()  # type: ignore[attr-defined]
    assert (first.problem_idx, second.problem_idx) == (1, 3)
    assert task.index.is_file()


def test_columns_are_let_go_with_their_reader(tmp_path: Path) -> None:
    folder = BenchmarkFolder(_write(tmp_path / "b", [_row(number) for number in range(20)]).root)
    gc.disable()
    try:
        with folder.reading() as (columns, _):
            column = weakref.ref(columns["tokens"])
            assert len(columns.chosen(RowFilter(min_tokens=10))) == 10
        del columns
        # A million rows are 8 MB a column: they cannot wait for the collector, which counts objects and not bytes.
        assert column() is None
    finally:
        gc.enable()


def test_rows_without_a_value_come_first_and_equal_ones_by_number(tmp_path: Path) -> None:
    rows = [
        _row(number, reward=(None, 0.0, 1.0)[number % 3], tokens=number % 4) for number in range(60)
    ]
    folder = BenchmarkFolder(_write(tmp_path / "b", rows).root)
    for order, key in (
        ("reward", lambda row: -1.0 if row.reward is None else row.reward),
        ("tokens", lambda row: row.tokens),
    ):
        told = sorted(folder.rows(), key=lambda row: (key(row), row.problem_idx))
        for offset, limit in (
            (0, 5),
            (3, 30),
            (18, 4),
            (19, 1),
            (38, 10),
            (55, 20),
            (60, 5),
            (0, None),
        ):
            for name, expected in ((order, told), (f"-{order}", told[::-1])):
                found = list(folder.rows(order=name, offset=offset, limit=limit))  # type: ignore[arg-type]
                wanted = expected[offset:] if limit is None else expected[offset : offset + limit]
                assert [row.problem_idx for row in found] == [row.problem_idx for row in wanted], (
                    name,
                    offset,
                    limit,
                )


def test_a_large_file_is_read_by_several_processes_with_the_same_outcome(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [
        _row(number, metadata={"category": f"c{number % 7}"}, prompt="?" * (number % 50))
        for number in range(3_000)
    ]
    task, other = _write(tmp_path / "b", rows), _write(tmp_path / "c", rows)
    for one in (task, other):
        with one.results.open("a") as file:
            file.write('not json\n{"problem_idx": 5000, "reward": 1}')
    started = list[Any]()
    real = index_apart._process
    monkeypatch.setattr(
        index_apart, "_process", lambda *args, **named: started.append(args) or real(*args, **named)
    )
    monkeypatch.setattr(index, "LARGE", 100_000)
    both = []
    for one in (task, other):
        with BenchmarkFolder(one.root).reading() as (columns, _):
            words = columns.words()
            codes = [words[code] for code in columns["category"]]
            both.append(
                [columns[name].tolist() for name in ("number", "at", "length", "flags")] + [codes]
            )
        monkeypatch.setattr(index, "LARGE", 1 << 40)
    assert started and both[0] == both[1] and len(both[0][0]) == 3_001


def test_a_folder_without_rows_that_cannot_be_written_has_none(tmp_path: Path) -> None:
    task = TaskPaths(tmp_path / "b")
    task.index.mkdir(parents=True)
    assert BenchmarkFolder(task.root).progress() == BenchmarkProgress(0, 0, None)
