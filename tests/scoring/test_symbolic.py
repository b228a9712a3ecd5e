from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from nemo_evaluator.core.errors import ScorerError
from nemo_evaluator.scoring import ScorerInput, math
from nemo_evaluator.scoring.symbolic import MathPool


@pytest.fixture(scope="module")
def pool() -> Iterator[MathPool]:
    pool = MathPool(size=1)
    yield pool
    pool.close()


@pytest.mark.parametrize(
    ("response", "target"),
    [
        (r"\boxed{\frac{1}{2}}", "0.5"),
        (r"The answer is $2\sqrt{2}$.", r"\sqrt{8}"),
        (r"Answer: $x^2+2x+1$", "(x+1)^2"),
        (r"\boxed{(1,2)}", "(1,2)"),
        (r"\boxed{(3, \frac{\pi}{2})}", r"\left( 3, \frac{\pi}{2} \right)"),
        ("Answer: Evelyn", r"\text{Evelyn}"),
        (r"So \[x = \boxed{5}\] holds.", "5"),
        ("The answer is 1,000.", "1000"),
        (r"\boxed{90^\circ}", "90"),
        (r"<think>\boxed{4}</think>\boxed{5}", "5"),
    ],
)
async def test_equal(response: str, target: str, pool: MathPool) -> None:
    assert (await math(ScorerInput(response, target), pool=pool))["correct"] is True


@pytest.mark.parametrize(
    ("response", "target"),
    [
        (r"\boxed{3}", "4"),
        (r"\boxed{\sqrt{7}}", r"\sqrt{8}"),
        (r"\boxed{(2,1)}", "(1,2)"),
        ("Answer: Evan", r"\text{Evelyn}"),
    ],
)
async def test_not_equal(response: str, target: str, pool: MathPool) -> None:
    assert (await math(ScorerInput(response, target), pool=pool))["correct"] is False


async def test_nothing_said_is_unparsed(pool: MathPool) -> None:
    assert (await math(ScorerInput("<think>5", "5"), pool=pool))["unparsed"] is True


HEAVY = r"\sum_{k=1}^{10^7} \frac{1}{k^2+k}"


async def test_an_answer_too_heavy_to_compare_is_unparsed(pool: MathPool) -> None:
    started = time.monotonic()
    score = await math(ScorerInput(rf"\boxed{{{HEAVY}}}", r"\frac{7}{11}"), timeout=0.5, pool=pool)
    assert (score["correct"], score["unparsed"]) == (False, True)
    assert time.monotonic() - started < 60


class TooHeavyTarget(MathPool):
    """Two workers died, or the limit ended them, on the target too."""

    def __init__(self) -> None:
        super().__init__(size=1)
        self._idle.queue[0].ask = lambda target, said, seconds: None  # type: ignore[method-assign]


async def test_a_target_too_heavy_to_read_is_a_failure_of_the_scorer() -> None:
    with pytest.raises(ScorerError, match="target '7x'"):
        await math(ScorerInput(r"\boxed{6x}", "7x"), pool=TooHeavyTarget())


async def test_a_worker_that_died_is_replaced(pool: MathPool) -> None:
    assert (await math(ScorerInput(r"\boxed{\sqrt{4}}", "2"), pool=pool))["correct"] is True
    worker = pool._idle.queue[0]
    worker._process.kill()
    worker._process.wait()
    assert (await math(ScorerInput(r"\boxed{\sqrt{9}}", "3"), pool=pool))["correct"] is True


async def test_a_worker_that_hangs_is_a_failure_of_the_scorer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import sys

    monkeypatch.setattr("nemo_evaluator.scoring.symbolic._START_SECONDS", 0.2)
    monkeypatch.setattr(sys, "executable", "/bin/cat")
    pool = MathPool(size=1)
    with pytest.raises(ScorerError, match="math worker"):
        await math(ScorerInput(r"\boxed{\sqrt{4}}", "2"), timeout=0.01, pool=pool)
    pool.close()


async def test_numbers_too_heavy_to_simplify_are_compared_by_value(pool: MathPool) -> None:
    answer = r"\boxed{\dfrac{(1+\sqrt{3})^{4033}-(1-\sqrt{3})^{4033}}{2^{2017}\sqrt{3}}}"
    target = r"\frac{(3-\sqrt{3})(2-\sqrt{3})^{2016}+(3+\sqrt{3})(2+\sqrt{3})^{2016}}{6}"
    assert (await math(ScorerInput(answer, target), timeout=1.0, pool=pool))["correct"] is True
    other = target.replace("}{6}", "}{7}")
    assert (await math(ScorerInput(answer, other), timeout=1.0, pool=pool))["correct"] is False
