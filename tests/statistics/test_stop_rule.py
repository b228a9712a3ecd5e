"""The rule that ends a run."""

from collections.abc import Iterable

import numpy as np
import pytest

from nemo_evaluator.statistics import ENDED, STOPPED, Baseline, StopRule, mean_difference


def feed(rule: StopRule, rewards: Iterable[float | None]) -> int | None:
    for at, reward in enumerate(rewards):
        if rule.add(f"p{at}", [None if reward is None else float(reward)]):
            return at + 1
    return None


def base(rewards: Iterable[float], max_drop: float = 0.05) -> Baseline:
    return Baseline({f"p{i}": float(v) for i, v in enumerate(rewards)}, max_drop, "base")


def test_stops_when_narrow_enough() -> None:
    rule = StopRule(interval_width=0.2)
    rewards = (np.random.default_rng(1).random(2000) < 0.95).astype(float)
    used = feed(rule, rewards)
    assert used is not None
    assert 30 < used < 120
    summary = rule.summary()
    assert summary["stopped"]
    assert summary["problems"] == used
    # The width that was asked for is that of the interval that the bundle will show.
    shown = STOPPED.mean_interval(rewards[:used], binary=True)
    assert (summary["score"]["ci_lower"], summary["score"]["ci_upper"]) == (
        shown.lower,
        shown.upper,
    )
    assert shown.width is not None
    assert shown.width <= 0.2


@pytest.mark.parametrize("kind", ["binary", "repeats", "fractional"])
def test_enough_is_enough_at_any_score(kind: str) -> None:
    rng = np.random.default_rng(3)
    for score in (0.3, 0.5, 0.6):
        rule = StopRule(interval_width=0.12)
        # Repeats that all agree are the widest case.
        right = np.repeat(rng.random((3000, 1)) < score, 4 if kind == "repeats" else 1, axis=1)
        answers = np.where(right, 1.0, 0.1 if kind == "fractional" else 0.0).tolist()
        used = next(at for at, one in enumerate(answers, 1) if rule.add(f"p{at}", one))
        assert used == rule.enough
        assert rule.summary()["last_look"]
        means = np.mean(answers[:used], axis=1)
        rows = used * (4 if kind == "repeats" else 1)
        shown = ENDED.mean_interval(means, answers=rows, binary=kind != "fractional")
        assert shown.width is not None
        assert shown.width <= 0.12, score
    moved = StopRule(interval_width=0.12)
    moved.forgo_last_look()
    coins = (rng.random(3000) < 0.5).astype(float)
    assert (feed(moved, coins) or 0) > used, "without the last look it takes more"


def test_the_last_look_decides_when_enough_is_there() -> None:
    """The planned end of a rule with both aims is where the interval is narrow enough."""
    before = (np.random.default_rng(6).random(400) < 0.6).astype(float)
    rule = StopRule(interval_width=0.25, baseline=base(before, 0.06))
    used = feed(rule, before)
    assert used == rule.enough
    assert rule.summary()["decision"] == "not worse than base by more than 0.06: proved"


@pytest.mark.parametrize("share", [0.02, 0.5, 0.9])
def test_a_look_is_never_far_away(share: float) -> None:
    rewards = (np.random.default_rng(8).random(6000) < share).astype(float)
    rule = StopRule(interval_width=0.08)
    rule.forgo_last_look()
    used = feed(rule, rewards)
    assert used is not None
    narrow = STOPPED.mean_interval(rewards[: int(used / 1.03)], binary=True).width
    assert narrow is not None
    assert narrow > 0.08


def test_stops_when_decided_either_way() -> None:
    rng = np.random.default_rng(2)
    before = rng.integers(0, 2, 3000).astype(float)
    worse = StopRule(baseline=base(before))
    assert feed(worse, before * (rng.random(3000) > 0.4)) is not None
    assert worse.reason == "worse than base by more than 0.05: proved"
    same = StopRule(baseline=base(before))
    used = feed(same, before)
    assert used is not None
    assert same.reason == "not worse than base by more than 0.05: proved"
    # ... and whoever looks at the stopped run finds the same.
    zeros = np.zeros(used)
    reading = STOPPED.reading(zeros, mean_difference(zeros, bounded=True))
    assert reading.p_above(-0.05) <= 0.025
    assert same.summary()["decision"] == same.reason


def test_problems_that_are_not_in_the_baseline_do_not_count() -> None:
    rule = StopRule(baseline=base([], max_drop=0.05))
    assert feed(rule, np.zeros(500)) is None
    summary = rule.summary(ended=True)
    assert (summary["problems"], summary["difference"]["paired"]) == (500, 0)
    assert summary["note"] == "no problem of this run is in base: nothing to decide"


