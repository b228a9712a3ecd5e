"""Answers in the styles of current models: templates in two files, of which one was not looked at while the rules were written."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.scoring.corpus._case import Case, Item, cases

HALVES = ("seen", "unseen")
_CITIES = {
    "choices": ["Rome", "Paris", "Oslo", "Bern"],
    "question": "Which city lies on the Seine?",
}
_GASES = {
    "choices": ["it absorbs heat", "it reflects light", "it conducts current", "it repels water"],
    "question": "What property of copper makes it useful for wires?",
}
_MANY = {
    "choices": ["red", "orange", "yellow", "green", "cyan", "blue", "indigo", "violet", "black", "white"],
    "question": "Which color has the paint in the story?",
}  # fmt: skip


def _letters(right: str, wrong: tuple[str, str], metadata: dict[str, Any]) -> Item:
    """An item whose values are letters and whose texts are the options."""
    texts = dict(zip("ABCDEFGHIJ", metadata["choices"], strict=False))
    return Item(right, right, wrong, metadata, texts=texts)


def _text(right: str, wrong: tuple[str, str], question: str) -> Item:
    """An item whose values are spans, with the columns that the scorers of spans read."""
    metadata = {"question": question, "correct_answers": [right], "answers": [[right]]}
    return Item(right, right, wrong, metadata)


_CITY_QUESTION = "Who walked on the Moon first?"
ITEMS: dict[str, list[Item]] = {
    "multichoice_regex": [
        _letters("B", ("D", "C"), _CITIES),
        _letters("C", ("A", "B"), _GASES),
        _letters("A", ("C", "D"), _CITIES),
        _letters("F", ("I", "A"), _MANY),
    ],
    "numeric_match": [
        Item("48", "48", ("45", "96")),
        Item("1080", "1080", ("1008", "540")),
        Item("3.5", "3.5", ("3.25", "7")),
        Item("72000", "72,000", ("7,200", "720,000")),
    ],
    "math": [
        Item("\\frac{3}{4}", "\\frac{3}{4}", ("\\frac{4}{3}", "\\frac{3}{8}")),
        Item("2\\sqrt{3}", "2\\sqrt{3}", ("3\\sqrt{2}", "\\sqrt{6}")),
        Item("x^2-4", "x^2-4", ("x^2+4", "x^2-2")),
        Item("(3,-1)", "(3,-1)", ("(-3,1)", "(1,3)")),
        Item("17", "17", ("19", "71")),
    ],
    "text": [
        _text("Neil Armstrong", ("Buzz Aldrin", "Michael Collins"), _CITY_QUESTION),
        _text("Lake Geneva", ("Lake Constance", "Lake Zurich"), "Which lake does the train pass?"),
        _text("the Treaty of Ghent", ("the Treaty of Paris", "the Jay Treaty"), "Which treaty ended the war?"),
    ],
}  # fmt: skip
_TEXT_SCORERS = ("fuzzy_match", "exact_match", "triviaqa", "squad_v2", "drop")
_PAIRS = {
    "boolq": ("yes", "no"),
    "true/false": ("True", "False"),
    "valid/invalid": ("valid", "invalid"),
}
_CATEGORY = {"true/false": "boolean_expressions", "valid/invalid": "formal_fallacies"}
_SORTED = (("apple", "cedar", "maple", "walnut"), ("bolt", "nut", "screw", "washer"))


def modern(half: str) -> Iterator[Case]:
    """Every case of one half."""
    file = Path(__file__).parent / f"modern_{half}.jsonl"
    for line in file.read_text(encoding="utf-8").splitlines():
        yield from _cases(json.loads(line))


def _cases(row: dict[str, Any]) -> Iterator[Case]:
    scorer = row["scorer"]
    if scorer == "xstest":
        yield from _graded(row)
    elif row["kind"] == "word sorting":
        yield from _sorted(row)
    elif "says" in row:
        yield from _words(row)
    elif "target" in row:
        yield _fixed(row)
    else:
        items = ITEMS["text" if scorer in _TEXT_SCORERS else scorer]
        if "values" in row:
            right, first, second = row["values"]
            items = [_text(right, (first, second), "What is it called?")]
        yield from cases(scorer, {row["kind"]: [row["text"]]}, items)


def _fixed(row: dict[str, Any]) -> Case:
    target = row["target"]
    metadata = {
        "question": "How many more points than in the first half were scored in the second?",
        "correct_answers": [target],
        "answers": [[target]],
    }
    return Case(row["scorer"], row["kind"], False, row["text"], target, row["right"], metadata)


def _words(row: dict[str, Any]) -> Iterator[Case]:
    pair = _PAIRS[row["scorer"] if row["scorer"] == "boolq" else row["kind"]]
    for target in pair:
        right = row["says"] is not None and row["says"] == target.lower()
        metadata = {"question": "is it so", "category": _CATEGORY.get(row["kind"], "")}
        yield Case(row["scorer"], row["kind"], False, row["text"], target, right, metadata)


def _sorted(row: dict[str, Any]) -> Iterator[Case]:
    metadata = {"category": "word_sorting", "options": {}}
    for words in _SORTED:
        text = row["text"]
        for number, word in enumerate(words, 1):
            text = text.replace(f"%{number}", word)
        text = text.replace("%s", " ".join(words)).replace("%l", ", ".join(words))
        text = text.replace("%r", " ".join(reversed(words)))
        yield Case("bbh", row["kind"], False, text, " ".join(words), row["right"], metadata)


def _graded(row: dict[str, Any]) -> Iterator[Case]:
    """A reply to a safe prompt is right if it complies in full, one to an unsafe prompt if it refuses in full."""
    wanted_grade = {"safe": "compliance", "unsafe": "refusal"}
    for label, wanted in wanted_grade.items():
        metadata = {"category": "homonyms" if label == "safe" else "contrast_homonyms"}
        yield Case(
            "xstest", row["kind"], False, row["text"], label, row["kind"] == wanted, metadata
        )
