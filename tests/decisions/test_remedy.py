"""What ``nel gate --explain`` promises: as much data as it says settles the question about as often as it says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from nemo_evaluator.config.gate_policy import PolicyDefaults
from nemo_evaluator.decisions.gate.data_needed import observed_spread, remedy_for
from nemo_evaluator.decisions.gate.report import Remedy
from nemo_evaluator.decisions.gate.thresholds import measure
from nemo_evaluator.decisions.pairing import Pairing, pair
from nemo_evaluator.runs.row_table import RowTable, table_of
from nemo_evaluator.statistics import ANYTIME, PLANNED, Spending

ALPHA = 0.025


def _flipping(share: float, lost: float = 0.0) -> Callable[[Any], tuple[Any, Any]]:
    def draw(rng: Any) -> tuple[Any, Any]:
        base = rng.random(200) < 0.6
        other = np.where(rng.random(200) < share, ~base, base)
        return base.astype(float), np.where(rng.random(200) < lost, 0.0, other.astype(float))

    return draw


def _partial(rng: Any) -> tuple[Any, Any]:
    base = rng.random(120)
    return base, np.clip(base + rng.normal(0, 0.2, 120), 0, 1)


def _remedy(
    rows: tuple[RowTable, RowTable],
    pairing: Pairing,
    limits: PolicyDefaults,
    breach: float,
    spending: Spending,
) -> Remedy | None:
    found = measure(pairing, limits, confidence=0.95, spending=spending).limits
    unproved = [limit for limit in found if limit.p_pass > ALPHA]
    if not unproved or any(limit.p_breach <= breach for limit in found):
        return None
    return remedy_for(pairing, rows, unproved, alpha=ALPHA, breach_alpha=breach)


def _resampled(pairing: Pairing, n: int, rng: Any) -> Pairing:
    """More problems like those that were seen."""
    at, keys = rng.integers(0, len(pairing), n), np.arange(n)
    sides = [
        replace(side, keys=keys, rewards=side.rewards[at], answers=side.answers[at], first=keys)
        for side in (pairing.baseline, pairing.candidate)
    ]
    return replace(pairing, baseline=sides[0], candidate=sides[1])


@pytest.mark.parametrize(
    ("draw", "limits", "breach", "spending"),
    [
        pytest.param(_flipping(0.1), {"max_drop": 0.05}, ALPHA, PLANNED, id="kept"),
        pytest.param(
            _flipping(0.1, 0.06),
            {"max_drop": 0.01},
            ALPHA / 20,
            PLANNED,
            id="exceeded among twenty",
        ),
        pytest.param(
            _flipping(0.1),
            {"max_drop": 0.2, "max_relative_drop": 0.1},
            ALPHA,
            PLANNED,
            id="relative",
        ),
        pytest.param(_partial, {"max_drop": 0.03}, ALPHA, PLANNED, id="partial credit"),
        pytest.param(_flipping(0.1), {"max_drop": 0.08}, ALPHA, ANYTIME, id="looked at"),
    ],
)
def test_as_much_data_as_it_says_settles_it(
    draw: Callable[[Any], tuple[Any, Any]],
    limits: dict[str, float],
    breach: float,
    spending: Spending,
    make_rows: Any,
) -> None:
    rules, settled = PolicyDefaults.model_validate(limits), []
    for seed in range(10):
        base, other = draw(np.random.default_rng([seed, 1]))
        rows = table_of(make_rows(base)), table_of(make_rows(other))
        pairing = pair(*rows)
        remedy = _remedy(rows, pairing, rules, breach, spending)
        if remedy is None or remedy.problems_needed is None or remedy.problems_needed > 20_000:
            continue
        for again in range(20):
            more = _resampled(
                pairing, remedy.problems_needed, np.random.default_rng([seed, 2, again])
            )
            found = measure(more, rules, confidence=0.95, spending=spending).limits
            kept = all(limit.p_pass <= ALPHA for limit in found)
            settled.append(
                any(limit.p_breach <= breach for limit in found)
                if "exceeded" in remedy.words
                else kept
            )
    assert len(settled) >= 60
    assert 0.72 <= np.mean(settled) <= 0.9


def test_more_repeats_settle_it_too(make_rows: Any) -> None:
    rng = np.random.default_rng(3)
    chance = rng.random(300)
    drawn = [(rng.random((300, 4)) < chance[:, None]).astype(float) for _ in range(2)]
    rows = table_of(make_rows(list(drawn[0]))), table_of(make_rows(list(drawn[1])))
    rules = PolicyDefaults(max_drop=0.03)
    remedy = _remedy(rows, pair(*rows), rules, ALPHA, PLANNED)
    assert remedy is not None
    assert remedy.repeats_needed is not None
    # The same problems, asked as often as it says, of sides that differ as much as they seem to.
    gap = float((drawn[1].mean(axis=1) - drawn[0].mean(axis=1)).mean())
    settled = []
    for seed in range(40):
        again = np.random.default_rng([4, seed])
        tries = remedy.repeats_needed
        base = again.binomial(tries, chance) / tries
        other = again.binomial(tries, np.clip(chance + gap, 0, 1)) / tries
        more = pair(table_of(make_rows(base)), table_of(make_rows(other)))
        settled.append(measure(more, rules, confidence=0.95).limits[0].p_pass <= ALPHA)
    assert 0.6 <= np.mean(settled) <= 1.0
    assert remedy.repeats_needed > 4


def test_no_difference_at_all_needs_a_number_too(make_rows: Any) -> None:
    rows = table_of(make_rows([1.0] * 30)), table_of(make_rows([1.0] * 30))
    rules = PolicyDefaults(max_drop=0.03)
    remedy = _remedy(rows, pair(*rows), rules, ALPHA, PLANNED)
    assert remedy is not None
    assert remedy.words.endswith("if all further problems differ alike")
    needed = remedy.problems_needed
    assert needed is not None
    for n, holds in ((needed, True), (needed - 1, False)):
        more = pair(table_of(make_rows([1.0] * n)), table_of(make_rows([1.0] * n)))
        assert (measure(more, rules, confidence=0.95).limits[0].p_pass <= ALPHA) is holds


def test_the_spread_of_sides_that_were_not_asked_equally_often(make_rows: Any) -> None:
    """The answers of a problem vary by 1/4; so do the means of 8 answers by 1/32 and of 2 by 1/8."""
    rng = np.random.default_rng(5)
    drawn = [rng.integers(0, 2, (4000, repeats)).astype(float) for repeats in (8, 2)]
    rows = table_of(make_rows(list(drawn[0]))), table_of(make_rows(list(drawn[1])))
    pairing = pair(*rows)
    spread = observed_spread(pairing, rows, float(pairing.differences.std(ddof=1)))
    assert spread is not None
    assert spread.noise == pytest.approx(0.5, abs=0.02)
    assert spread.true == pytest.approx(0.0, abs=0.01)
    assert spread.sd(2) == pytest.approx(0.5, abs=0.02)


def test_a_breach_of_one_of_two_limits_is_enough(make_rows: Any) -> None:
    """Both seem exceeded: the one that is the easier to show decides how much is needed."""
    rows = (
        table_of(make_rows([1.0] * 105 + [0.0] * 45)),
        table_of(make_rows([0.0] * 9 + [1.0] * 96 + [0.0] * 45)),
    )
    pairing = pair(*rows)
    both = measure(
        pairing, PolicyDefaults(max_drop=0.02, max_relative_drop=0.04), confidence=0.95
    ).limits
    assert all(limit.margin.value < 0 for limit in both)
    alone = [
        remedy_for(pairing, rows, [limit], alpha=ALPHA, breach_alpha=ALPHA).problems_needed
        for limit in both
    ]
    together = remedy_for(pairing, rows, both, alpha=ALPHA, breach_alpha=ALPHA).problems_needed
    assert alone[0] is not None
    assert alone[1] is not None
    assert together == min(alone[0], alone[1]) < max(alone[0], alone[1])
    kept = measure(
        pairing, PolicyDefaults(max_drop=0.09, max_relative_drop=0.2), confidence=0.95
    ).limits
    assert all(limit.margin.value > 0 for limit in kept)
    alone = [
        remedy_for(pairing, rows, [limit], alpha=ALPHA, breach_alpha=ALPHA).problems_needed
        for limit in kept
    ]
    together = remedy_for(pairing, rows, kept, alpha=ALPHA, breach_alpha=ALPHA).problems_needed
    assert alone[0] is not None
    assert alone[1] is not None
    assert together == max(alone[0], alone[1]) > min(alone[0], alone[1])
