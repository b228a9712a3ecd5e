"""The registry lists runs from the newest to the oldest, also those that began in the same second."""

from pathlib import Path

import pytest

from nemo_evaluator.store.run_registry import RunMeta, list_runs


def test_runs_of_one_second_are_listed_newest_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    # The hex digits are random in a real id, so their order says nothing about time.
    for part, digits in enumerate(("cc", "aa", "bb", "00")):
        output_dir = tmp_path / digits
        output_dir.mkdir()
        run = RunMeta(
            run_id=f"20260102_030405_{digits * 4}",
            executor="local",
            output_dir=str(output_dir),
            started_at=f"2026-01-02T03:04:05.{part}00000+00:00",
            config_summary="",
        )
        run.save()
    assert [run.run_id[-2:] for run in list_runs()] == ["00", "bb", "aa", "cc"]