def test_never_before_the_floor() -> None:
    assert feed(StopRule(interval_width=0.9, min_problems=40), np.ones(100)) == 40
    assert feed(StopRule(baseline=base(np.zeros(100), 0.0), min_problems=70), np.ones(100)) == 70


def test_failures_are_the_worst_case_either_way() -> None:
    rng = np.random.default_rng(4)
    before = (rng.random(2000) < 0.7).astype(float)
    whole = feed(StopRule(baseline=base(before, 0.1)), before)
    holes = [None if at % 10 == 0 else reward for at, reward in enumerate(before)]
    dropped = feed(
        StopRule(baseline=base(before, 0.1)), (reward for reward in holes if reward is not None)
    )
    assert whole is not None
    assert dropped is not None, "left out, the failures would change nothing"
    rule = StopRule(baseline=base(before, 0.1))
    # A tenth of failures may hide a drop of up to seven points: three are left to prove.
    assert (feed(rule, holes) or 2000) > 2 * whole
    assert feed(StopRule(baseline=base(before, 0.05)), holes) is None
    assert rule.summary()["failed_answers"] > 0


def test_a_failure_is_no_evidence_where_the_baseline_was_wrong_too() -> None:
    """It cannot be worse than 0, but a comparison leaves it out, and the rule must not be surer than that."""
    rule = StopRule(baseline=base(np.zeros(3000), 0.05), min_problems=30)
    for at in range(2000):
        assert rule.add(f"p{at}", [0.0 if at < 30 else None]) is None


def test_a_repeat_that_failed_leaves_the_problem_half_known() -> None:
    rule = StopRule(interval_width=0.0001, min_problems=1)
    rule.add("a", [1.0, None, 0.0, 1.0])
    rule.add("b", [1.0, 1.0, 1.0, 1.0])
    assert rule._score._floor.nonzero()[0].tolist() == [2400, 4800]
    assert rule._score._ceil.nonzero()[0].tolist() == [3600, 4800]


def test_no_stop_that_would_be_invalid() -> None:
    """With coverage under its floor the run goes on: a stopped run that may not be used is of no use."""
    rewards = [None] * 4 + [1.0] * 200
    assert feed(StopRule(interval_width=0.5, min_problems=30), rewards) == 34
    careful = feed(StopRule(interval_width=0.5, min_problems=30, min_coverage=0.95), rewards)
    assert careful == 80


def test_a_problem_that_comes_twice_is_compared_once() -> None:
    rule = StopRule(baseline=base([1.0] * 40, 0.05))
    for at in range(400):
        assert rule.add(f"p{at % 10}", [0.0]) is None
    assert rule.summary()["difference"]["paired"] == 10


def test_rewards_without_a_known_range_switch_the_rule_off() -> None:
    rule = StopRule(interval_width=0.2, min_problems=1)
    assert rule.add("a", [7.0]) is None
    assert "outside [0, 1]" in rule.summary()["note"]
    assert feed(rule, np.ones(500)) is None
    against = StopRule(baseline=base([-3.0] + [1.0] * 500))
    assert feed(against, np.ones(501)) is None
    assert "a baseline reward of -3 is outside" in against.summary(ended=True)["note"]


def test_the_last_look_decides_what_looking_could_not() -> None:
    rng = np.random.default_rng(11)
    before = (rng.random(400) < 0.7).astype(float)
    after = np.where(rng.random(400) < 0.06, 1 - before, before)
    rule = StopRule(baseline=base(before))
    assert feed(rule, after) is None
    looking, last = rule.summary(), rule.summary(ended=True)
    assert looking["decision"] is None
    assert last["decision"] == "not worse than base by more than 0.05: proved"
    assert last["stopped"] is False
    assert last["difference"]["ci_lower"] > -0.05 > looking["difference"]["ci_lower"]
    assert last["difference"]["ci_method"].endswith("+betting")


def test_failures_are_the_worst_case_at_the_last_look_too() -> None:
    before = (np.random.default_rng(6).random(400) < 0.7).astype(float)
    holes = [None if at % 20 == 0 else reward for at, reward in enumerate(before)]
    rule = StopRule(baseline=base(before))
    assert feed(rule, holes) is None
    last = rule.summary(ended=True)
    assert last["decision"] is None
    assert last["difference"]["ci_lower"] < -0.05
    assert last["difference"]["value"] == 0.0
    filled = StopRule(baseline=base(before[:200]))
    feed(filled, before[:200])
    assert filled.summary(ended=True)["decision"] is not None, "without failures it would be proved"


def test_a_rule_needs_an_aim() -> None:
    with pytest.raises(ValueError, match="interval_width"):
        StopRule()
