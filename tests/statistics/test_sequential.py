"""Confidence sequences."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nemo_evaluator.statistics import MeanSequence
from nemo_evaluator.statistics.sequential import LOG_WEIGHTS, SHARES


def test_wealth_of_a_single_share_is_the_product_of_its_bets(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import nemo_evaluator.statistics.sequential as module

    monkeypatch.setattr(module, "SHARES", np.array([0.3]))
    monkeypatch.setattr(module, "LOG_WEIGHTS", np.zeros(1))
    values = np.array([1.0, 0.0, 1.0, 1.0, 0.5])
    sequence = MeanSequence()
    sequence.add(values)
    by_hand = np.log(np.prod(1 + 0.3 / 0.4 * (values - 0.4)))
    assert sequence._wealth_above(0.4) == pytest.approx(by_hand, abs=1e-9)
    against = np.log(np.prod(1 - 0.3 / 0.6 * (values - 0.4)))
    assert sequence._wealth_below(0.4) == pytest.approx(against, abs=1e-9)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=200), st.randoms(use_true_random=False))
def test_order_does_not_matter_and_bounds_enclose_the_mean(
    values: list[float], random: object
) -> None:
    whole, pieces = MeanSequence(), MeanSequence()
    whole.add(values)
    shuffled = list(values)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    for value in shuffled:
        pieces.add(value)
    found, again = whole.interval(), pieces.interval()
    assert (found.lower, found.upper) == pytest.approx((again.lower, again.upper), abs=1e-9)
    assert 0.0 <= found.lower <= found.value + 1e-3
    assert found.value - 1e-3 <= found.upper <= 1.0


def test_bounds_agree_with_above_and_below() -> None:
    sequence = MeanSequence(low=-1, high=1)
    sequence.add(np.random.default_rng(0).choice([-1, 0, 1], 600, p=[0.2, 0.7, 0.1]))
    found = sequence.interval()
    assert sequence.above(found.lower - 1e-6)
    assert not sequence.above(found.lower + 1e-6)
    assert sequence.below(found.upper + 1e-6)
    assert not sequence.below(found.upper - 1e-6)


def test_not_much_wider_than_a_fixed_interval() -> None:
    for n in (100, 1000, 10_000, 100_000):
        sequence = MeanSequence()
        sequence.add(np.arange(n) % 2)
        assert sequence.interval().width < 2.0 * 2 * 1.96 * 0.5 / np.sqrt(n)


def test_a_value_out_of_range_is_refused() -> None:
    with pytest.raises(ValueError, match="outside"):
        MeanSequence().add(1.5)


def test_values_between_bins_are_rounded_against_us() -> None:
    values = np.full(300, 1 / 7)
    sequence = MeanSequence()
    sequence.add(values)
    for m, p_value, gain in (
        (0.1, sequence.p_above(0.1), 1 / 7 / 0.1 - 1),
        (0.2, sequence.p_below(0.2), 6 / 7 / 0.8 - 1),
    ):
        exact = np.log1p(SHARES * gain) * 300 + LOG_WEIGHTS
        assert p_value >= np.exp(-np.logaddexp.reduce(exact)), m


def test_a_half_known_value_counts_as_the_worst_for_either_bound() -> None:
    rng = np.random.default_rng(3)
    known = rng.integers(0, 2, 200)
    half, low, high = MeanSequence(), MeanSequence(), MeanSequence()
    for sequence in (half, low, high):
        sequence.add(known)
    for _ in range(10):
        half.add_between(0.25, 0.75)
        low.add(0.25)
        high.add(0.75)
    found = half.interval()
    assert found.lower == pytest.approx(low.interval().lower, abs=1e-9)
    assert found.upper == pytest.approx(high.interval().upper, abs=1e-9)
    assert found.value == pytest.approx(known.mean())
    assert (half.n, half.known) == (210, 200)
    with pytest.raises(ValueError, match="outside"):
        half.add_between(0.5, 1.5)


def test_bounds_at_another_confidence() -> None:
    ours, theirs = MeanSequence(), MeanSequence(confidence=0.99)
    for sequence in (ours, theirs):
        sequence.add(np.arange(500) % 3 == 0)
    assert ours.interval(0.99) == theirs.interval()
    assert ours.interval().width < ours.interval(0.99).width
