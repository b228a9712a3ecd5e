"""The scores of a bundle."""

import subprocess
import sys
import time

import numpy as np
import pytest
from scipy import stats

from nemo_evaluator.statistics import (
    breakdowns,
    category_breakdown,
    category_scores,
    headline_score_metrics,
    headline_scores,
    sample_level_ci,
    scorer_score,
    summary_scores,
)


def test_one_answer_per_problem_gets_wilson() -> None:
    reward = np.array([1.0] * 13 + [0.0] * 7)
    found = headline_scores(np.arange(20), reward, repeats=1)
    expected = stats.binomtest(13, 20).proportion_ci(method="wilson")
    assert list(found) == ["pass@1"]
    entry = found["pass@1"]
    assert entry["ci_method"] == "wilson"
    assert entry["n"] == 20
    assert (entry["value"], entry["ci_lower"], entry["ci_upper"]) == pytest.approx(
        (0.65, expected.low, expected.high), abs=1e-6
    )


def test_repeats_that_always_agree_do_not_shrink_the_interval() -> None:
    """Twelve problems, each answered twice the same way: two answers tell no more than one (spec 01 W13)."""
    reward = np.array([1.0] * 8 + [0.0] * 4)
    once = headline_scores(np.arange(12), reward, repeats=1)["pass@1"]
    twice = headline_scores(np.repeat(np.arange(12), 2), np.repeat(reward, 2), repeats=2)["pass@1"]
    assert twice["value"] == once["value"]
    assert twice["ci_upper"] - twice["ci_lower"] >= once["ci_upper"] - once["ci_lower"]
    assert twice["ci_method"] == "cluster_wilson"


@pytest.mark.parametrize("reward", [0.0, 1.0, 0.7])
@pytest.mark.parametrize("repeats", [1, 4])
def test_equal_rewards_never_give_a_width_of_zero(reward: float, repeats: int) -> None:
    problem = np.repeat(np.arange(15), repeats)
    for entry in headline_scores(problem, np.full(len(problem), reward), repeats=repeats).values():
        assert 0.0 <= entry["ci_lower"] <= entry["value"] <= entry["ci_upper"] <= 1.0
        assert entry["ci_upper"] - entry["ci_lower"] > 0.1


def test_unknown_range_and_no_spread_gives_no_bounds() -> None:
    entry = headline_scores(np.arange(5), np.full(5, 7.0), repeats=1)["mean_reward"]
    assert (entry["value"], entry["ci_lower"], entry["ci_upper"]) == (7.0, None, None)


def test_every_useful_k() -> None:
    rng = np.random.default_rng(0)
    problem = np.repeat(np.arange(40), 6)
    reward = (rng.random(240) < np.repeat(rng.random(40), 6)).astype(float)
    found = headline_scores(problem, reward, repeats=6)
    assert list(found) == ["pass@1", "pass@2", "pass@4", "pass@6", "pass^2", "pass^4", "pass^6"]
    assert (
        found["pass@1"]["value"]
        <= found["pass@2"]["value"]
        <= found["pass@4"]["value"]
        <= found["pass@6"]["value"]
    )
    assert found["pass@1"]["value"] >= found["pass^2"]["value"] >= found["pass^6"]["value"]
    right = reward.reshape(40, 6)
    assert found["pass@6"]["value"] == pytest.approx(right.any(axis=1).mean(), abs=1e-6)
    assert found["pass^6"]["value"] == pytest.approx(right.all(axis=1).mean(), abs=1e-6)


def test_problems_with_too_few_answers_are_left_out_of_that_k() -> None:
    problem = np.array([0, 0, 1, 2, 2])
    found = headline_scores(problem, np.array([1.0, 0.0, 1.0, 0.0, 0.0]), repeats=2)
    assert found["pass@1"]["n"] == 3
    assert found["pass@2"]["n"] == 2
    assert found["pass@2"]["value"] == 0.5


def test_rows_in_any_order_give_the_same_scores() -> None:
    rng = np.random.default_rng(1)
    problem = np.repeat(np.arange(50), 3)
    reward = rng.integers(0, 2, 150).astype(float)
    shuffled = rng.permutation(150)
    assert headline_scores(problem, reward, repeats=3) == headline_scores(
        problem[shuffled], reward[shuffled], repeats=3
    )


