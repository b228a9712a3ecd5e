"""No room but runs/ (which reads) and store/ (which writes) opens rows, bundles or journals."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import nemo_evaluator

ROOT = Path(nemo_evaluator.__file__).parent
# Writers that go through the store, with the paths that they may open themselves: a copy of lines as they are.
_WRITERS = {
    "engine/merge_journals.py": "copies lines of journals as they are",
    "engine/resume.py": "copies records of earlier journals",
    "models/batch/ledger.py": "a journal of its own, of batches",
    "engine/merge.py": "copies traffic as it is",
}
_OPENING = re.compile(
    r"iter_jsonl\(|read_json\([^)]*(?:bundle|eval-)|\bverified\(|scan_records\(|open_line\(|read_record\("
    r"|(?:journal|results|trajectories|bundle)(?:\.path)?\.(?:open|read_bytes|read_text)\("
)
_NAMES = re.compile(r'"(?:results|trajectories|journal)\.jsonl"|rglob\("eval-')


def _files() -> list[Path]:
    rooms = [
        path
        for path in ROOT.iterdir()
        if path.is_dir() and path.name not in ("runs", "store", "datasets", "core")
    ]
    return sorted(file for room in rooms for file in room.rglob("*.py"))


@pytest.mark.parametrize("pattern", [_OPENING, _NAMES], ids=["opens", "names"])
def test_only_runs_and_the_store_open_them(pattern: re.Pattern[str]) -> None:
    found = [
        f"{name}:{number}: {line.strip()}"
        for file in _files()
        if (name := str(file.relative_to(ROOT))) not in _WRITERS
        for number, line in enumerate(file.read_text().splitlines(), 1)
        if pattern.search(line)
    ]
    assert not found


def test_the_pattern_sees_an_opener() -> None:
    assert _OPENING.search('for row in iter_jsonl(verified(task / "x")):')
    assert _OPENING.search('with task.journal.open("rb") as file:')
    assert _NAMES.search('folder / "results.jsonl"')
