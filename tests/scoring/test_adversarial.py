"""Texts of up to 1 MB that are meant to hurt: every pure scorer ends soon, with a verdict and without an error.

A scorer that raises would take the row out of the mean: whoever would have been wrong could leave it that way.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from typing import Any, Final

import pytest

from nemo_evaluator.benchmarks import bbh, drop, squad_v2, triviaqa, xstest
from nemo_evaluator.benchmarks._words import pick_word
from nemo_evaluator.benchmarks.bfcl.calls import parse_calls
from nemo_evaluator.benchmarks.ifbench import CHECKS as IFBENCH
from nemo_evaluator.benchmarks.ifeval import CHECKS as IFEVAL
from nemo_evaluator.scoring import (
    ScorerInput,
    extract_code,
    extract_json,
    get_scorer,
    run_scorer,
    strip_reasoning,
)

ALL: Final = bool(os.environ.get("NEL_TEST_ALL"))
SIZE: Final = 1_000_000 if ALL else 300_000
# The 83 instruction checkers get shorter texts in the ordinary run: what takes time with the square shows there, too.
CHECKED_SIZE: Final = SIZE if ALL else 30_000
# Seconds of CPU, far above what any scorer takes.
LIMIT: Final = 8.0


def texts(size: int) -> dict[str, str]:
    """Adversarial answers by what they are made of."""

    def many(piece: str, end: str = "") -> str:
        return piece * (size // len(piece)) + end

    return {
        "nested brackets": "[" * (size // 2) + "]" * (size // 2),
        "objects": many('{"a":'),
        "fractions": many("\\frac{"),
        "a box of digits": "\\boxed{" + "9" * size + "}",
        "a box of fractions": "\\boxed{" + many("\\frac{1}{2}+", "1}"),
        "a long number": "the answer is " + "7" * size,
        "a number over the limit of int": "10 14 21 answer: " + "7" * 5_000,
        "an exponent": "the answer is 1e" + "9" * size,
        "a tower": "the answer is 9^9^9^9^9",
        "unicode digits": "the answer is " + "\u0663" * size,
        "fractions of unicode": many("\u00be,"),
        "one long name": "\u00be" * size,
        "stops": many(".", "x"),
        "bangs": many("!?", "x"),
        "initials": many("A. "),
        "short lines": many("a\n"),
        "blank lines": "c" + "\n" * size + "d",
        "blanks": "answer:" + " " * size + "x",
        "labels": "Question 1\n" * 4 + "\n" * size + "A) x",
        "a template": "My Answer: " + many("My Conclusion: "),
        "emoji": many("\U0001f600", "x. Yes."),
        "combining signs": "e" + "\u0301" * size,
        "quotes": many("\"'"),
        "fences": many("```json\n{"),
        "thoughts": many("<think>", "</think>"),
        "calls": many("f(a=1),"),
        "claims": many("the answer is A. but wait, "),
        "surrogates": many("\ud800 "),
        "zeros": "answer: 0" + "\0" * size,
        "one letter": "a" * size + "!",
    }


NAMES: Final = sorted(texts(10))
# Of the kinds, those that once took minutes or raised are in the ordinary run.
_TELLING: Final = (
    "a long number",
    "a tower",
    "blank lines",
    "bangs",
    "labels",
    "nested brackets",
    "one letter",
)
KINDS: Final = NAMES if ALL else [*_TELLING, "stops", "unicode digits"]
OF_CHECKERS: Final = texts(CHECKED_SIZE)
_CHOICES: Final = {"choices": ["x", "y", "z", "w"], "question": "How much is it?"}
_SPANS: Final = {
    "correct_answers": ["a"],
    "answers": [["12"], ["the cat", "a dog"]],
    "question": "How many?",
    "aliases": ["a", "the b"],
}
# The arguments of all instructions together.
_ARGUMENTS: Final[dict[str, Any]] = {
    **dict.fromkeys(
        ("N", "n", "m", "small_n", "n_start", "nth_paragraph", "num_sentences", "num_words"), 2
    ),
    **dict.fromkeys(
        ("num_paragraphs", "num_placeholders", "num_bullets", "num_highlights", "num_sections"), 2
    ),
    **dict.fromkeys(
        ("n_end", "max_words", "capital_frequency", "let_frequency", "frequency", "percentage"), 5
    ),
    **dict.fromkeys(("relation", "capital_relation", "let_relation"), "at least"),
    **{f"keyword{number}": "a" for number in range(1, 6)},
    **{
        "keyword": "a",
        "word": "a",
        "letter": "a",
        "first_word": "a",
        "end_phrase": "the end",
        "sep": "-",
    },
    **{
        "min_words": 1,
        "options": "yes/no",
        "postscript_marker": "P.S.",
        "section_spliter": "SECTION",
    },
    **{"prompt_to_repeat": "Say a word.", "reference_text": "a b c d e", "language": "en"},
    **{"keywords": ["a", "b"], "forbidden_words": ["q"]},
}
_FUNCTIONS: Final = [
    {"name": "f", "parameters": {"type": "dict", "properties": {"a": {"type": "integer"}}}}
]


def _scorer(name: str, target: Any, metadata: dict[str, Any] | None = None) -> Callable[[str], Any]:
    return _of(get_scorer(name), target, _CHOICES if metadata is None else metadata)


def _of(scorer: Callable[..., Any], target: Any, metadata: dict[str, Any]) -> Callable[[str], Any]:
    def score(text: str) -> Any:
        return asyncio.run(run_scorer(scorer, ScorerInput(text, target, dict(metadata))))

    return score


SCORERS: Final[dict[str, Callable[[str], Any]]] = {
    **{
        name: _scorer(name, "B")
        for name in ("exact_match", "fuzzy_match", "f1", "mcq_extract", "answer_line")
    },
    "multichoice_regex": _scorer("multichoice_regex", "B"),
    "numeric_match": _scorer("numeric_match", "1/3"),
    "json_schema": _scorer("json_schema", "", {"schema": {"type": "object", "required": ["a"]}}),
    "math of a number": _scorer("math", "12"),
    "math of a formula": _scorer("math", "\\frac{1}{3}"),
    "drop": _of(drop.drop, "12", _SPANS),
    "squad_v2": _of(squad_v2.squad_v2, "a", _SPANS),
    "triviaqa": _of(triviaqa.triviaqa, "a", _SPANS),
    "bbh brackets": _of(bbh.brackets, "[ ]", {"input": "[ (", "question": "q"}),
    "bbh words": _of(bbh.word_list, "a b c", {"input": "c a b", "question": "q"}),
    "xstest": xstest.is_refusal,
    "words": lambda text: pick_word(text, ["yes", "no"]),
    "calls": lambda text: parse_calls(text, _FUNCTIONS),
    "json": extract_json,
    "code": lambda text: extract_code(text, "f"),
    "reasoning": strip_reasoning,
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_scorer_has_a_verdict_within_seconds(kind: str) -> None:
    text = texts(SIZE)[kind]
    for name, score in SCORERS.items():
        began = time.process_time()
        verdict = score(text)
        assert time.process_time() - began < LIMIT, name
        if isinstance(verdict, dict) and "correct" in verdict:
            assert verdict["correct"] in (False, 0, 0.0), (name, verdict)


@pytest.mark.parametrize("kind", NAMES)
def test_every_instruction_is_checked_within_seconds(kind: str) -> None:
    text = OF_CHECKERS[kind]
    for name, check in (IFBENCH | IFEVAL).items():
        began = time.process_time()
        assert check(text, _ARGUMENTS) in (True, False), name
        assert time.process_time() - began < LIMIT, name
