"""The journal: nothing that was handed over is lost, nothing torn is believed."""

import asyncio
import os
from pathlib import Path

import pytest

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.types import Step
from nemo_evaluator.store.index import StepIndex
from nemo_evaluator.store.journal import Journal
from nemo_evaluator.store.sealed import JournalError, scan_records


async def test_records_are_in_the_file_before_they_are_counted(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    seen: list[int] = []
    for number in range(3):
        journal.append(
            {"kind": "x", "n": number},
            lambda: seen.append(len(journal.path.read_bytes().splitlines())),
        )
    assert seen == []
    await asyncio.sleep(0)
    assert seen == [3, 3, 3]
    journal.close()


async def test_offsets_lead_back_to_the_records(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    offsets = [journal.append({"n": number, "text": "é" * number * 4000}) for number in range(5)]
    assert [journal.read_at(offset)["n"] for offset in offsets] == [0, 1, 2, 3, 4]
    journal.close()


@pytest.mark.parametrize("torn", [b'{"kind":"answer","prob', b"{", b"\x00\xff garbage"])
def test_a_torn_last_line_is_cut_off(tmp_path: Path, torn: bytes) -> None:
    path = tmp_path / "journal.jsonl"
    path.write_bytes(b'{"n":1}\n{"n":2}\n' + torn)
    journal = Journal(path)
    assert journal.repaired == len(torn)
    journal.close()
    assert [record["n"] for _, record in scan_records(path)] == [1, 2]


def test_a_file_that_is_one_torn_line_becomes_empty(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    path.write_bytes(b"x" * (3 << 20))
    Journal(path).close()
    assert path.read_bytes() == b""


def test_a_bad_line_in_the_middle_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    path.write_bytes(b'{"n":1}\nnot json\n{"n":2}\n')
    assert [(offset, record["n"]) for offset, record in scan_records(path)] == [(0, 1), (17, 2)]


def test_a_second_writer_is_refused(tmp_path: Path) -> None:
    first = Journal(tmp_path / "journal.jsonl")
    with pytest.raises(UsageError, match="another run"):
        Journal(tmp_path / "journal.jsonl")
    first.close()
    Journal(tmp_path / "journal.jsonl").close()


async def test_a_full_disk_stops_the_run_and_says_so(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    full = os.open("/dev/full", os.O_RDWR)
    os.dup2(full, journal._fd)
    counted: list[bool] = []
    journal.append({"n": 1}, lambda: counted.append(True))
    await asyncio.sleep(0)
    assert counted == []
    with pytest.raises(JournalError, match="No space left"):
        journal.append({"n": 2})
    os.close(full)


async def test_the_newest_record_of_a_step_counts(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    journal.append({"kind": "run", "at": 10.0, "fingerprints": {"solver": "a"}})
    journal.append({"kind": "answer", "problem_idx": 1, "repeat": 0, "at": 12.5, "fp": "old"})
    newest = journal.append(
        {"kind": "answer", "problem_idx": 1, "repeat": 0, "at": 13.0, "fp": "new"}
    )
    journal.append({"kind": "answer", "problem_idx": 99, "repeat": 0, "fp": "outside"})
    index = StepIndex(problems=3, repeats=2)
    history = index.load(journal)
    assert index.answer(Step(1, 0)) == newest
    assert index.answer(Step(1, 1)) is None
    assert index.outcome(Step(1, 0)) is None
    assert (history.runs, history.elapsed, history.fingerprints) == (1, 3.0, {"solver": "a"})
    journal.close()
