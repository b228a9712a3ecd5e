"""${NAME}: strict expansion of the environment."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nemo_evaluator.config._document import Document
from nemo_evaluator.config._references import escape, expand_environment

ENVIRONMENT = {"SET": "value", "EMPTY": "", "NESTED": "${SET}", "NVIDIA_API_KEY": "k"}


def expand(value: Any) -> Any:
    expanded, problems = expand_environment(Document(value), ENVIRONMENT)
    assert not problems, problems
    return expanded


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("${SET}", "value"),
        ("a ${SET} b ${SET}", "a value b value"),
        ("${EMPTY}", ""),
        ("${EMPTY:-default}", ""),
        ("${UNSET:-default}", "default"),
        ("${UNSET:-}", ""),
        ("${UNSET:-http://x:1/y}", "http://x:1/y"),
        ("${UNSET:-${SET}}", "value"),
        ('${UNSET:-{"a": 1}}', '{"a": 1}'),
        ("${SET:-{x}}", "value"),
        ("${NESTED}", "${SET}"),
        ("$${SET}", "${SET}"),
        ("$${UNSET:-x}", "${UNSET:-x}"),
        ("$${.x}", "${.x}"),
        ("$SET", "$SET"),
        ("${SET-x}", "${SET-x}"),
        ("${a.b}", "${a.b}"),
        ("$${a.b}", "$${a.b}"),
        ("$$100", "$$100"),
        ("${", "${"),
        ("${SET", "${SET"),
        ("${SET:-x", "${SET:-x"),
        ("${}", "${}"),
    ],
)
def test_expansion(text: str, expected: str) -> None:
    assert expand(text) == expected


def test_values_only_never_keys_never_numbers() -> None:
    assert expand({"${SET}": ["${SET}", 5, None, {"a": "${SET}"}]}) == {
        "${SET}": ["value", 5, None, {"a": "value"}]
    }


def test_unset_variables_are_all_reported_with_the_fix() -> None:
    document = Document({"a": "${NVIDIA_API_KEYS}", "b": ["${OTHER} ${THIRD}"]})
    _, problems = expand_environment(document, ENVIRONMENT)
    assert [problem.path for problem in problems] == ["a", "b[0]", "b[0]"]
    assert "did you mean ${NVIDIA_API_KEY}?" in (problems[0].hint or "")
    assert problems[1].hint == "export OTHER=..., or give a default: ${OTHER:-value}"


@given(st.text(alphabet="${}:-.SETUN x"))
def test_escaped_text_comes_back_as_it_was(text: str) -> None:
    if "$${" not in text:
        assert expand(escape(text)) == text
