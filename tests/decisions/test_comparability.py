"""Whether two runs asked the same thing in the same way: every setting that differs is named, none is made up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nemo_evaluator.decisions import Run, compare_results, compare_runs
from nemo_evaluator.decisions.compare.comparability import differences, unstated

GOOD = [1.0] * 200


def run(**config: Any) -> Run:
    return Run(
        Path("eval-x.json"), {"sdk_version": "1", "config": config, "benchmark": {"name": "toy"}}
    )


def said(left: dict[str, Any], right: dict[str, Any]) -> list[str]:
    return [str(one) for one in differences(run(**left), run(**right))]


@pytest.mark.parametrize(
    ("left", "right", "line"),
    [
        ({"repeats": 1}, {"repeats": 4}, "size differs: repeats is 1 and 4"),
        (
            {"generation": {}},
            {"generation": {"n": 0}},
            "generation differs: generation.n is None and 0",
        ),
        (
            {"generation": {"seed": 1}},
            {"generation": {"seed": 2}},
            "generation differs: generation.seed is 1 and 2",
        ),
        ({"fewshot": 0}, {"fewshot": 5}, "prompt differs: fewshot is 0 and 5"),
        (
            {"params": {"split": "a"}},
            {"params": {"split": "b"}},
            "dataset differs: params.split is 'a' and 'b'",
        ),
        (
            {"params": {"judge": {"model": "a"}}},
            {"params": {"judge": {"model": "b"}}},
            "dataset differs: params.judge.model is 'a' and 'b'",
        ),
        (
            {"solver": {"type": "simple", "system_prompt": None}},
            {"solver": {"type": "simple", "system_prompt": "Think."}},
            "prompt differs: solver.system_prompt is None and 'Think.'",
        ),
        (
            {"solver": {"generation": {"top_p": 1}}},
            {"solver": {"generation": {"top_p": 0.9}}},
            "generation differs: solver.generation.top_p is 1 and 0.9",
        ),
        ({"scorers": ["a"]}, {"scorers": ["b"]}, "scorer differs: scorers is ['a'] and ['b']"),
        ({"timeout": 1}, {"timeout": 2}, "setting differs: timeout is 1 and 2"),
        ({}, {"shard": {"idx": 0, "total": 4}}, "size differs: shard is None and '0 of 4'"),
        (
            {"shuffle": {"ds_full_size": 10}},
            {"shuffle": {"ds_full_size": 12}},
            "dataset differs: number of problems is 10 and 12",
        ),
        (
            {"fingerprints": {"scorer": "0123456789"}},
            {"fingerprints": {"scorer": "9876543210"}},
            "scorer differs: scorer fingerprint is '01234567' and '98765432'",
        ),
        (
            {"solver": {"system_prompt": "x"}, "fingerprints": {"solver": "x"}},
            {"solver": {"system_prompt": "y"}, "fingerprints": {"solver": "y"}},
            "prompt differs: solver.system_prompt is 'x' and 'y'",
        ),
    ],
)
def test_a_difference_is_named(left: dict[str, Any], right: dict[str, Any], line: str) -> None:
    assert said(left, right) == [line]


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (
            {"model": "a", "base_url": "http://a", "service": "a"},
            {"model": "b", "base_url": "http://b", "service": "b"},
        ),
        ({"solver": {"service": "a"}}, {"solver": {"service": "b"}}),
        ({"params": None}, {"params": {}}),
        ({"solver": {"type": "simple"}, "generation": {"temperature": 0}}, {}),
        (
            {"resumed": {"reused": 4}, "_sandbox_config": "x"},
            {"resumed": {"reused": 0}, "_sandbox_config": "y"},
        ),
        ({"fingerprints": {"service": "x"}}, {"fingerprints": {"service": "y", "scorer": "z"}}),
    ],
)
def test_what_may_differ_or_is_not_known_is_no_difference(
    left: dict[str, Any], right: dict[str, Any]
) -> None:
    assert said(left, right) == []


def test_settings_that_one_side_does_not_state_are_named() -> None:
    found = unstated(run(generation={}, solver={}), run(solver={}))
    assert found == [
        "whether generation are the same is not known: only one of the bundles states them"
    ]
    assert unstated(run(), run()) == []


def test_other_expected_answers_are_other_data(make_rows: Any) -> None:
    relabelled = make_rows(GOOD)
    relabelled[7]["expected_answer"] = "2.0"
    report = compare_results(make_rows(GOOD), relabelled)
    assert (
        "dataset differs: expected answers are not the same on 1 of 200 paired problems"
        in report.warnings
    )


def test_rows_without_prompts_are_not_asked_differently(make_rows: Any) -> None:
    report = compare_results(make_rows(GOOD), make_rows(GOOD, prompt=None, expected_answer=None))
    assert report.warnings == []


def test_a_run_that_was_ended_says_why(write_run: Any) -> None:
    budget = {"kind": "budget", "reason": "0.10 USD are spent"}
    report = compare_runs(write_run("a", GOOD), write_run("b", GOOD, stopped=budget))
    assert "the candidate did not run to its end: 0.10 USD are spent" in report.warnings


def test_an_unusual_gain_is_looked_at_twice(make_rows: Any) -> None:
    report = compare_results(make_rows([0.0] * 100 + [1.0] * 100), make_rows(GOOD))
    assert report.verdict == "PASS"
    assert report.warnings[-1].startswith("the candidate is better by an unusual amount")
    back = compare_results(make_rows(GOOD), make_rows([0.0] * 100 + [1.0] * 100))
    assert not any("unusual" in warning for warning in back.warnings)


def test_what_is_unusual_depends_on_the_scale(make_rows: Any) -> None:
    grades = np.random.default_rng(0).uniform(0, 100, 200)
    report = compare_results(make_rows(grades), make_rows(np.minimum(grades + 1, 100)))
    assert report.relation == "superior"
    assert report.warnings == []
