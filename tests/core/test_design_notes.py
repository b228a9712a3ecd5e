"""The design notes: each package has one, each note has a date, and each link leads to a note."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
PACKAGE: Final = ROOT / "src" / "nemo_evaluator"
NOTES: Final = ROOT / "docs" / "design"
_ROW: Final = re.compile(r"^\| `(?P<package>\w+)` \| (?P<notes>.+) \|$", re.MULTILINE)
_LINK: Final = re.compile(r"\]\((?P<file>[\w-]+\.md)\)")
_DATED: Final = re.compile(r"\A# [^\n]+\n\n20\d\d-\d\d\n\n")


def listed_notes(page: str) -> dict[str, list[str]]:
    """The files of the notes on each package, as the table of a page has them."""
    return {row["package"]: _LINK.findall(row["notes"]) for row in _ROW.finditer(page)}


def packages() -> list[str]:
    """The folders of the package that git would keep, in alphabetical order."""
    folders = [folder for folder in PACKAGE.iterdir() if folder.is_dir()]
    return sorted(folder.name for folder in folders if folder.name != "__pycache__")


def test_every_package_has_a_note() -> None:
    notes = listed_notes((NOTES / "README.md").read_text(encoding="utf-8"))
    assert list(notes) == packages()
    for files in notes.values():
        assert files
        for file in files:
            assert (NOTES / file).is_file(), file


def test_every_note_belongs_to_a_package() -> None:
    notes = listed_notes((NOTES / "README.md").read_text(encoding="utf-8"))
    linked = {file for files in notes.values() for file in files}
    assert {path.name for path in NOTES.glob("*.md")} - linked == {"README.md"}


@pytest.mark.parametrize("note", sorted(NOTES.glob("*.md")), ids=lambda path: path.stem)
def test_a_note_is_dated(note: Path) -> None:
    assert _DATED.match(note.read_text(encoding="utf-8"))
