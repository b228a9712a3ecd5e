"""Sentences as people read them: singular and plural, lines that fit the terminal, and phrases to avoid."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from plain_english import ROOT, Hit, hits_below, phrases_in

from nemo_evaluator.core.wording import counted, folded


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0 problems"), (1, "1 problem"), (2, "2 problems"), (1319, "1,319 problems")],
)
def test_one_is_not_several(number: int, text: str) -> None:
    assert counted(number, "problem") == text


def test_long_lines_are_broken_between_words() -> None:
    said = f"sums: failed: {'word ' * 30}end\n  fix: see /{'long/' * 30}path"
    lines = folded(said, 80).splitlines()
    assert lines[1].startswith("  word")
    assert [line for line in lines if len(line) > 80] == [f"    /{'long/' * 30}path"], (
        "what is copied stays whole"
    )
    assert folded(said, None) == said


@given(st.lists(st.text("ab \n", max_size=60), max_size=5).map("\n".join), st.integers(40, 100))
def test_no_word_is_lost(text: str, width: int) -> None:
    assert folded(text, width).split() == text.split()


# Folders and files whose sentences are checked: ``python tests/support/plain_english.py src`` prints the hits.
_CHECKED: Final = (
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "docs",
    "examples",
    "src",
)
# Phrases that nel looks for in responses.
_DATA: Final = "src/nemo_evaluator/scoring/data/"
# Prompts: another wording would change what models answer, so that scores would not be comparable.
_PROMPTS: Final = {
    ("src/nemo_evaluator/benchmarks/pinchbench.py", "what was done"),
    ("src/nemo_evaluator/scoring/_reply.py", "stands between"),
    ("src/nemo_evaluator/templates/swebench-instruction.md", "speaks of"),
}


@pytest.mark.parametrize("name", _CHECKED)
def test_sentences_are_plain_english(name: str) -> None:
    hits: list[Hit] = []
    for hit in hits_below(ROOT / name):
        file = hit.place.rpartition(":")[0]
        if not file.startswith(_DATA) and (file, hit.phrase) not in _PROMPTS:
            hits.append(hit)
    assert hits == []


@pytest.mark.parametrize(
    ("text", "phrase"),
    [
        ("a path that is no folder", "is no f"),
        ("coverage stands beside every score", "stands beside"),
        ("the status says of each benchmark", "says of"),
        ("The file is said to be damaged.", "is said"),
        ("nel lists what was not tried", "what was not tried"),
        ("what becomes of a field", "what becomes of"),
        ("The key lies in the environment.", "lies in"),
        ("the run goes on", "goes on"),
        ("the request is asked\nagain", "asked again"),
        ("the limit is surely exceeded", "surely"),
        ("coverage under its floor", "under its floor"),
        ("the room has two doors", "room"),
        ("it is of SLURM, and the run is local", "is of SLURM"),
        ("an id that nobody knows", "nobody knows"),
        ("a server wants two nodes", "server wants"),
        ("the dataset is not there", "is not there"),
        ("the container said nothing", "said nothing"),
        ("it holds something that is no number", "something that is no"),
        ("the file is cut off or no JSON", "or no JSON"),
        ("the container ended well", "ended well"),
        ("it was ended from outside", "ended from outside"),
    ],
)
def test_a_stumbling_phrase_is_found(text: str, phrase: str) -> None:
    assert phrase in [found for _, found, _ in phrases_in(text)]


@pytest.mark.parametrize(
    "text",
    [
        "There is no second schema, and there are no bounds.",
        "The port is no longer used.",
        "Rewards must lie in [0, 1]; the interval lies below zero.",
        "Leave room for a shell.",
        "Two tools are told apart by their names; the words of a text are counted.",
        "`x` stands in for the real server.",
        "There is a test for it, and is there an index?",
    ],
)
def test_plain_sentences_are_left_alone(text: str) -> None:
    assert list(phrases_in(text)) == []


def test_code_is_not_prose_and_strings_are(tmp_path: Path) -> None:
    prose = tmp_path / "page.md"
    prose.write_text(
        "Fine.\n\n```console\nthe run goes on\n```\n\n`the run goes on`\n\nThe run goes on.\n"
    )
    module = tmp_path / "module.py"
    module.write_text('# the run goes on\nerror = f"the run {error} goes on"\nkey = "goes on"\n')
    places = [hit.place for hit in [*hits_below(prose), *hits_below(module)]]
    assert places == [f"{prose}:9", f"{module}:2"]
