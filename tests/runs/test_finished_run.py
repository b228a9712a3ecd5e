"""A real run: its index stands for its rows without having been built again, and status reads it."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from nemo_evaluator import open_run
from nemo_evaluator.core.errors import MissingExtraError
from nemo_evaluator.testing import ScriptedServer


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("run")
    with ScriptedServer() as server:
        command = [
            "eval",
            "run",
            "--bench",
            "quickstart",
            "--model-url",
            server.url,
            "--model-id",
            "tiny",
            "-o",
            "out",
        ]
        nel = str(Path(sys.executable).with_name("nel"))
        done = subprocess.run([nel, *command], cwd=out, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
    return out / "out"


def test_rows_of_the_journal_are_the_rows_that_were_written(folder: Path) -> None:
    run = open_run(folder)
    (task,) = run.benchmarks.values()
    with sqlite3.connect(task.path / "index.sqlite") as db:
        name, upto, _, stamp = db.execute("SELECT name, upto, known, stamp FROM source").fetchone()
    assert (name, upto) == ("journal.jsonl", (task.path / "journal.jsonl").stat().st_size)
    assert stamp == (task.path / "results.jsonl").stat().st_mtime_ns
    written = [json.loads(line) for line in (task.path / "results.jsonl").read_text().splitlines()]
    assert [row.data for row in run.rows()] == written
    assert [row.data for row in run.rows(order="-problem_idx", limit=2)] == written[:-3:-1]
    # Rows that were changed by hand are not those of the journal any more.
    (task.path / "results.jsonl").write_text(json.dumps(written[0] | {"reward": 0.25}) + "\n")
    assert [row.reward for row in run.rows(order="reward")] == [0.25]


def test_a_table_needs_pandas(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert list(open_run(folder).to_pandas()["benchmark"].unique()) == ["quickstart"]
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingExtraError, match="pandas") as caught:
        open_run(folder).to_pandas()
    assert caught.value.hint == 'pip install "nemo-evaluator[pandas]"'
