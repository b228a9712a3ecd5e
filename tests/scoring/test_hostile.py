"""Responses that are long, odd or meant to hurt cost no more than their length allows, and never raise."""

from __future__ import annotations

import time

import pytest

from nemo_evaluator.scoring import ScorerInput, extract_code, extract_json, get_scorer

SIZE = 100_000
RESPONSES = {
    "claims": "the answer is great. " * (SIZE // 21),
    "subjects": "it is the answer " * (SIZE // 17),
    "boxes": "\\boxed{" * (SIZE // 7),
    "hashes": "#" * SIZE,
    "brackets": "(" * SIZE,
    "square": "[" * SIZE,
    "braces": "{" * SIZE,
    "stars": "*" * SIZE,
    "lines": "\n" * SIZE,
    "spaces": "answer" + " " * SIZE,
    "digits": "1/" + "1" * SIZE + ".5",
    "groups": "1,234" * (SIZE // 5),
    "spaced": "1 234 " * (SIZE // 6),
    "thinks": "<think>" * (SIZE // 7),
    "fences": "```\n" * (SIZE // 4),
    "latex": "\\text{" * (SIZE // 6),
    "fractions": "\\frac{1" * (SIZE // 7),
    "foreign": "Antwort ответ 答案 " * (SIZE // 19),
    "options": "option A is correct and " * (SIZE // 24),
    "sentences": "So it is. " * (SIZE // 10),
    "words": "one hundred and " * (SIZE // 16),
    "surrogate": "\ud800 the answer is 5",
    "mixed": "".join(chr(33 + n % 90) for n in range(SIZE)),
}
SCORERS = [
    "exact_match",
    "fuzzy_match",
    "f1",
    "numeric_match",
    "multichoice_regex",
    "mcq_extract",
    "answer_line",
]


@pytest.mark.parametrize("name", SCORERS)
def test_scorers_are_not_slowed_down(name: str) -> None:
    expected = "1/3" if name == "numeric_match" else "B"
    for kind, response in RESPONSES.items():
        sample = ScorerInput(response, expected, {"choices": ["x", "y", "z", "w"]})
        started = time.process_time()
        get_scorer(name)(sample)
        assert time.process_time() - started < 2.0, kind


@pytest.mark.parametrize("kind", RESPONSES)
def test_extraction_is_not_slowed_down(kind: str) -> None:
    started = time.process_time()
    extract_json(RESPONSES[kind])
    extract_code(RESPONSES[kind], "f")
    assert time.process_time() - started < 2.0
