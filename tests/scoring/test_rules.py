"""The rules of the grammar do what the examples beside them say, and each rule is needed for that."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any, Final, cast

import pytest

from nemo_evaluator.scoring import _clauses, _commitments, _pick, _settle, extract_mcq_letter

# The problem that all examples answer.
OPTIONS: Final = {"A": "Rome", "B": "Paris", "C": "Oslo", "D": "Bern"}
CONDITIONS: Final[dict[str, Mapping[str, Any]]] = {
    "CUES": _commitments.CUES,
    "POSITIONS": _commitments.POSITIONS,
    "DOUBTS": _commitments.DOUBTS,
    "ADDITIONS": _commitments.ADDITIONS,
    "COUNTS": _commitments.COUNTS,
    "UNANNOUNCED": _pick.UNANNOUNCED,
    "LINE_OBJECTIONS": _pick.LINE_OBJECTIONS,
}
TABLES: Final[dict[str, Mapping[Any, Any]]] = {
    **CONDITIONS,
    "CUT_RULES": _clauses.CUT_RULES,
    "WEIGHERS": _settle.WEIGHERS,
}


def letter_of(answer: str) -> str | None:
    _clauses.clauses.cache_clear()
    return extract_mcq_letter(answer, "ABCD", OPTIONS)


def examples() -> Iterator[Any]:
    for table, rules in TABLES.items():
        for name, rule in rules.items():
            for answer, letter in rule.examples.items():
                yield pytest.param(answer, letter, id=f"{table}: {name}: {answer}")


@pytest.mark.parametrize(("answer", "letter"), list(examples()))
def test_an_example_picks_its_letter(answer: str, letter: str | None) -> None:
    assert letter_of(answer) == letter


@pytest.mark.parametrize(
    ("table", "name"), [(table, name) for table, rules in CONDITIONS.items() for name in rules]
)
def test_without_a_rule_an_example_picks_another_letter(
    table: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rules = cast("MutableMapping[str, Any]", CONDITIONS[table])
    expected = rules[name].examples
    monkeypatch.delitem(rules, name)
    assert {answer: letter_of(answer) for answer in expected} != expected
