"""``math`` gives the verdicts of the math-verify library on boxed answers: right ones, and those of other problems."""

from __future__ import annotations

import pytest

from nemo_evaluator.environments import get_environment
from nemo_evaluator.scoring import ScorerInput, math

pytestmark = [pytest.mark.needs("mirror"), pytest.mark.usefixtures("wide_mirror")]

# Pairs on which we differ on purpose: (row of the target, row of the answer) -> reason.
DIFFERENT: dict[tuple[int, int], str] = {}


async def test_verdicts_are_those_of_math_verify() -> None:
    import math_verify

    environment = get_environment("math500")
    targets = [
        (await environment.seed(idx)).expected_answer for idx in range(0, len(environment), 10)
    ]
    differ = []
    for at, target in enumerate(targets):
        for other in (at, (at + 1) % len(targets)):
            gold = math_verify.parse(f"\\boxed{{{target}}}", parsing_timeout=None)
            given = math_verify.parse(f"\\boxed{{{targets[other]}}}", parsing_timeout=None)
            theirs = bool(math_verify.verify(gold, given, timeout_seconds=None))
            ours = bool(
                (await math(ScorerInput(f"So we get \\boxed{{{targets[other]}}}.", target)))[
                    "correct"
                ]
            )
            if ours != theirs and (10 * at, 10 * other) not in DIFFERENT:
                differ.append((10 * at, 10 * other, target, targets[other], ours, theirs))
    assert not differ
