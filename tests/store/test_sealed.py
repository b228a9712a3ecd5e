"""Checksums of records: what is damaged is named and never believed, and a verdict needs its answer."""

import random
import stat
from pathlib import Path

import pytest

from nemo_evaluator.core.types import Step
from nemo_evaluator.store.index import StepIndex
from nemo_evaluator.store.journal import Journal, damaged_lines
from nemo_evaluator.store.sealed import (
    Damage,
    JournalError,
    damaged_records,
    open_line,
    scan_records,
    seal,
)


def _journal(folder: Path, *records: dict[str, object]) -> Path:
    path = folder / "journal.jsonl"
    path.write_bytes(b"".join(seal(record)[0] for record in records))
    return path


def _answer(problem: int, text: str = "6") -> dict[str, object]:
    return {"kind": "answer", "problem_idx": problem, "repeat": 0, "fp": "f", "response": text}


def _outcome(problem: int, of: str) -> dict[str, object]:
    return {
        "kind": "outcome",
        "problem_idx": problem,
        "repeat": 0,
        "fp": "v",
        "status": "scored",
        "reward": 1.0,
        "of": of,
    }


def test_a_sealed_line_is_json_and_opens_again() -> None:
    line, checksum = seal({"kind": "answer", "text": "é\n"})
    assert open_line(line) == {"kind": "answer", "text": "é\n", "crc": checksum}


def test_no_flip_of_a_byte_goes_unseen() -> None:
    line, _ = seal(_answer(3, "The answer is 42."))
    whole = open_line(line)
    rng = random.Random(1)
    for at in range(len(line) - 1):
        changed = bytearray(line)
        changed[at] ^= 1 << rng.randrange(8)
        opened = open_line(bytes(changed))
        # A flip in the checksum's own name leaves the record as it was.
        assert opened is None or all(
            opened[key] == value for key, value in (whole or {}).items() if key != "crc"
        )


def test_damage_is_named_with_its_line_and_step(tmp_path: Path) -> None:
    path = _journal(tmp_path, _answer(0), _answer(12), _answer(2))
    path.write_bytes(
        path.read_bytes().replace(
            b'"problem_idx":12,"repeat":0,"fp":"f"', b'"problem_idx":12,"repeat":0,"fp":"g"'
        )
    )
    damage: list[Damage] = []
    assert [record["problem_idx"] for _, record in scan_records(path, damage.append)] == [0, 2]
    assert [str(found) for found in damage] == [
        f"{path}, line 2: damaged answer (problem 12, repeat 0)"
    ]


def test_a_line_without_a_checksum_is_believed_only_before_the_first_that_has_one(
    tmp_path: Path,
) -> None:
    path = tmp_path / "journal.jsonl"
    path.write_bytes(b'{"n":1}\n' + seal({"n": 2})[0] + b'{"n":3}\n')
    damage: list[Damage] = []
    assert [record["n"] for _, record in scan_records(path, damage.append)] == [1, 2]
    assert [found.line for found in damage] == [3]


@pytest.mark.parametrize("lost", ["answer", "none"])
def test_a_verdict_never_stands_without_its_answer(tmp_path: Path, lost: str) -> None:
    checksum = seal(_answer(1, "new"))[1]
    records = [
        _answer(1, "old"),
        *([] if lost == "answer" else [_answer(1, "new")]),
        _outcome(1, checksum),
    ]
    journal = Journal(_journal(tmp_path, *records))
    index = StepIndex(problems=3, repeats=1)
    index.load(journal)
    assert (index.outcome(Step(1, 0)) is None) == (lost == "answer")
    journal.close()


def test_a_new_answer_has_no_verdict_yet(tmp_path: Path) -> None:
    old = seal(_answer(1, "old"))[1]
    journal = Journal(_journal(tmp_path, _answer(1, "old"), _outcome(1, old), _answer(1, "new")))
    index = StepIndex(problems=3, repeats=1)
    index.load(journal)
    assert index.outcome(Step(1, 0)) is None
    journal.close()


def test_damaged_lines_are_set_aside(tmp_path: Path) -> None:
    path = _journal(tmp_path, _answer(0), _answer(1), _answer(2))
    lines = path.read_bytes().splitlines(keepends=True)
    bad = lines[1].replace(b'"6"', b'"7"')
    path.write_bytes(lines[0] + bad + lines[2])
    journal = Journal(path)
    damage: list[Damage] = []
    list(journal.scan(damage.append))
    journal.set_damage_aside(damage)
    assert path.read_bytes() == lines[0] + lines[2]
    assert damaged_lines(path).read_bytes() == bad
    assert journal.read_at(len(lines[0]))["problem_idx"] == 2
    journal.close()


@pytest.mark.parametrize("mode", [0o600, 0o640])
def test_setting_damage_aside_keeps_the_permissions(tmp_path: Path, mode: int) -> None:
    path = _journal(tmp_path, _answer(0), _answer(1))
    path.write_bytes(path.read_bytes().replace(b'"6"', b'"7"', 1))
    path.chmod(mode)
    journal = Journal(path)
    damage: list[Damage] = []
    list(journal.scan(damage.append))
    journal.set_damage_aside(damage)
    journal.close()
    assert stat.S_IMODE(path.stat().st_mode) == mode
    assert stat.S_IMODE(damaged_lines(path).stat().st_mode) == mode


def test_a_record_that_is_damaged_while_it_is_needed_is_an_error_with_a_fix(tmp_path: Path) -> None:
    path = _journal(tmp_path, _answer(0))
    journal = Journal(path)
    path.write_bytes(path.read_bytes().replace(b'"6"', b'"7"'))
    with pytest.raises(JournalError, match="damaged") as caught:
        journal.read_at(0)
    assert "--resume" in str(caught.value.hint)
    journal.close()


def test_damaged_lines_are_found_without_parsing(tmp_path: Path) -> None:
    path = _journal(tmp_path, *(_answer(problem) for problem in range(5)))
    assert list(damaged_records(path)) == []
    lines = path.read_bytes().splitlines(keepends=True)
    lines[1] = lines[1].replace(b'"6"', b'"7"')
    lines[3] = b"{}\n"
    path.write_bytes(b"".join(lines) + b'{"kind":"ans')
    damage = list(damaged_records(path))
    assert damage == [Damage(path, 2, "answer", Step(1, 0)), Damage(path, 4)]
    path.write_bytes(b'{"kind":"answer"}\n' * 3)
    assert list(damaged_records(path)) == [], "journals of older versions have no checksums"
