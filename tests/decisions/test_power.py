"""``nel power``, and comparisons of runs that a rule stopped."""

from __future__ import annotations

import json
import math
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from statsmodels.stats.power import TTestPower

from nemo_evaluator.cli.power import power
from nemo_evaluator.core.errors import NelError
from nemo_evaluator.decisions import compare_runs, gate_runs
from nemo_evaluator.statistics import mean_difference
from nemo_evaluator.statistics.evidence import Flips


def run(*arguments: object) -> Any:
    return CliRunner().invoke(power, [str(argument) for argument in arguments])


def plans(*arguments: object) -> Any:
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def cells(score: float, drop: float, correlation: float) -> list[float]:
    """How often both sides are right, only the baseline, only the candidate, none."""
    other = score - drop
    both = min(
        score * other + correlation * math.sqrt(score * (1 - score) * other * (1 - other)), other
    )
    return [both, score - both, other - both, 1 - score - other + both]


def share_beyond(
    bound: float, n: int, odds: list[float], rng: np.random.Generator, level: float
) -> float:
    """In which share of simulated comparisons of ``n`` problems the interval of ``nel compare`` excludes ``bound``."""
    _, lost, won, _ = rng.multinomial(n, np.clip(odds, 0, 1), size=10_000).T
    pairs, counts = np.unique(np.stack([lost, won]), axis=1, return_counts=True)
    sure = [
        abs(Flips(pair[0], pair[1], n).at(bound)) > NormalDist().inv_cdf(level)
        for pair in pairs.T.tolist()
    ]
    return float(counts[sure].sum()) / 10_000


def test_the_simulated_evidence_is_the_one_of_compare() -> None:
    found = mean_difference(np.repeat([-1.0, 1.0, 0.0], [30, 12, 58]), bounded=True).interval(0.95)
    assert (found.lower, found.upper) == pytest.approx(
        Flips(30, 12, 100).bounds(NormalDist().inv_cdf(0.975))
    )


@pytest.mark.parametrize("confidence", [0.9, 0.95])
@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.9])
@pytest.mark.parametrize(
    ("score", "drop"),
    [(0.2, 0.05), (0.5, 0.1), (0.7, 0.1), (0.9, 0.05), (0.95, 0.05), (0.99, 0.02)],
)
def test_the_planned_number_keeps_its_promise(
    score: float, drop: float, correlation: float, confidence: float
) -> None:
    (plan,) = plans(
        "--score", score, "--drop", drop, "--correlation", correlation, "--confidence", confidence
    )
    (line,) = plan["lines"]
    rng, level = np.random.default_rng(5), 0.5 + confidence / 2
    odds = cells(score, drop, correlation)
    found = share_beyond(0.0, line["problems"], odds, rng, level)
    cleared = share_beyond(
        -drop, line["problems_to_rule_out"], cells(score, 0.0, correlation), rng, level
    )
    # Where a handful of flips decides, one more is a big step, and the plan cannot be closer.
    few = line["problems"] * (odds[1] + odds[2]) < 40
    assert (0.74 if few else 0.785) < found < (1.0 if few else 0.83)
    assert (0.74 if few else 0.785) < cleared <= (1.0 if few else 0.83)


def test_far_from_the_ends_it_is_the_textbook_number() -> None:
    (plan,) = plans("--score", 0.51, "--drop", 0.02, "--correlation", 0.5, "--usd-per-answer", 0.01)
    sd = math.sqrt(2 * 0.25 * 0.5)
    expected = TTestPower().solve_power(0.02 / sd, alpha=0.025, power=0.8, alternative="larger")
    (line,) = plan["lines"]
    assert line["problems"] == pytest.approx(expected, rel=0.005)
    assert line["answers"] == max(line["problems"], line["problems_to_rule_out"])
    assert line["usd"] == pytest.approx(line["answers"] * 0.01)


def test_a_suite_needs_more_and_is_added_up(write_run: Any, tmp_path: Path) -> None:
    (plan,) = plans("--score", 0.7, "--drop", 0.05, "--benchmarks", 20)
    (line,) = plan["lines"]
    assert line["problems_in_suite"] > 2 * line["problems"]
    assert line["answers"] == line["problems_in_suite"]
    # The level of a breach is divided among the benchmarks, and all of them have to be found.
    (alike,) = plans(
        "--score", 0.7, "--drop", 0.05, "--confidence", 1 - 0.05 / 20, "--power", 0.8 ** (1 / 20)
    )
    assert line["problems_in_suite"] == alike["lines"][0]["problems"]
    text = run("--score", 0.7, "--drop", 0.05, "--benchmarks", 20, "--usd-per-answer", 0.01).stdout
    assert f"all 20 benchmarks, one side, each as above: {20 * line['answers']:,} answers, " in text
    for name in ("one", "two"):
        write_run(f"suite/{name}", [1.0, 0.0] * 50, name=name)
    several = plans(tmp_path / "suite", "--drop", 0.05)
    assert [plan["question"]["benchmarks"] for plan in several] == [2, 2]
    answers = sum(plan["lines"][0]["answers"] for plan in several)
    text = run(tmp_path / "suite", "--drop", 0.05).stdout
    assert (
        f"all 2 benchmarks, one side, each with the fewest answers: {answers:,} answers, " in text
    )


