"""Which runs a path means."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import nemo_evaluator.engine as engine
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.decisions import discover_bundles, find_runs, match_bundles

SOME = [1.0, 0.0]


def test_a_file_a_task_folder_or_any_folder_above(write_run: Any, tmp_path: Path) -> None:
    task = write_run("out/quick/deep/toy", SOME)
    for path in (next(task.glob("eval-*.json")), task, tmp_path / "out", tmp_path):
        assert [run.name for run in find_runs(path)] == ["toy"]


def test_the_newest_of_a_name_counts_and_earlier_runs_are_left_alone(
    write_run: Any, tmp_path: Path
) -> None:
    """W16"""
    write_run("a/toy", SOME, stamp="20260301T000000Z")
    write_run("a/toy", SOME, stamp="20260101T000000Z")
    write_run("a/toy/previous/20270101T000000Z", SOME, stamp="20270101T000000Z")
    (run,) = find_runs(tmp_path / "a")
    assert run.run_id == "eval-20260301T000000Z-toy"


def test_two_benchmarks_in_one_folder_are_two(write_run: Any, tmp_path: Path) -> None:
    write_run("a", SOME, name="one")
    write_run("a", SOME, name="two")
    assert set(discover_bundles(tmp_path / "a")) == {"one", "two"}


def test_merged_shards_stand_for_their_parts(write_run: Any, tmp_path: Path) -> None:
    """W17: shards must not be counted beside, or instead of, what they were merged into."""
    write_run("a/shard_0/toy", SOME)
    write_run("a/shard_1/toy", SOME)
    with pytest.raises(UsageError, match="both hold a run of 'toy'") as caught:
        discover_bundles(tmp_path / "a")
    assert caught.value.hint is not None
    assert "nel eval merge" in caught.value.hint
    merged = write_run("a/toy", [*SOME, *SOME])
    (run,) = find_runs(tmp_path / "a")
    assert run.path.parent == merged


def test_one_name_in_two_folders_is_an_error(write_run: Any, tmp_path: Path) -> None:
    write_run("a/hot", SOME, name="toy")
    write_run("a/cold", SOME, name="toy")
    with pytest.raises(UsageError, match=r"a/cold and .*a/hot both hold a run of 'toy'") as caught:
        discover_bundles(tmp_path / "a")
    assert caught.value.hint == "give the folder of one of them"


def test_matching(write_run: Any, tmp_path: Path) -> None:
    for side, names in (("a", ("x", "y")), ("b", ("y", "z"))):
        for name in names:
            write_run(f"{side}/{name}", SOME, name=name)
    matched = match_bundles(discover_bundles(tmp_path / "a"), discover_bundles(tmp_path / "b"))
    assert (list(matched.pairs), matched.only_baseline, matched.only_candidate) == (
        ["y"],
        ["x"],
        ["z"],
    )


def test_one_against_one_needs_no_equal_name(write_run: Any, tmp_path: Path) -> None:
    write_run("a/x", SOME, name="x")
    write_run("b/y", SOME, name="y")
    assert (
        len(match_bundles(discover_bundles(tmp_path / "a"), discover_bundles(tmp_path / "b")).pairs)
        == 1
    )


def test_what_is_not_a_bundle_is_an_error_not_a_gap(write_run: Any, tmp_path: Path) -> None:
    task = write_run("a/toy", SOME)
    bundle = next(task.glob("eval-*.json"))
    bundle.write_text('{"run_id": ')
    with pytest.raises(UsageError, match="cannot read"):
        find_runs(tmp_path / "a")
    bundle.write_text("[]")
    with pytest.raises(UsageError, match="not a bundle"):
        find_runs(tmp_path / "a")
    with pytest.raises(UsageError, match="does not exist"):
        find_runs(tmp_path / "nowhere")


def test_the_names_are_also_where_they_used_to_be() -> None:
    assert engine.discover_bundles is discover_bundles
