"""Run folders that somebody made to fill memory: holes of a gigabyte, a hundred thousand files, lines without an end."""

from __future__ import annotations

import json
import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from nemo_evaluator.cli.main import nel as command
from nemo_evaluator.core import files
from nemo_evaluator.core.errors import NelError, UsageError
from nemo_evaluator.runs.folder import BenchmarkFolder

_GB = 2**30
COMMANDS = (
    ("check", "out", "--no-strict"),
    ("show", "out", "--json"),
    ("report", "out", "-f", "csv"),
    ("harvest", "out"),
    ("eval", "status", "-o", "out"),
    ("view", "out", "--export", "page.html"),
)


@pytest.fixture(autouse=True)
def _small_limit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(files, "LONGEST_LINE", 2**20)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)


def _row(number: int) -> bytes:
    row: dict[str, Any] = {"problem_idx": number, "repeat": 0, "status": "scored", "reward": 1.0}
    row |= {"prompt": "q", "model_response": "a", "finish_reason": "stop", "tokens": 1}
    return json.dumps(row | {"latency_ms": 1.0, "metadata": {}}).encode() + b"\n"


def _folder(count: int = 20) -> Path:
    folder = Path("out/b")
    folder.mkdir(parents=True)
    (folder / "results.jsonl").write_bytes(b"".join(_row(number) for number in range(count)))
    benchmark = {"name": "b", "samples": count, "scores": {"pass@1": {"value": 1.0}}}
    bundle = {"run_id": "eval-x", "config": {"model": "m"}, "benchmark": benchmark}
    (folder / "eval-b.json").write_text(json.dumps(bundle | {"n_results": count}))
    return folder


def _say(*words: str) -> str:
    """What a command prints; anything but an error for users is a bug."""
    done = CliRunner().invoke(command, list(words))
    error = done.exception
    if error is not None and not isinstance(error, SystemExit):
        assert isinstance(error, NelError | OSError), (words, repr(error))
        return str(error)
    return done.output


@pytest.mark.parametrize(
    "name",
    ["results.jsonl", "journal.jsonl", "eval-b.json", "SHA256SUMS", "labels.jsonl"],
)
def test_a_file_with_a_hole_is_refused_by_its_name(name: str) -> None:
    folder = _folder()
    with (folder / name).open("ab") as file:
        file.truncate(_GB)
    started = time.process_time()
    said = [_say(*words) for words in COMMANDS]
    assert any(name in text for text in said), said
    # A gigabyte is hashed, but not held.
    assert time.process_time() - started < 60


def test_a_line_without_an_end_is_refused_with_its_place() -> None:
    folder = _folder()
    with (folder / "results.jsonl").open("ab") as file:
        place = file.tell()
        file.truncate(_GB)
    with pytest.raises(UsageError, match=f"results.jsonl: the line at byte {place:,} is longer"):
        list(files.lines_from(folder / "results.jsonl"))
    whole = list(files.lines_from(Path(__file__)))
    assert b"".join(line for _, line in whole) == Path(__file__).read_bytes()


def test_a_hundred_thousand_other_files_change_nothing() -> None:
    folder = _folder()
    said = [_say(*words) for words in COMMANDS[:4]]
    for number in range(100_000 if os.environ.get("NEL_TEST_ALL") else 10_000):
        (folder / f"file-{number}").touch()
    assert [_say(*words) for words in COMMANDS[:4]] == said


def test_a_file_that_grows_while_it_is_read_gives_whole_rows() -> None:
    folder = _folder(200)
    done = threading.Event()

    def grow() -> None:
        with (folder / "results.jsonl").open("ab", buffering=0) as file:
            number = 200
            while not done.is_set():
                row = _row(number)
                # In two parts, as a writer's buffer ends where it likes.
                file.write(row[:40])
                file.write(row[40:])
                number += 1

    writer = threading.Thread(target=grow)
    writer.start()
    try:
        for _ in range(5):
            rows = list(BenchmarkFolder(folder).rows())
            assert [row.problem_idx for row in rows] == list(range(len(rows)))
            assert len(rows) >= 200
            _say("show", "out", "--json")
    finally:
        done.set()
        writer.join()


def test_the_rest_of_a_line_that_was_still_being_written_is_not_a_line(tmp_path: Path) -> None:
    path = tmp_path / "growing.jsonl"
    path.write_bytes(b'{"a": 1}\n{"b"')
    lines = files.lines_from(path)
    assert next(lines) == (0, b'{"a": 1}\n')
    assert next(lines) == (9, b'{"b"')
    with path.open("ab") as file:
        file.write(b': 2}\n{"c": 3}\n')
    assert list(lines) == []
