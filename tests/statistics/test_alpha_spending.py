"""Intervals of runs whose size was not settled beforehand: what is spent on looking, what on the last look."""

import math

import numpy as np

from nemo_evaluator.statistics import (
    ANYTIME,
    ENDED,
    PLANNED,
    STOPPED,
    MeanSequence,
    headline_scores,
    joint_spending,
    mean_difference,
    mean_interval,
    spending_of,
)
from nemo_evaluator.statistics.alpha_spending import LOOKING

FLIPS = np.random.default_rng(5).choice([-1.0, 0.0, 1.0], 400, p=[0.15, 0.75, 0.1])


def test_the_error_is_spent_once() -> None:
    assert PLANNED.looking + PLANNED.last == 1
    assert ANYTIME.looking + ANYTIME.last == 1
    assert ENDED.looking + ENDED.last == 1
    assert (STOPPED.looking, STOPPED.last) == (ENDED.looking, 0)


def test_each_part_gets_its_share() -> None:
    fixed = mean_difference(FLIPS, bounded=True)
    sequence = MeanSequence(low=-1, high=1)
    sequence.add(FLIPS)
    looked, last = 1 - 0.05 * LOOKING, 1 - 0.05 * (1 - LOOKING)
    assert PLANNED.reading(FLIPS, fixed) is fixed
    assert ANYTIME.reading(FLIPS, fixed).interval(0.95) == sequence.interval(0.95)
    assert STOPPED.reading(FLIPS, fixed).interval(0.95) == sequence.interval(looked)
    ended = ENDED.reading(FLIPS, fixed).interval(0.95)
    assert (ended.lower, ended.upper) == (fixed.interval(last).lower, fixed.interval(last).upper)
    assert ended.method == f"{fixed.method}+betting"
    assert fixed.interval(0.95).width < ended.width < sequence.interval(looked).width


def test_what_either_part_excludes_is_excluded() -> None:
    vague = mean_difference(FLIPS[:8], bounded=True)
    assert vague.interval(1 - 0.05 * (1 - LOOKING)).width > 0.5
    found, looked = (how.reading(FLIPS, vague).interval(0.95) for how in (ENDED, STOPPED))
    assert (found.lower, found.upper) == (looked.lower, looked.upper)


def test_p_values_agree_with_bounds() -> None:
    fixed = mean_difference(FLIPS, bounded=True)
    for spending in (ANYTIME, STOPPED, ENDED):
        reading = spending.reading(FLIPS, fixed)
        found = reading.interval(0.9)
        assert found.lower is not None
        assert found.upper is not None
        assert reading.p_above(found.lower - 1e-6) <= 0.05 < reading.p_above(found.lower + 1e-6)
        assert reading.p_below(found.upper + 1e-6) <= 0.05 < reading.p_below(found.upper - 1e-6)


def test_a_last_look_may_be_narrower_on_one_side_only() -> None:
    """With every answer right the sequence has the better upper end and the usual interval the better lower one."""
    values = np.ones(40)
    ended, stopped = (
        ENDED.mean_interval(values, binary=True),
        STOPPED.mean_interval(values, binary=True),
    )
    assert ended.upper == stopped.upper == 1.0
    assert ended.lower is not None
    assert stopped.lower is not None
    assert ended.lower > stopped.lower


def test_means_of_every_kind() -> None:
    values = np.random.default_rng(2).random(300)
    assert PLANNED.mean_interval(values) == mean_interval(values)
    assert STOPPED.mean_interval(values).method == "betting"
    assert ENDED.mean_interval(values).method == "cluster_wilson+betting"
    # No rule looks at rewards beyond [0, 1]: at the end the usual interval is good, before it nothing is.
    wild = ENDED.mean_interval(values * 7)
    assert wild == mean_interval(values * 7, confidence=1 - 0.05 * (1 - LOOKING))
    assert STOPPED.mean_interval(values * 7).lower is None
    assert ENDED.mean_interval(np.empty(0)).n == 0
    # No rule looks at clusters either.
    clusters = np.repeat(np.arange(100), 3)
    ended = ENDED.mean_interval(values, clusters=clusters)
    last_look = 1 - 0.05 * (1 - LOOKING)
    assert ended == mean_interval(values, clusters=clusters, confidence=last_look)
    assert STOPPED.mean_interval(values, clusters=clusters).lower is None


def test_every_score_of_a_bundle_follows() -> None:
    problem = np.repeat(np.arange(100), 4)
    reward = (np.random.default_rng(1).random(400) < 0.6).astype(float)
    usual, stopped = (
        headline_scores(problem, reward, repeats=4, spending=how) for how in (PLANNED, STOPPED)
    )
    assert set(usual) == set(stopped) == {"pass@1", "pass@2", "pass@4", "pass^2", "pass^4"}
    for name, entry in stopped.items():
        assert entry["ci_method"] == "betting", name
        assert entry["value"] == usual[name]["value"]
        assert (
            entry["ci_upper"] - entry["ci_lower"]
            > usual[name]["ci_upper"] - usual[name]["ci_lower"]
        ), name
    assert "bootstrap_ci_lower" in usual["pass@1"]
    assert "bootstrap_ci_lower" not in stopped["pass@1"]


def test_what_a_bundle_says() -> None:
    assert spending_of(None) == spending_of({}) == spending_of({"kind": "budget"}) == PLANNED
    assert spending_of({"rule": {"stopped": False}}) == ENDED
    assert (
        spending_of({"kind": "rule", "rule": {"stopped": True}})
        == spending_of({"kind": "rule"})
        == STOPPED
    )
    # The look at the planned end was never reached.
    assert spending_of({"kind": "budget", "rule": {"stopped": False}}) == STOPPED
    # ... unless the rule itself had planned to end there, and no earlier end was planned.
    planned = {"stopped": True, "last_look": True}
    assert spending_of({"kind": "rule", "rule": planned}) == ENDED
    assert spending_of({"kind": "rule", "rule": planned | {"moved_from": [7]}}) == STOPPED
    assert spending_of({"kind": "budget", "rule": {"last_look": True}}) == STOPPED
    # Two runs are looked at for the last time only when both got to their ends.
    assert joint_spending(PLANNED, ENDED) == joint_spending(ENDED, PLANNED) == ENDED
    assert joint_spending(ENDED, STOPPED) == joint_spending(STOPPED, PLANNED) == STOPPED


def test_values_of_unknown_reach_are_not_looked_at() -> None:
    fixed = mean_difference(FLIPS * 9)
    ended, stopped = (how.reading(FLIPS * 9, fixed, reach=math.inf) for how in (ENDED, STOPPED))
    assert ended.interval(0.95) == fixed.interval(1 - 0.05 * (1 - LOOKING))
    assert stopped.interval(0.95).lower is None
    assert (stopped.p_above(-9.0), stopped.p_below(9.0)) == (1.0, 1.0)
    assert ENDED.reading(np.empty(0), mean_difference(np.empty(0))).interval().n == 0
