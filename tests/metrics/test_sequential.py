"""Confidence sequences and the stop rule."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nemo_evaluator.metrics import Baseline, MeanSequence, StopRule
from nemo_evaluator.metrics.sequential import LOG_WEIGHTS, SHARES


def test_wealth_of_a_single_share_is_the_product_of_its_bets(monkeypatch: pytest.MonkeyPatch) -> None:
    import nemo_evaluator.metrics.sequential as module

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
def test_order_does_not_matter_and_bounds_enclose_the_mean(values: list[float], random: object) -> None:
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


def feed(rule: StopRule, rewards: np.ndarray) -> int | None:
    for at, reward in enumerate(rewards):
        if rule.add(f"p{at}", 0, float(reward)):
            return at + 1
    return None


def test_stops_when_narrow_enough_and_says_what_was_saved() -> None:
    rule = StopRule(interval_width=0.2)
    used = feed(rule, np.random.default_rng(1).integers(0, 2, 2000))
    assert used is not None
    assert 100 < used < 500
    summary = rule.summary(planned=2000)
    assert summary["stopped"]
    assert summary["score"]["ci_upper"] - summary["score"]["ci_lower"] <= 0.2
    assert summary["saved_share"] == pytest.approx(1 - used / 2000, abs=1e-4)


def test_stops_when_decided_either_way() -> None:
    rng = np.random.default_rng(2)
    before = rng.integers(0, 2, 3000).astype(float)
    baseline = Baseline({f"p{i}": float(v) for i, v in enumerate(before)}, max_drop=0.05, name="base")
    worse = StopRule(baseline=baseline)
    assert feed(worse, before * (rng.random(3000) > 0.4)) is not None
    assert worse.reason is not None
    assert worse.reason.startswith("worse than base")
    same = StopRule(baseline=baseline)
    assert feed(same, before) is not None
    assert same.reason is not None
    assert same.reason.startswith("not worse than base")


def test_unpaired_problems_and_half_answered_ones_do_not_count() -> None:
    rule = StopRule(baseline=Baseline({}, max_drop=0.05), repeats=2)
    for at in range(500):
        assert rule.add(f"p{at}", 0, 0.0) is None
    assert rule.summary()["problems"] == 0
    for at in range(500):
        assert rule.add(f"p{at}", 1, 0.0) is None
    assert rule.summary()["problems"] == 500
    assert rule.summary()["difference"]["paired"] == 0


def test_never_before_the_floor() -> None:
    rule = StopRule(interval_width=0.9, min_problems=40)
    assert feed(rule, np.ones(100)) == 40


def test_a_decision_waits_for_the_floor_too() -> None:
    baseline = Baseline({f"p{i}": 0.0 for i in range(100)}, max_drop=0.0)
    assert feed(StopRule(baseline=baseline, min_problems=70), np.ones(100)) == 70


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


def test_rewards_without_a_known_range_switch_the_rule_off() -> None:
    rule = StopRule(interval_width=0.2, min_problems=1)
    assert rule.add("a", 0, 7.0) is None
    assert "outside [0, 1]" in rule.summary()["note"]
    assert feed(rule, np.ones(500)) is None
