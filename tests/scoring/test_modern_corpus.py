"""Answers in the styles of current models: how often each scorer is wrongly right or wrongly wrong."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.scoring.corpus.__main__ import judged, rates
from tests.scoring.corpus.modern import HALVES, modern

CASES = {half: list(modern(half)) for half in HALVES}
SCORERS = sorted({case.scorer for case in CASES["unseen"]})
WRONGLY_RIGHT = 0.005
WRONGLY_WRONG = 0.02


def test_the_corpus_is_large_and_half_of_it_are_traps() -> None:
    answers = [case for cases in CASES.values() for case in cases]
    assert len(answers) >= 6000
    assert 0.4 < sum(not case.right for case in answers) / len(answers) < 0.7


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("scorer", SCORERS)
async def test_error_rates(scorer: str, half: str) -> None:
    verdicts = await judged([case for case in CASES[half] if case.scorer == scorer])
    count = rates(verdicts)[scorer]
    wrong = [
        f"{case.response!r} for {case.target!r}" for case, said, _ in verdicts if said != case.right
    ]
    assert count["wrongly right"] <= WRONGLY_RIGHT * count["cases"], wrong[:10]
    assert count["wrongly wrong"] <= WRONGLY_WRONG * count["cases"], wrong[:10]
