"""The clock going back while a run is under way, and between its sessions: no figure is negative, no row is stale."""

from __future__ import annotations

import json
import os
import time
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from nemo_evaluator.core.errors import TransportError
from nemo_evaluator.engine.evaluation import evaluate
from nemo_evaluator.engine.job import Evaluation
from nemo_evaluator.launch.status import benchmark_status
from nemo_evaluator.models.batch.ledger import BatchLedger, State, Wave, open_batches
from nemo_evaluator.runs.folder import BenchmarkFolder
from nemo_evaluator.store.layout import TaskPaths
from nemo_evaluator.store.run_registry import RunMeta

_YEAR = 365 * 24 * 3600.0


def backwards(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on each look at the clock is a minute before the one before."""
    steps = count()
    start = time.time()
    monkeypatch.setattr(time, "time", lambda: start - 60.0 * next(steps))


def rewards(folder: Path) -> list[float | None]:
    rows = map(json.loads, TaskPaths(folder).results.read_text().splitlines())
    return [row["reward"] for row in rows]


async def test_a_run_through_which_the_clock_goes_back(
    sums: Any, scripted: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as clock:
        backwards(clock)
        done = await evaluate(Evaluation(sums, scripted, tmp_path))
    runtime = done.bundle["benchmark"]["scores"]["runtime"]
    numbers = [value for value in runtime.values() if isinstance(value, int | float)]
    assert min(numbers) >= 0.0 and runtime["elapsed_seconds"] < 60.0
    assert rewards(tmp_path) == [1.0] * 10
    assert BenchmarkFolder(tmp_path).progress().scored == 10
    status = benchmark_status(tmp_path, {"planned": 10, "at": time.time() + _YEAR}, running=True)
    assert (status.rate, status.eta_seconds) == (None, None)


async def test_rows_from_a_later_time_are_written_anew(
    sums: Any, scripted: Any, tmp_path: Path
) -> None:
    """The first session ran in the future: its rows must not pass for those of the journal that grew since."""

    def fail_once(prompt: str) -> Any:
        return (
            TransportError("reset")
            if prompt.split()[-1] == "3?"
            else str(2 * int(prompt.split()[-1].rstrip("?")))
        )

    right = scripted.answer
    scripted.answer = fail_once
    await evaluate(Evaluation(sums, scripted, tmp_path))
    task = TaskPaths(tmp_path)
    assert rewards(tmp_path).count(None) == 1
    later = time.time() + _YEAR
    for path in (task.journal, task.results):
        os.utime(path, (later, later))
    scripted.answer = right
    done = await evaluate(Evaluation(sums, scripted, tmp_path, resume=True))
    assert rewards(tmp_path) == [1.0] * 10
    assert done.bundle["benchmark"]["coverage"]["scored"] == 10
    assert BenchmarkFolder(tmp_path).progress().failed == 0
    again = await evaluate(Evaluation(sums, scripted, tmp_path, resume=True))
    assert again.bundle["benchmark"]["scores"]["pass@1"]["value"] == 1.0


async def test_a_session_that_was_killed_leaves_no_stale_rows(
    sums: Any, scripted: Any, tmp_path: Path
) -> None:
    await evaluate(Evaluation(sums, scripted, tmp_path))
    task = TaskPaths(tmp_path)
    later = time.time() + _YEAR
    os.utime(task.results, (later, later))
    # A session of today that is killed before it writes its rows has a journal with an earlier time than they have.
    sums.version = "2"
    sums.on_verify = lambda response: None
    await evaluate(Evaluation(sums, scripted, tmp_path, resume=True))
    assert task.results.stat().st_mtime < later
    assert rewards(tmp_path) == [1.0] * 10


def test_a_run_that_starts_tomorrow_has_no_age() -> None:
    started = datetime.now(UTC) + timedelta(days=1)
    run = RunMeta("20260101_000000_00000000", "local", "/nowhere", started.isoformat(), "")
    assert run.age(datetime.now(UTC)) == timedelta(0)


async def test_a_batch_of_tomorrow_waits_its_time_and_no_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "model"
    ledger = BatchLedger(folder)
    with monkeypatch.context() as clock:
        tomorrow = time.time() + 24 * 3600.0
        clock.setattr(time, "time", lambda: tomorrow)
        wave = Wave("a" * 32, ["1"])
        ledger.note(wave, State.PREPARED, ids=wave.ids)
        ledger.note(wave, State.SUBMITTING)
        ledger.note(wave, State.SUBMITTED, batch="batch_1")
    ledger.close()
    again = BatchLedger(folder)
    (taken_up,) = again.waves.values()
    assert 0.0 <= time.monotonic() - taken_up.began < 3600.0
    again.close()
    (words,) = open_batches(tmp_path)
    assert "submitted 0.0 h ago" in words
