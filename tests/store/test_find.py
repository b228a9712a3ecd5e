"""Which bundles are reported on."""

from __future__ import annotations

from pathlib import Path

import pytest

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.runs.find import find_bundles


def _touch(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("{}")
    return path


def test_the_newest_of_a_task_wins_and_past_runs_are_left_out(tmp_path: Path) -> None:
    _touch(tmp_path / "a" / "eval-20250101T000000Z-a.json")
    newest = _touch(tmp_path / "a" / "eval-20260101T000000Z-a.json")
    deep = _touch(tmp_path / "x" / "y" / "b" / "eval-20240101T000000Z-b.json")
    _touch(tmp_path / "a" / "previous" / "20250101T000000Z" / "eval-20270101T000000Z-a.json")
    assert find_bundles(tmp_path) == [newest, deep]


def test_a_folder_that_is_itself_called_previous_can_be_reported_on(tmp_path: Path) -> None:
    old = _touch(tmp_path / "previous" / "20250101T000000Z" / "eval-20270101T000000Z-a.json")
    assert find_bundles(tmp_path / "previous") == [old]


def test_two_benchmarks_in_one_folder_are_both_there(tmp_path: Path) -> None:
    both = [_touch(tmp_path / f"eval-20260101T000000Z-{name}.json") for name in ("a", "b")]
    assert find_bundles([tmp_path]) == both


def test_shards_count_only_until_they_are_merged(tmp_path: Path) -> None:
    shards = [
        _touch(tmp_path / f"shard_{at}" / "a" / "eval-20260101T000000Z-a.json") for at in range(2)
    ]
    assert find_bundles(tmp_path) == shards
    merged = _touch(tmp_path / "a" / "eval-20260102T000000Z-a.json")
    assert find_bundles(tmp_path) == [merged]


def test_a_file_is_taken_as_it_is_and_once(tmp_path: Path) -> None:
    path = _touch(tmp_path / "a" / "eval-20260101T000000Z-a.json")
    assert find_bundles([path, tmp_path, str(path)]) == [path]


def test_nothing_found_is_an_error_with_a_hint(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no bundle") as caught:
        find_bundles(tmp_path)
    assert caught.value.hint
    with pytest.raises(UsageError, match="does not exist"):
        find_bundles(tmp_path / "nowhere")
