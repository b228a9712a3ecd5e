"""Bundles become the report model; what is not in them stays unknown."""

from __future__ import annotations

from typing import Any

import pytest

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.reports import load_report


def test_every_fact_of_a_bundle_arrives(write_task: Any, bundle_of: Any, row_of: Any) -> None:
    path = write_task(bundle_of(), [row_of(0), row_of(1)])
    (bench,) = load_report(path.parents[1]).benchmarks
    assert (bench.name, bench.model, bench.samples, bench.repeats) == ("gsm8k", "m-1", 12, 2)
    assert bench.headline is not None
    assert (bench.headline.name, bench.headline.ci_lower, bench.headline.n) == ("pass@1", 0.0, 12)
    assert [score.name for score in bench.scorers] == ["scorer:strict"]
    assert [score.name for score in bench.others] == ["pass@2"]
    assert (bench.coverage.scored, bench.coverage.planned) == (22, 24)
    assert (bench.failures[0].cause, bench.failures[0].count, bench.failures[0].examples) == (
        "transport",
        2,
        ("connection reset",),
    )
    assert bench.runtime.p99_ms == 900.0
    assert bench.breakdowns["level"][0].name == "hard"
    assert bench.details is None


def test_an_old_bundle_makes_up_nothing(write_task: Any) -> None:
    old = {
        "config": {"model": "m"},
        "benchmark": {
            "name": "toy",
            "samples": 12,
            "scores": {
                "pass@1": {
                    "value": 0.6667,
                    "ci_lower": 0.6667,
                    "ci_upper": 0.6667,
                    "bootstrap_ci_lower": 0.4167,
                    "bootstrap_ci_upper": 0.9167,
                }
            },
        },
    }
    (bench,) = load_report(write_task(old)).benchmarks
    assert bench.status == "UNCHECKED"
    assert (bench.coverage.share, bench.truncated_share, bench.runtime.p50_ms) == (None, None, None)
    # The zero-width interval of older bundles covers repeats only; the one over problems is shown.
    assert bench.headline is not None
    assert (bench.headline.ci_lower, bench.headline.ci_upper) == (0.4167, 0.9167)


@pytest.mark.parametrize(
    ("scores", "chosen"),
    [
        ({"pass@1": {"value": 1.0}, "mean_reward": {"value": 0.5}}, "mean_reward"),
        ({"gen_seconds": {"value": 3.0}, "acc": {"value": 0.5}}, "acc"),
        (
            {
                "run/latency": {"value": 3.0},
                "math.num_tokens": {"value": 3},
                "math.acc": {"value": 0.5},
            },
            "math.acc",
        ),
        ({"scorer:a": {"value": 0.1}}, "scorer:a"),
        ({"acc": {"value": float("nan")}}, None),
        ({}, None),
    ],
)
def test_the_headline_is_never_a_timing(
    write_task: Any, bundle_of: Any, scores: Any, chosen: str | None
) -> None:
    (bench,) = load_report(write_task(bundle_of(bench={"scores": scores}))).benchmarks
    assert (bench.headline.name if bench.headline else None) == chosen


def test_two_models_of_one_benchmark_are_two_lines(write_task: Any, bundle_of: Any) -> None:
    first = write_task(bundle_of(model="a"), folder="run-a/gsm8k")
    write_task(bundle_of(model="b"), folder="run-b/gsm8k")
    report = load_report(first.parents[2])
    assert report.models == ("a", "b")
    assert report.title == "Evaluation Report"


def test_a_run_that_failed_is_invalid_and_says_why(write_task: Any, bundle_of: Any) -> None:
    coverage = {"planned": 10, "scored": 5}
    failed = bundle_of(validity={}, error="the dataset is gone", bench={"coverage": coverage})
    (bench,) = load_report(write_task(failed)).benchmarks
    assert (bench.status, bench.reasons, bench.coverage.share) == (
        "INVALID",
        ("the dataset is gone",),
        0.5,
    )
    both = bundle_of(
        validity={"status": "INVALID", "reasons": ["too little"]}, error="the dataset is gone"
    )
    (bench,) = load_report(write_task(both)).benchmarks
    assert bench.reasons == ("too little", "the dataset is gone")


@pytest.mark.parametrize("text", ["[1, 2]", '{"cut of'])
def test_a_file_that_is_no_bundle_is_an_error_not_a_traceback(tmp_path: Any, text: str) -> None:
    path = tmp_path / "eval-x.json"
    path.write_text(text)
    with pytest.raises(UsageError, match=r"is not (a bundle|JSON)"):
        load_report(path)


def test_rows_give_distributions_and_examples_of_each_kind(
    write_task: Any, bundle_of: Any, row_of: Any
) -> None:
    rows = [row_of(at) for at in range(200)]
    rows[0] |= {
        "status": "failed",
        "reward": None,
        "failure": {"cause": "judge", "message": "no verdict"},
    }
    rows[2] |= {"unparsed": True}
    rows[4] |= {"finish_reason": "length"}
    rows[6] |= {"model_response": "x" * 9000}
    rows[8] |= {"latency_ms": 1e6}
    (bench,) = load_report(write_task(bundle_of(), rows), rows=True).benchmarks
    assert bench.details is not None
    kinds = [example.kind for example in bench.details.examples]
    assert kinds == ["failed", "unparsed", "truncated", *["wrong"] * 4, *["right"] * 4]
    assert bench.details.examples[0].note == "judge: no verdict"
    long = next(example for example in bench.details.examples if example.problem_idx == 6)
    assert len(long.response) < 2100
    assert "7000 characters left out" in long.response
    assert bench.details.outcomes == {
        "failed": 1,
        "unparsed": 1,
        "truncated": 1,
        "wrong": 97,
        "right": 100,
    }
    assert (bench.details.causes, bench.details.binary) == ({"judge": 1}, True)
    histogram = bench.details.latency_ms
    assert histogram is not None
    assert sum(histogram.counts) == 200
    # One outlier has a bin of its own and does not flatten the others.
    assert max(histogram.counts) < 30
