"""Labels of rows: append-only, the last one counts, and what is cut off or foreign harms nothing."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.runs.labels import Label, all_labels, append_label, read_labels
from nemo_evaluator.store.layout import TaskPaths, archive_previous


def test_the_last_label_of_a_row_counts_and_all_are_kept(tmp_path: Path) -> None:
    append_label(tmp_path, Label(3, 0, "wrong", "off by one", "ada"))
    append_label(tmp_path, Label(3, 1, "unsure"))
    append_label(tmp_path, Label(3, 0, "right", who="bob", when="2026-11-17T02:40:00Z"))

    assert read_labels(tmp_path)[3, 0] == Label(
        3, 0, "right", who="bob", when="2026-11-17T02:40:00Z"
    )
    assert [label.label for label in all_labels(tmp_path)] == ["wrong", "unsure", "right"]
    assert read_labels(tmp_path)[3, 1].when.endswith("Z")


def test_an_empty_label_takes_an_earlier_one_back(tmp_path: Path) -> None:
    append_label(tmp_path, Label(3, 0, "wrong"))
    append_label(tmp_path, Label(3, 0, ""))
    assert read_labels(tmp_path) == {}


def test_a_torn_line_costs_only_itself(tmp_path: Path) -> None:
    append_label(tmp_path, Label(1, 0, "right"))
    with TaskPaths(tmp_path).labels.open("ab") as file:
        file.write(b'{"problem_idx": 2, "repe')
    append_label(tmp_path, Label(3, 0, "wrong"))
    assert set(read_labels(tmp_path)) == {(1, 0), (3, 0)}


@pytest.mark.parametrize(
    "line",
    [
        "[]",
        "7",
        '{"problem_idx": "1", "label": "right"}',
        '{"problem_idx": 1, "label": "perhaps"}',
        "\xff",
    ],
)
def test_lines_that_are_no_labels_are_passed_over(tmp_path: Path, line: str) -> None:
    TaskPaths(tmp_path).labels.write_bytes(line.encode("latin-1") + b"\n")
    append_label(tmp_path, Label(2, 0, "right"))
    assert set(read_labels(tmp_path)) == {(2, 0)}


def test_writers_at_the_same_time_lose_nothing(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(
            pool.map(
                lambda number: append_label(tmp_path, Label(number, 0, "right", "x" * 3000)),
                range(64),
            )
        )
    assert len(read_labels(tmp_path)) == 64


def test_what_is_no_label_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not a label"):
        append_label(tmp_path, Label(2, 0, "perhaps"))  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="cannot write"):
        append_label(tmp_path / "absent", Label(2, 0, "right"))


def test_labels_go_aside_with_the_run_they_are_of(tmp_path: Path) -> None:
    TaskPaths(tmp_path).journal.write_text("")
    append_label(tmp_path, Label(2, 0, "right"))
    assert archive_previous(TaskPaths(tmp_path)) is not None and read_labels(tmp_path) == {}
    (moved,) = (tmp_path / "previous").iterdir()
    assert set(read_labels(moved)) == {(2, 0)}
