"""Twenty wrong rows with the same extraction outcome are reported while the run goes on."""

from pathlib import Path
from typing import Any

import pytest

from nemo_evaluator.core.types import SeedResult, VerifyResult
from nemo_evaluator.engine.evaluation import evaluate
from nemo_evaluator.engine.job import Evaluation
from nemo_evaluator.engine.zero_watch import ZeroWatch

PROBLEM = SeedResult("p", "B")
NOTHING = VerifyResult(0.0, None, {})
UNPARSED = VerifyResult(0.0, "text", {"unparsed": True})
WRONG = VerifyResult(0.0, "b.", {})
RIGHT = VerifyResult(1.0, "B", {})


def warnings(verdicts: list[VerifyResult]) -> list[str]:
    watch = ZeroWatch()
    given = [watch.add(verdict, PROBLEM) for verdict in verdicts]
    return [warning for warning in given if warning is not None]


@pytest.mark.parametrize("verdict", [NOTHING, UNPARSED])
def test_nothing_extracted(verdict: VerifyResult) -> None:
    assert warnings([verdict] * 19) == []
    assert warnings([verdict] * 60) == ["0 of 20 right, nothing extracted: is the scorer right?"]


def test_extracted_and_never_right() -> None:
    (warning,) = warnings([WRONG] * 20)
    assert "0 of 20 right" in warning and "'b.' was extracted, 'B' is expected" in warning


@pytest.mark.parametrize("other", [RIGHT, NOTHING, VerifyResult(0.5, "b.", {})])
def test_another_outcome_among_the_first_rows_ends_the_watch(other: VerifyResult) -> None:
    assert warnings([WRONG] * 5 + [other] + [WRONG] * 40) == []


async def test_a_run_says_so_before_it_ends(sums: Any, scripted: Any, tmp_path: Path) -> None:
    sums.size = 40
    scripted.answer = lambda prompt: ""
    messages: list[tuple[str, int]] = []
    job = Evaluation(
        environment=sums,
        solver=scripted,
        task_dir=tmp_path,
        max_concurrent=1,
        say=lambda message: messages.append((message, len(scripted.asked))),
    )
    await evaluate(job)
    assert messages == [("sums: 0 of 20 right, nothing extracted: is the scorer right?", 20)]
