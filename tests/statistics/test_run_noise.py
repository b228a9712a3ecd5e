"""The flip rate of a server, and how far two of its runs differ by noise alone."""

import numpy as np
import pytest

from nemo_evaluator.statistics.run_noise import FlipRate, NoisySide, flip_rate, self_difference


def stated(rate: FlipRate, problems: int, repeats: float = 1) -> float:
    side = NoisySide(rate, repeats)
    return self_difference((side, side), problems)


def test_the_rate_is_the_mean_squared_difference_of_two_runs() -> None:
    rewards = np.random.default_rng(1).random((30, 4))
    squares = [
        (rewards[:, left] - rewards[:, right]) ** 2
        for left in range(4)
        for right in range(4)
        if left != right
    ]
    assert flip_rate(rewards).value == pytest.approx(np.mean(squares))
    flips = np.array([[1, 0], [0, 0], [1, 1], [1, 1]], dtype=float)
    assert flip_rate(flips) == FlipRate(0.25, 4, unit=1.0)


def test_no_flip_seen_does_not_prove_that_there_is_none() -> None:
    rate = flip_rate(np.ones((50, 4)))
    lower, upper = rate.bounds()
    assert (rate.value, lower) == (0.0, 0.0) and 0.01 < upper < 0.03
    assert 0 < stated(rate, 200) < 0.015


def test_more_problems_and_more_repeats_narrow_it() -> None:
    rate = FlipRate(0.1, 200, unit=0.5)
    assert stated(rate, 400) == pytest.approx(stated(rate, 100) / 2, rel=1e-6)
    assert stated(rate, 100, repeats=4) == pytest.approx(stated(rate, 100) / 2, rel=1e-6)
    # Nearly certain rates give the plain formula.
    certain = FlipRate(0.1, 10**7, unit=0.5)
    assert stated(certain, 100) == pytest.approx(1.96 * np.sqrt(0.1 / 100), rel=1e-3)


def test_two_servers_share_the_noise() -> None:
    noisy, quiet = FlipRate(0.2, 10**7, unit=0.5), FlipRate(0.05, 10**7, unit=0.5)
    both = self_difference((NoisySide(noisy, 1), NoisySide(quiet, 2)), 100)
    assert both == pytest.approx(1.96 * np.sqrt((0.2 + 0.05 / 2) / 200), rel=1e-2)


@pytest.mark.parametrize(("flips", "problems"), [(0.03, 200), (0.06, 100), (0.12, 50), (0.3, 50)])
def test_the_stated_difference_covers_95_percent(flips: float, problems: int) -> None:
    """200 measurements of one server; each states a difference for runs over 200 problems."""
    rng = np.random.default_rng(7)
    mistaken = (1 - np.sqrt(1 - 2 * flips)) / 2

    def runs(size: int, count: int) -> np.ndarray:
        ease = np.where(rng.random(size) < 0.5, mistaken, 1 - mistaken)
        return (rng.random((size, count)) < ease[:, None]).astype(float)

    covered = []
    for _ in range(200):
        bound = stated(flip_rate(runs(problems, 4)), 200)
        scores = runs(200, 80).mean(axis=0)
        covered.append(np.mean(np.abs(scores[::2] - scores[1::2]) <= bound + 1e-12))
    assert 0.93 <= np.mean(covered) <= 0.97