def test_two_runs_of_one_benchmark_are_two_plans_and_no_suite(
    write_run: Any, tmp_path: Path
) -> None:
    write_run("hot/toy", [1.0, 0.0] * 50)
    write_run("cold/toy", [1.0, 1.0, 0.0] * 40)
    found = plans(tmp_path, "--drop", 0.05)
    assert [Path(plan["benchmark"].split(" (")[1].rstrip(")")).parent.name for plan in found] == [
        "cold",
        "hot",
    ]
    assert [plan["question"]["benchmarks"] for plan in found] == [1, 1]


def test_from_a_run_with_repeats_noise_shrinks(write_run: Any) -> None:
    rng = np.random.default_rng(0)
    rewards = (rng.random((200, 4)) < rng.beta(2, 2, (200, 1))).astype(float)
    base = write_run("a", [list(row) for row in rewards])
    (plan,) = plans(base, "--drop", 0.05)
    needed = [line["problems"] for line in plan["lines"]]
    assert needed == sorted(needed, reverse=True)
    assert [line["repeats"] for line in plan["lines"]] == [1, 2, 4, 8]
    assert plan["problems_now"] == 200
    assert plan["lines"][0]["tokens"] == pytest.approx(plan["lines"][0]["answers"] * 30)
    for line in plan["lines"]:
        assert line["answers"] == line["repeats"] * max(
            line["problems"], line["problems_to_rule_out"]
        )
    (alike,) = plans(base, "--drop", 0.05, "--correlation", 0.9)
    assert alike["lines"][-1]["problems"] < 0.75 * needed[-1]
    (asked,) = plans(base, "--drop", 0.05, "--repeats", 3, "--repeats", 2)
    assert [line["repeats"] for line in asked["lines"]] == [2, 3]


def test_a_plan_from_repeats_keeps_its_promise(write_run: Any) -> None:
    rng, drop = np.random.default_rng(11), 0.05

    def sides(n: int, loss: float) -> Any:
        """True rates of n problems: half of them as the baseline has them, the others drawn anew, all scaled down."""
        base = rng.beta(9, 1, n)
        return base, np.where(rng.random(n) < 0.5, base, rng.beta(9, 1, n)) * (1 - loss / 0.9)

    rewards = (rng.random((4000, 4)) < rng.beta(9, 1, (4000, 1))).astype(float)
    (plan,) = plans(write_run("a", rewards), "--drop", drop, "--correlation", 0.5, "--repeats", 2)
    (line,) = plan["lines"]
    found = cleared = 0
    for _ in range(600):
        base, other = sides(line["problems"], drop)
        values = rng.binomial(2, other) / 2 - rng.binomial(2, base) / 2
        found += (mean_difference(values, bounded=True).interval().upper or 0.0) < 0
        base, other = sides(line["problems_to_rule_out"], 0.0)
        values = rng.binomial(2, other) / 2 - rng.binomial(2, base) / 2
        cleared += (mean_difference(values, bounded=True).interval().lower or -1.0) > -drop
    assert 0.76 < found / 600 < 0.88
    assert 0.76 < cleared / 600 < 0.88


def test_two_runs_replace_the_assumption(write_run: Any) -> None:
    rng = np.random.default_rng(1)
    base = rng.integers(0, 2, 400).astype(float)
    other = np.where(rng.random(400) < 0.1, 1 - base, base)
    one, two = write_run("a", base), write_run("b", other)
    (assumed,), (known,) = plans(one, "--drop", 0.05), plans(one, two, "--drop", 0.05)
    assert known["sd"] == pytest.approx(float((other - base).std(ddof=1)), rel=0.01)
    assert known["lines"][0]["problems"] < assumed["lines"][0]["problems"]
    assert "two runs" in known["basis"]


@pytest.mark.parametrize("rewards", [[1.0] * 100, [[1.0, 1.0]] * 100])
def test_a_run_without_a_mistake_still_needs_problems(write_run: Any, rewards: Any) -> None:
    one, two = write_run("a", rewards), write_run("b", rewards)
    for arguments in ((one,), (one, two)):
        (plan,) = plans(*arguments, "--drop", 0.05)
        # Six flips of one sign are the fewest that an interval takes for a drop.
        assert plan["lines"][0]["problems"] > 6 / 0.05
        assert plan["detectable_now"] > 0.06


def test_graded_rewards_are_planned_with_the_t_test(write_run: Any) -> None:
    rng = np.random.default_rng(2)
    base = 50 + 10 * rng.random(300)
    other = base + rng.normal(0, 3, 300)
    (plan,) = plans(write_run("a", base), write_run("b", other), "--drop", 2)
    sd = float((other - base).std(ddof=1))
    expected = math.ceil(
        TTestPower().solve_power(2 / sd, alpha=0.025, power=0.8, alternative="larger")
    )
    assert (plan["lines"][0]["problems"], plan["lines"][0]["problems_to_rule_out"]) == (
        expected,
        expected,
    )
    (flat,) = plans(write_run("c", base), write_run("d", base + 1), "--drop", 2)
    assert flat["lines"][0]["problems"] is None
    assert "nothing can be planned" in flat["notes"][0]


