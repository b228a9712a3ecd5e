"""The corpus of answers with a reader's verdict: how often our scorers are wrongly right or wrongly wrong."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.scoring.corpus.__main__ import corpus, judged, rates
from tests.scoring.corpus.blind import blind

CASES = [*corpus(), *blind()]
WRONGLY_RIGHT = 0.005
WRONGLY_WRONG = 0.02


def test_the_corpus_is_large_and_half_of_it_are_traps() -> None:
    assert len(CASES) >= 5000
    assert 0.4 < sum(not case.right for case in CASES) / len(CASES) < 0.7


@pytest.mark.parametrize("scorer", sorted({case.scorer for case in CASES}))
async def test_error_rates(scorer: str) -> None:
    verdicts = await judged([case for case in CASES if case.scorer == scorer])
    count = rates(verdicts)[scorer]
    wrong = [
        f"{case.response!r} for {case.target!r}" for case, said, _ in verdicts if said != case.right
    ]
    assert count["wrongly right"] <= WRONGLY_RIGHT * count["cases"], wrong[:10]
    assert count["wrongly wrong"] <= WRONGLY_WRONG * count["cases"], wrong[:10]
    assert not [case for case, said, _ in verdicts if case.kind == "common" and said != case.right]
