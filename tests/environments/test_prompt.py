"""Prompt templates: columns are replaced, every other brace stays."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nemo_evaluator.core.errors import SeedError, UsageError
from nemo_evaluator.environments.prompt import PromptTemplate, template_text

ROW = {"q": "why?", "n": 3.14159, "items": {"a": ["x", "y"]}, "none": None}


def render(text: str) -> str:
    return PromptTemplate(text, set(ROW), "bench").render(ROW)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{q}", "why?"),
        ("Q: {q}\nA:", "Q: why?\nA:"),
        ("{q}{q}", "why?why?"),
        ("{n:.2f} {q!r} {items[a]}", "3.14 'why?' ['x', 'y']"),
        ("{none}", "None"),
        # str.format's own escapes keep their meaning
        ("{{q}} {q} {{}}", "{q} why? {}"),
        # literal braces of JSON, LaTeX, code and sets need no doubling
        ('Reply as {"answer": 1} to {q}', 'Reply as {"answer": 1} to why?'),
        (r"\frac{a}{b} and \boxed{x} and x^{n2} {q}", r"\frac{a}{b} and \boxed{x} and x^{n2} why?"),
        ("f(x) { return 1; } {q}", "f(x) { return 1; } why?"),
        ("{1, 2, 3} {} { q } {q", "{1, 2, 3} {} { q } {q"),
        ("no fields", "no fields"),
        ("", ""),
    ],
)
def test_rendering(text: str, expected: str) -> None:
    assert render(text) == expected


def test_an_unknown_field_is_an_error_with_the_columns() -> None:
    with pytest.raises(UsageError, match="has no such column; it has items, n, none, q") as caught:
        render("{item}")
    assert caught.value.hint == "did you mean {items}? For the literal text write {{item}}"


def test_a_row_without_the_column_cannot_be_asked() -> None:
    template = PromptTemplate("{q}", {"q"}, "bench")
    with pytest.raises(SeedError, match="no column 'q'; it has other"):
        template.render({"other": 1})


@given(st.text(alphabet="ab{}\\ \n\"':!.[]1", max_size=40))
def test_a_template_renders_or_is_refused_and_never_fails_otherwise(text: str) -> None:
    try:
        template = PromptTemplate(text, {"ab"}, "bench")
    except UsageError:
        return
    rendered = template.render({"ab": "VALUE"})
    if not template.columns:
        assert rendered == text.replace("{{", "{").replace("}}", "}")


def test_a_prompt_may_be_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "p.md").write_text("from file {q}")
    assert template_text("p.md", tmp_path, "b") == "from file {q}"
    monkeypatch.chdir(tmp_path)
    assert template_text("p.md", None, "b") == "from file {q}"
    assert template_text("Write to out.txt", None, "b") == "Write to out.txt"
    with pytest.raises(UsageError, match="does not exist"):
        template_text("prompts/none.txt", tmp_path, "b")
