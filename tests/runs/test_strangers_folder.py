"""A run's folder that somebody else made: its index is read with care and believed only when this user sealed it."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sqlite3
import time
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pytest

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.runs import index_file, index_seal
from nemo_evaluator.runs.bundle import load_bundle
from nemo_evaluator.runs.folder import BenchmarkFolder, BenchmarkProgress, open_run
from nemo_evaluator.runs.index import kept_index
from nemo_evaluator.runs.query import RowFilter
from nemo_evaluator.runs.unfinished import read_checkpoint
from nemo_evaluator.store.journal import Journal
from nemo_evaluator.store.layout import TaskPaths
from nemo_evaluator.store.run_registry import load_run

_ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"


def _rows(reward: float = 0.0, count: int = 20) -> list[dict[str, Any]]:
    row = {
        "repeat": 0,
        "status": "scored",
        "reward": reward,
        "finish_reason": "stop",
        "model_response": "?",
    }
    return [
        row | {"problem_idx": number, "tokens": 1, "latency_ms": 1.0} for number in range(count)
    ]


def _folder(path: Path, rows: list[dict[str, Any]]) -> BenchmarkFolder:
    path.mkdir(parents=True, exist_ok=True)
    TaskPaths(path).results.write_text("".join(json.dumps(row) + "\n" for row in rows))
    (path / "eval-b.json").write_text(json.dumps({"benchmark": {"name": "b", "scores": {}}}))
    return BenchmarkFolder(path)


def _edited(index: Path, *changes: str) -> None:
    with sqlite3.connect(index) as db:
        for change in changes:
            db.execute(change)
    db.close()


def _forged_rewards(index: Path) -> None:
    """Every reward is 1.0, and every digest fits what it stands beside."""
    column = list(index_file.COLUMNS).index("reward")
    with sqlite3.connect(index) as db:
        found = db.execute("SELECT id, data FROM cells").fetchall()
        for cell, data in found:
            if cell >> 32 == column:
                forged = b"\0\0\0\0\0\0\xf0?" * (len(data) // 8)
                digest = blake2b(forged, digest_size=16).digest()
                db.execute(
                    "UPDATE cells SET data = ?, digest = ? WHERE id = ?", (forged, digest, cell)
                )
        db.execute("UPDATE pieces SET sum = rows")
    db.close()


def _forged_words(index: Path) -> None:
    _edited(index, "UPDATE words SET word = 'tamper' WHERE code = 1")


def _missing_pieces(index: Path) -> None:
    _edited(index, "DELETE FROM pieces", "DELETE FROM cells")


def _trigger(index: Path) -> None:
    _edited(index, f"CREATE TRIGGER t AFTER UPDATE ON source BEGIN {_ENDLESS}; END")


def _view(index: Path) -> None:
    _edited(index, "DROP TABLE pieces", f"CREATE VIEW pieces AS {_ENDLESS}")


def _generated_column(index: Path) -> None:
    _edited(index, "ALTER TABLE source ADD COLUMN x AS (hex(zeroblob(1000000000)))")


def _virtual_table(index: Path) -> None:
    _edited(index, "CREATE VIRTUAL TABLE v USING fts5(x)")


def _write_ahead(index: Path) -> None:
    with sqlite3.connect(index) as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("UPDATE pieces SET sum = rows")
    db.close()


def _no_pages(index: Path) -> None:
    whole = index.read_bytes()
    index.write_bytes(whole[:100] + b"\xff" * (len(whole) - 100))


def _fifo(index: Path) -> None:
    index.unlink()
    os.mkfifo(index)


def _link_to_another(index: Path) -> None:
    other = index.with_name("victim.sqlite")
    index.rename(other)
    index.symlink_to(other)


def _hot_journal(index: Path) -> None:
    index.with_name("index.sqlite-journal").write_bytes(
        b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7" + b"\0" * 1000
    )


_ATTACKS: list[Callable[[Path], None]] = [
    _forged_rewards,
    _forged_words,
    _missing_pieces,
    _trigger,
    _view,
    _generated_column,
    _virtual_table,
    _write_ahead,
    _no_pages,
    _fifo,
    _link_to_another,
    _hot_journal,
]


@pytest.mark.parametrize("attack", _ATTACKS)
def test_an_index_that_was_changed_is_not_believed(
    tmp_path: Path, attack: Callable[[Path], None]
) -> None:
    folder = _folder(tmp_path / "out" / "b", _rows())
    assert folder.progress() == BenchmarkProgress(20, 0, 0.0)
    attack(TaskPaths(folder.path).index)
    began = time.monotonic()
    assert folder.progress() == BenchmarkProgress(20, 0, 0.0)
    assert open_run(tmp_path / "out").count(min_reward=1) == 0
    assert [row.reward for row in folder.rows(RowFilter(max_reward=0))] == [0.0] * 20
    assert time.monotonic() - began < 30


def test_what_a_link_leads_to_is_not_changed(tmp_path: Path) -> None:
    folder = _folder(tmp_path / "b", _rows())
    victim = tmp_path / "victim.sqlite"
    with sqlite3.connect(victim) as db:
        db.execute("CREATE TABLE precious (x)")
    db.close()
    before = victim.read_bytes()
    TaskPaths(folder.path).index.symlink_to(victim)
    assert folder.count() == 20
    assert victim.read_bytes() == before


def test_an_index_of_another_user_is_built_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as stranger:
        stranger.setenv("XDG_DATA_HOME", str(tmp_path / "stranger"))
        folder = _folder(tmp_path / "b", _rows(reward=1.0))
        assert folder.progress().mean_reward == 1.0
    index, results = TaskPaths(folder.path).index, TaskPaths(folder.path).results
    there = results.stat()
    # The rows are changed in place afterwards, and nothing that an archive keeps tells of it.
    text = results.read_text().replace('"reward": 1.0', '"reward": 0.0')
    with results.open("r+") as file:
        file.write(text)
    os.utime(results, ns=(there.st_atime_ns, there.st_mtime_ns))
    assert index.is_file()
    assert folder.progress().mean_reward == 0.0


def test_own_rows_that_were_edited_in_place_are_read_again(tmp_path: Path) -> None:
    folder = _folder(tmp_path / "b", _rows(reward=1.0))
    results = TaskPaths(folder.path).results
    assert folder.progress().mean_reward == 1.0
    there = results.stat()
    with results.open("r+") as file:
        file.write(results.read_text().replace('"reward": 1.0', '"reward": 0.0'))
    os.utime(results, ns=(there.st_atime_ns, there.st_mtime_ns))
    assert folder.progress().mean_reward == 0.0


def test_an_own_index_beside_other_rows_is_built_anew(tmp_path: Path) -> None:
    good = _folder(tmp_path / "good", _rows(reward=1.0))
    bad = _folder(tmp_path / "bad", _rows(reward=0.0))
    assert good.progress().mean_reward == 1.0
    shutil.copy(TaskPaths(good.path).index, TaskPaths(bad.path).index)
    there = TaskPaths(good.path).results.stat()
    os.utime(TaskPaths(bad.path).results, ns=(there.st_atime_ns, there.st_mtime_ns))
    assert bad.progress().mean_reward == 0.0


def test_the_index_of_an_edited_journal_is_built_anew(tmp_path: Path) -> None:
    task = TaskPaths(tmp_path / "b")

    async def run() -> None:
        journal = Journal(task.journal)
        with kept_index(task, journal):
            step = {"problem_idx": 0, "repeat": 0, "fp": "f"}
            journal.append({"kind": "answer", **step, "response": "no", "finish_reason": "stop"})
            journal.append(
                {
                    "kind": "outcome",
                    **step,
                    "status": "scored",
                    "reward": 1.0,
                    "scoring_details": {},
                }
            )
        journal.close()

    asyncio.run(run())
    folder = BenchmarkFolder(task.root)
    assert folder.progress().mean_reward == 1.0
    built = task.index.stat().st_ino
    assert (folder.progress().mean_reward, task.index.stat().st_ino) == (1.0, built)
    there = task.journal.stat()
    with task.journal.open("r+") as file:
        file.write(task.journal.read_text().replace('"reward":1.0', '"reward":0.0'))
    os.utime(task.journal, ns=(there.st_atime_ns, there.st_mtime_ns))
    # The checksum of the record does not fit any more: there is no row.
    assert folder.progress() == BenchmarkProgress(0, 0, None)


def test_the_key_is_private_and_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    folder = _folder(tmp_path / "b", _rows())
    assert folder.count() == 20
    key = tmp_path / "data" / "nel" / index_seal.KEY_FILE
    assert key.stat().st_mode & 0o777 == 0o600 and len(key.read_bytes()) == 32
    assert [path.name for path in key.parent.iterdir()] == [key.name]


def test_without_a_place_for_the_key_an_index_holds_for_its_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data").write_text("no folder")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    folder = _folder(tmp_path / "b", _rows())
    assert folder.count() == 20
    built = TaskPaths(folder.path).index.stat().st_ino
    assert (folder.count(), TaskPaths(folder.path).index.stat().st_ino) == (20, built)


@pytest.mark.parametrize(
    "name", ["results.jsonl", "journal.jsonl", "labels.jsonl", "eval-c.json", "SHA256SUMS"]
)
@pytest.mark.parametrize("kind", ["pipe", "link", "device"])
def test_what_is_no_file_of_the_folder_is_refused(tmp_path: Path, name: str, kind: str) -> None:
    folder = _folder(tmp_path / "out" / "b", _rows())
    path = folder.path / name
    path.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/etc/passwd" if kind == "link" else "/dev/zero")
    looks: list[Callable[[], object]] = [
        folder.count,
        folder.progress,
        lambda: list(folder.rows()),
        lambda: load_bundle(folder.path / "eval-b.json"),
    ]
    for look in looks:
        with pytest.raises(UsageError, match=name) as caught:
            look()
        assert "root:" not in str(caught.value)


@pytest.mark.parametrize("name", ["checkpoint.json", "nel_run.json"])
def test_a_pipe_in_the_place_of_a_runs_file_does_not_hold_a_reader_up(
    tmp_path: Path, name: str
) -> None:
    folder = _folder(tmp_path / "out" / "b", _rows())
    os.mkfifo(tmp_path / "out" / name)
    assert read_checkpoint(tmp_path / "out") == {} and load_run(tmp_path / "out") is None
    assert folder.count() == 20