def test_clusters_widen_the_interval() -> None:
    rng = np.random.default_rng(2)
    passage = np.repeat(np.arange(30), 10)
    reward = (rng.random(30) < 0.5).astype(float)[passage]
    alone = headline_scores(np.arange(300), reward, repeats=1)["pass@1"]
    grouped = headline_scores(np.arange(300), reward, repeats=1, clusters=passage)["pass@1"]
    assert grouped["ci_upper"] - grouped["ci_lower"] > 2.5 * (alone["ci_upper"] - alone["ci_lower"])


def test_no_rows_no_scores() -> None:
    assert headline_scores(np.empty(0, int), np.empty(0), repeats=1) == {}
    assert summary_scores(np.empty(0)) == {
        "mean": None,
        "std": None,
        "min": None,
        "max": None,
        "median": None,
        "n": 0,
    }


def test_summary_is_over_rows() -> None:
    assert summary_scores(np.array([0.0, 1.0, 1.0, 1.0])) == pytest.approx(
        {"mean": 0.75, "std": 0.5, "min": 0.0, "max": 1.0, "median": 1.0, "n": 4}
    )


def test_categories_and_breakdowns_count_problems_not_repeats() -> None:
    problem = np.repeat(np.arange(20), 2)
    reward = np.repeat((np.arange(20) % 4 > 0).astype(float), 2)
    codes = problem % 2
    found = category_scores(codes, ["even", "odd"], problem, reward)
    assert found["odd"]["mean_reward"] == 1.0
    assert found["even"]["mean_reward"] == 0.5
    assert found["even"]["n"] == 20
    assert found["even"]["ci_upper"] - found["even"]["ci_lower"] > 0.5
    table = breakdowns({"parity": (codes, ["even", "odd"])}, problem, reward)["parity"]
    assert [(row["group"], row["mean_reward"]) for row in table] == [("even", 0.5), ("odd", 1.0)]


def test_groups_of_single_answers_agree_with_the_long_way() -> None:
    rng = np.random.default_rng(4)
    codes, reward = rng.integers(0, 7, 200), rng.integers(0, 2, 200).astype(float)
    found = category_scores(codes, list("abcdefg"), np.arange(200), reward)
    for code, name in enumerate("abcdefg"):
        alone = headline_scores(np.arange((codes == code).sum()), reward[codes == code], repeats=1)[
            "pass@1"
        ]
        assert {key: found[name][key] for key in ("ci_lower", "ci_upper", "n")} == {
            key: alone[key] for key in ("ci_lower", "ci_upper", "n")
        }
        assert found[name]["mean_reward"] == alone["value"]


@pytest.mark.serial
def test_a_category_for_every_row_is_no_burden() -> None:
    start = time.process_time()
    found = category_scores(
        np.arange(50_000), [str(i) for i in range(50_000)], np.arange(50_000), np.ones(50_000)
    )
    assert len(found) == 50_000
    assert time.process_time() - start < 1.0


def test_forms_kept_for_rows_held_as_dicts() -> None:
    rows = [
        {"problem_idx": 0, "reward": 1.0, "metadata": {"category": "a"}},
        {"problem_idx": 1, "reward": 0.0, "metadata": {}},
        {"problem_idx": 2, "reward": None, "metadata": {"category": "a"}},
    ]
    found = category_breakdown(rows)
    assert {name: (entry["mean_reward"], entry["n"]) for name, entry in found.items()} == {
        "a": (1.0, 1),
        "unknown": (0.0, 1),
    }
    assert headline_score_metrics({0: [1.0, 0.0], 1: [1.0, 1.0]}, 2)["pass@1"]["value"] == 0.75
    assert sample_level_ci([[1.0, 0.0], [1.0, 1.0]]).value == 0.75
    assert scorer_score(np.arange(3), np.array([1.0, 0.0, 0.5]))["correct"] == 2


@pytest.mark.serial
def test_half_a_million_rows_take_well_under_a_second() -> None:
    rng = np.random.default_rng(3)
    problem = np.repeat(np.arange(125_000), 4)
    reward = rng.integers(0, 2, 500_000).astype(float)
    headline_scores(problem[:8], reward[:8], repeats=4)
    start = time.process_time()
    headline_scores(problem, reward, repeats=4)
    assert time.process_time() - start < 0.9


def test_one_repeat_does_not_import_scipy() -> None:
    code = (
        "import sys, numpy as np; from nemo_evaluator.statistics import *;"
        "r = np.array([1.0] * 8 + [0.0]); headline_scores(np.arange(9), r, repeats=1);"
        "category_scores(np.zeros(9, int), ['a'], np.arange(9), r); summary_scores(r);"
        "sys.exit('scipy' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
