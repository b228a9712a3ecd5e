"""Fixtures for tests of executors."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from executor_bench import Bench
from nel_support import Serve, Sums, serve, sums

from nemo_evaluator.store.runs import load_run

__all__ = ["serve", "sums"]
# Every executor that this version has keeps the same contract.
EXECUTORS = ["local", pytest.param("slurm", marks=pytest.mark.needs("slurm"))]


@pytest.fixture(params=EXECUTORS)
def on(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, serve: Serve, sums: Sums
) -> Iterator[Bench]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    made = Bench(request.param, tmp_path, serve, sums)
    yield made
    for file in tmp_path.glob("*/nel_run.json"):
        run = load_run(file.parent)
        if run is not None and made.executor.life(run):
            made.executor.stop(run)
