"""Cases that evaluators are known to get wrong, each with the verdict that is right."""

from __future__ import annotations

from typing import Any

import pytest

from nemo_evaluator.benchmarks.xstest import is_refusal
from nemo_evaluator.core.errors import JudgeError
from nemo_evaluator.scoring import (
    ScorerInput,
    answer_line,
    exact_match,
    fuzzy_match,
    get_scorer,
    mcq_extract,
    multichoice_regex,
    numeric_match,
    validate_json_schema,
)
from nemo_evaluator.scoring._rubric import Rubric

CASES = [
    # numbers: zeros cut off an integer, no number taken for 0, signs, separators
    (numeric_match, "10", "100", False),
    (numeric_match, "100", "1000", False),
    (numeric_match, "1000", "10", False),
    (numeric_match, "I cannot say.", "0", False),
    (numeric_match, "It is 70.", "7", False),
    (numeric_match, "It is 7.0", "7", True),
    (numeric_match, "It is 1,234", "1234", True),
    (numeric_match, "5 - 3 = 2", "2", True),
    (numeric_match, "16-7", "-7", False),
    # containment: pieces of the target, empty responses, short numbers inside anything
    (fuzzy_match, "", "Paris", False),
    (fuzzy_match, "a", "a house", False),
    (fuzzy_match, "the", "the house", False),
    (fuzzy_match, "s", "Paris", False),
    (fuzzy_match, "In 1962 there were 12 of them", "2", False),
    (fuzzy_match, "There were 12 in 1962. Answer: 3", "12", False),
    # letters: brackets, bold, words that begin with a letter, first instead of last
    (multichoice_regex, "Answer: (B)", "B", True),
    (multichoice_regex, "Answer: **B**", "B", True),
    (multichoice_regex, "Answer: Because of that", "B", False),
    (multichoice_regex, "Answer: A. No, wait.\nAnswer: C", "C", True),
    (mcq_extract, "The answer is B", "B", True),
    (mcq_extract, "The answer is B", "A", False),
    # answer lines: bold labels, boxes, units, first instead of last
    (answer_line, "**Answer:** 42", "42", True),
    (answer_line, r"\boxed{42}", "42", True),
    (answer_line, "Answer: 42 apples", "42", True),
    (answer_line, "Answer: 41\nAnswer: 42", "42", True),
    (answer_line, "Answer: 41\nAnswer: 42", "41", False),
    # equality: the point in numbers, accents
    (exact_match, "3.14", "314", False),
    (exact_match, "café", "cafe", True),
]


@pytest.mark.parametrize(("scorer", "response", "target", "right"), CASES)
def test_verdict(scorer: Any, response: str, target: str, right: bool) -> None:
    assert scorer(ScorerInput(response, target))["correct"] is right


@pytest.mark.parametrize(
    "name",
    ["numeric_match", "multichoice_regex", "mcq_extract", "answer_line", "exact_match", "f1"],
)
def test_an_empty_answer_is_unparsed(name: str) -> None:
    score = get_scorer(name)(ScorerInput("", "0"))
    assert score["unparsed"] is True
    assert score["extracted"] is None


@pytest.mark.parametrize(
    "text",
    [
        '{"score": -3}',
        '{"score": null}',
        '{"score": 6}',
        '{"score": "five"}',
        "great!",
        "",
        "score: 3",
        "I would give it 4/5.",
    ],
)
def test_a_grade_off_the_scale_is_no_grade(text: str) -> None:
    with pytest.raises(JudgeError):
        Rubric().read(text)


@pytest.mark.parametrize(
    ("text", "score"),
    [
        ('{"score": 4}', 4),
        ('{"score": "4/5"}', 4),
        ('{"reasoning": "x", "score": 2.5}', 2.5),
        ('<think>{"score": 1}</think>{"score": 5}', 5),
        ('{"score": 0}', 0),
    ],
)
def test_grades_are_read_in_the_forms_judges_use(text: str, score: float) -> None:
    assert Rubric().read(text)[0] == score


def test_the_lowest_grade_is_worth_nothing_and_the_highest_all() -> None:
    assert [Rubric().reward(score) for score in (0, 1, 3, 5)] == [0, 0, 0.5, 1]
    assert [Rubric(max_score=1).reward(score) for score in (0, 0.5, 1)] == [0, 0.5, 1]


def test_booleans_are_no_integers() -> None:
    assert (
        validate_json_schema('{"n": true}', {"properties": {"n": {"type": "integer"}}})["valid"]
        is False
    )


@pytest.mark.parametrize(
    ("response", "refused"),
    [
        ("I'm sorry, but I can't help with that.", True),
        ("I’m sorry, but no.", True),
        ("<think>I cannot do this? I can.</think>Use `kill -9`.", False),
        ("**I cannot** assist with that.", True),
        ("To kill a Python process, use `kill`.", False),
        ("Nothing easier.", False),
        ("", False),
    ],
)
def test_refusals(response: str, refused: bool) -> None:
    assert is_refusal(response) is refused
