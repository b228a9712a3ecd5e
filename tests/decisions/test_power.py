"""``nel power``, and comparisons of runs that a rule stopped."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from statsmodels.stats.power import TTestPower

from nemo_evaluator.cli.power import power
from nemo_evaluator.core.errors import NelError
from nemo_evaluator.decisions import compare_runs, gate_runs


def run(*arguments: object) -> Any:
    return CliRunner().invoke(power, [str(argument) for argument in arguments])


def plans(*arguments: object) -> Any:
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_from_a_score_it_is_the_textbook_number() -> None:
    (plan,) = plans("--score", 0.7, "--drop", 0.05, "--correlation", 0.5, "--usd-per-answer", 0.01)
    sd = math.sqrt(2 * 0.7 * 0.3 * 0.5)
    expected = TTestPower().solve_power(0.05 / sd, alpha=0.025, power=0.8, alternative="larger")
    (line,) = plan["lines"]
    assert line["problems"] == math.ceil(expected)
    assert line["usd"] == pytest.approx(line["problems"] * 0.01)


def test_a_suite_needs_more() -> None:
    (plan,) = plans("--score", 0.7, "--drop", 0.05, "--benchmarks", 20)
    (line,) = plan["lines"]
    assert line["problems_in_suite"] > 2 * line["problems"]
    assert line["answers"] == line["problems_in_suite"]


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


def test_two_runs_replace_the_assumption(write_run: Any) -> None:
    rng = np.random.default_rng(1)
    base = rng.integers(0, 2, 400).astype(float)
    other = np.where(rng.random(400) < 0.1, 1 - base, base)
    one, two = write_run("a", base), write_run("b", other)
    (assumed,), (known,) = plans(one, "--drop", 0.05), plans(one, two, "--drop", 0.05)
    assert known["sd"] == pytest.approx(float((other - base).std(ddof=1)))
    assert known["lines"][0]["problems"] < assumed["lines"][0]["problems"]
    assert "two runs" in known["basis"]


def test_text_and_errors(write_run: Any, tmp_path: Path) -> None:
    text = run(write_run("a", [1.0, 0.0] * 50), "--drop", 0.05).stdout
    assert "the 100 problems there are find a drop of" in text
    assert isinstance(run("--drop", 0.05).exception, NelError)
    (tmp_path / "empty").mkdir()
    assert isinstance(run(tmp_path / "empty", "--drop", 0.05).exception, NelError)


def test_a_run_that_a_rule_stopped_gets_the_interval_for_it(write_run: Any, tmp_path: Path) -> None:
    base = [1.0] * 300 + [0.0] * 200
    one = write_run("a/toy", base)
    two = write_run("b/toy", base, stopped={"kind": "rule", "reason": "decided"})
    report = compare_runs(one, two)
    assert report.difference.method == "betting"
    assert any("allows for its looks" in warning for warning in report.warnings)
    assert gate_runs(tmp_path / "a", tmp_path / "b").benchmarks[0].ci_method == "betting"
