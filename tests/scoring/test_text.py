from __future__ import annotations

from typing import Any

import pytest

from nemo_evaluator.scoring import (
    ScorerInput,
    answer_line,
    exact_match,
    f1,
    fuzzy_match,
    needs_judge,
    normalise,
)


@pytest.mark.parametrize(
    ("response", "target"),
    [
        ("**Answer:** 42", "42"),
        (r"The answer is \boxed{42}", "42"),
        ("Answer: 42 apples", "42"),
        ("Answer: Paris.", "paris"),
        ("Answer: Paris because it is the capital", "Paris"),
        ("Answer: Paris (the capital)", "Paris"),
        ("Answer: **Paris**", "Paris"),
        ("Answer: Rome\nNo.\nAnswer: Paris", "Paris"),
        ("Long story.\nFinal answer: **valid**", "valid"),
        ("True", "True"),
        ("It follows.\n\nTrue", "True"),
        ("<think>Answer: no</think>\nAnswer: yes", "yes"),
        ("Answer: (A)", "(A)"),
    ],
)
def test_answer_line_right(response: str, target: str) -> None:
    assert answer_line(ScorerInput(response, target))["correct"] is True


@pytest.mark.parametrize(
    ("response", "target"),
    [
        ("Answer: Paris Hilton", "Paris"),
        ("Answer: 10", "100"),
        ("Answer: Paris\nAnswer: Rome", "Paris"),
        ("no", "yes"),
    ],
)
def test_answer_line_wrong(response: str, target: str) -> None:
    assert answer_line(ScorerInput(response, target))["correct"] is False


def test_answer_line_with_a_pattern_takes_its_last_match() -> None:
    sample = ScorerInput("Result> 1\nResult> 1,234", "1234")
    assert answer_line(sample, r"Result>\s*([^\n]+)")["correct"] is True
    assert answer_line(sample, r"Nothing>\s*(.+)")["unparsed"] is True


def test_answer_line_finds_nothing_in_prose() -> None:
    prose = (
        "I have thought about this for a long while and there are many sides to the matter at hand."
    )
    assert answer_line(ScorerInput(prose, "Paris"))["unparsed"] is True


@pytest.mark.parametrize("response", ["", "a", "the", "s", "p", "ris"])
def test_fuzzy_match_needs_the_target_not_a_piece_of_it(response: str) -> None:
    assert fuzzy_match(ScorerInput(response, "the paris"))["correct"] is False


@pytest.mark.parametrize(
    ("response", "target", "right"),
    [
        ("It is Paris, France", "Paris", True),
        ("a comparison", "paris", False),
        ("The 12 men", "2", False),
        ("There were 2 men and 3 dogs.\nAnswer: 3", "2", False),
        ("There were 2 men and 3 dogs.\nAnswer: 3 dogs", "3", True),
        ("Paris or so it seems.\nAnswer: Rome", "Paris", False),
        ("Answer: 12 yards", "12-yard", False),
        ("Answer: 1,200", "1200", True),
    ],
)
def test_fuzzy_match(response: str, target: str, right: bool) -> None:
    assert fuzzy_match(ScorerInput(response, target))["correct"] is right


def test_fuzzy_match_knows_all_accepted_answers() -> None:
    sample = ScorerInput(
        "It was the Big Apple.", "New York", {"correct_answers": ["New York", "The Big Apple"]}
    )
    assert fuzzy_match(sample)["matched"] == "The Big Apple"


@pytest.mark.parametrize(
    ("response", "target", "right"),
    [
        ("3.14", "314", False),
        ("Café", "cafe", True),
        ("The answer is the Eiffel Tower.", "Eiffel tower", True),
        ("-5", "5", False),
        ("हिंदी", "हद", False),
        ("Eiffel", "Eiffel tower", False),
    ],
)
def test_exact_match(response: str, target: str, right: bool) -> None:
    assert exact_match(ScorerInput(response, target))["correct"] is right


def test_f1_is_the_overlap_of_words() -> None:
    assert f1(ScorerInput("Answer: the red house", "red house"))["correct"] == 1.0
    assert f1(ScorerInput("red car", "red house"))["correct"] == 0.5
    assert f1(ScorerInput("", "red house"))["unparsed"] is True


def test_needs_judge_shows_the_answer_without_its_reasoning() -> None:
    assert needs_judge(ScorerInput("<think>hm</think> Paris", "x")) == {
        "correct": False,
        "needs_judge": True,
        "extracted": "Paris",
    }


def test_normalise_keeps_what_makes_numbers_differ() -> None:
    assert normalise("The 3.14, -2 and 1,000!") == "3.14 -2 and 1000"
    assert normalise("a") == "a"


@pytest.mark.parametrize("scorer", [exact_match, answer_line])
@pytest.mark.parametrize(
    "response", [r"$\boxed{x+1}$ or $\boxed{x-1}$", "'Answer: x+1' or 'Answer: x-1'."]
)
@pytest.mark.parametrize("target", ["x+1", "x-1"])
def test_two_announcements_joined_by_or_settle_nothing(
    scorer: Any, response: str, target: str
) -> None:
    assert not scorer(ScorerInput(response, target))["correct"]
