"""Planning agrees with statsmodels."""

import numpy as np
import pytest
from statsmodels.stats.power import TTestPower

from nemo_evaluator.statistics import Spread, detectable_effect, paired_power, problems_needed


@pytest.mark.parametrize("effect", [0.01, 0.05, 0.1])
@pytest.mark.parametrize("n", [20, 300, 5000])
def test_power(effect: float, n: int) -> None:
    expected = TTestPower().power(effect / 0.5, n, 0.025, alternative="larger")
    assert paired_power(effect, 0.5, n) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("effect", [0.01, 0.05, 0.2])
def test_problems_needed(effect: float) -> None:
    expected = TTestPower().solve_power(effect / 0.5, alpha=0.025, power=0.8, alternative="larger")
    assert problems_needed(effect, 0.5) == int(np.ceil(expected))


def test_detectable_effect() -> None:
    expected = (
        TTestPower().solve_power(nobs=400, alpha=0.025, power=0.8, alternative="larger") * 0.5
    )
    assert detectable_effect(0.5, 400) == pytest.approx(expected, abs=1e-6)
    assert detectable_effect(0.5, 1) is None


def test_nothing_can_show_no_effect() -> None:
    assert paired_power(0.0, 0.5, 1000) == 0.0
    assert problems_needed(1e-6, 0.5) is None


def test_repeats_shrink_only_the_noise() -> None:
    spread = Spread(true=0.04, noise=0.36)
    assert spread.sd(1) == pytest.approx(np.sqrt(0.40))
    assert spread.sd(9) == pytest.approx(np.sqrt(0.08))