def test_what_a_run_cost_is_what_the_next_one_will(write_run: Any, make_rows: Any) -> None:
    folder = write_run("a", rows=make_rows([1.0, 0.0] * 50, cost_usd=0.25))
    path = next(folder.glob("eval-*.json"))
    document = json.loads(path.read_text())
    document["benchmark"]["scores"]["runtime"] |= {"elapsed_seconds": 360.0, "total_steps": 100}
    path.write_text(json.dumps(document))
    (line,) = plans(folder, "--drop", 0.05)[0]["lines"]
    assert line["usd"] == pytest.approx(0.25 * line["answers"])
    assert line["hours"] == pytest.approx(line["answers"] / 1000)
    (told,) = plans(folder, "--drop", 0.05, "--usd-per-answer", 0.5)[0]["lines"]
    assert told["usd"] == pytest.approx(0.5 * line["answers"])


def test_the_text_says_what_is_doubtful(write_run: Any) -> None:
    text = run(write_run("a", [1.0, 0.0] * 50), "--drop", 0.05, "--repeats", 4).stdout
    assert "the 100 problems there are find a drop of 0.1" in text
    assert "note: repeats are not planned" in text
    text = run(write_run("b", [None, None, 1.0, 0.0, 0.0]), "--drop", 0.5).stdout
    assert "is INVALID: coverage" in text
    assert "only 3 problems to judge the spread by" in text
    assert "a score of 0.3333 cannot drop by 0.5" in text


@pytest.mark.parametrize("rewards", [[0.0] * 40, [1.0] + [0.0] * 199])
def test_a_score_near_0_shows_no_drop_that_it_cannot_have(
    write_run: Any, rewards: list[float]
) -> None:
    text = run(write_run("a", rewards), "--drop", 0.05).stdout
    assert f"the {len(rewards)} problems there are find no drop with that chance" in text
    assert f"a score of {np.mean(rewards):.4f} cannot drop by 0.05" in text


@pytest.mark.parametrize(
    ("arguments", "said", "fix"),
    [
        (["--drop", 0.05], "nothing to plan from", "--score"),
        (["EMPTY", "--drop", 0.05], "no bundle", "output directory"),
        (
            ["RUN", "--drop", 0.05, "--score", 0.5],
            "--score has no effect: nel measures it in the run",
            "leave --score out",
        ),
        (
            ["RUN", "--drop", 0.05, "--problems", 50],
            "--problems has no effect: nel measures it in the run",
            "leave --problems out",
        ),
        (
            ["RUN", "RUN", "--drop", 0.05, "--correlation", 0.5],
            "--correlation has no effect: nel measures it in the two runs",
            "leave",
        ),
        (["--score", 0.04, "--drop", 0.05], "cannot drop by 0.05", "below --score"),
        (
            ["--score", 0.4, "--drop", 0.05, "--repeats", 2],
            "a single score does not show",
            "run with repeats",
        ),
        (["FAILED", "--drop", 0.05], "no row", "nel check"),
        (["RUN", "OTHER", "--drop", 0.05], "0 problems in both runs", "same problems"),
        (
            ["SUITE", "PAIR", "--drop", 0.05],
            "no benchmark is in both: one, two against four, three",
            "one benchmark",
        ),
    ],
)
def test_wrong_input_is_an_error_that_says_the_fix(
    arguments: list[Any], said: str, fix: str, write_run: Any, make_rows: Any, tmp_path: Path
) -> None:
    (tmp_path / "EMPTY").mkdir()
    write_run("RUN", [1.0, 0.0] * 20)
    write_run("FAILED", [None] * 20)
    write_run("OTHER", rows=make_rows([1.0, 0.0], problem_hash="ab" * 16))
    for folder, name in (("SUITE", "one"), ("SUITE", "two"), ("PAIR", "three"), ("PAIR", "four")):
        write_run(f"{folder}/{name}", [1.0, 0.0] * 20, name=name)
    result = run(*(tmp_path / word if str(word).isupper() else word for word in arguments))
    assert isinstance(result.exception, NelError)
    assert said in result.exception.message
    assert fix in str(result.exception.hint)


def test_a_run_that_a_rule_stopped_gets_the_interval_for_it(write_run: Any, tmp_path: Path) -> None:
    base = [1.0] * 300 + [0.0] * 200
    one = write_run("a/toy", base)
    two = write_run("b/toy", base, stopped={"kind": "rule", "reason": "decided"})
    report = compare_runs(one, two)
    assert report.difference.method == "betting"
    assert any("allows for its looks" in warning for warning in report.warnings)
    assert gate_runs(tmp_path / "a", tmp_path / "b").benchmarks[0].ci_method == "betting"
