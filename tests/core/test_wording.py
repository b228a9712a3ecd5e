"""Sentences as people read them: one thing is not several, and no line is wider than the terminal."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nemo_evaluator.core.wording import counted, folded


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0 problems"), (1, "1 problem"), (2, "2 problems"), (1319, "1,319 problems")]
)
def test_one_is_not_several(number: int, text: str) -> None:
    assert counted(number, "problem") == text


def test_long_lines_are_broken_between_words() -> None:
    said = f"sums: failed: {'word ' * 30}end\n  fix: see /{'long/' * 30}path"
    lines = folded(said, 80).splitlines()
    assert lines[1].startswith("  word")
    assert [line for line in lines if len(line) > 80] == [f"    /{'long/' * 30}path"], "what is copied stays whole"
    assert folded(said, None) == said


@given(st.lists(st.text("ab \n", max_size=60), max_size=5).map("\n".join), st.integers(40, 100))
def test_no_word_is_lost(text: str, width: int) -> None:
    assert folded(text, width).split() == text.split()
