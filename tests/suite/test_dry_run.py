"""The plan as people read it."""

import json
from dataclasses import replace
from pathlib import Path

from nemo_evaluator.suite.dry_run import DryRun, PlannedBenchmark


def test_a_benchmark_that_cannot_be_opened_stands_in_the_plan_with_the_reason() -> None:
    opened = PlannedBenchmark(
        id="fine",
        name="x",
        repeats=2,
        solver="simple",
        model="m",
        max_concurrent=4,
        task_dir="o/x",
        problems=1000,
        steps=2000,
    )
    broken = replace(
        opened, id="broken", problems=None, steps=None, error="there is no task 'nope'"
    )
    plan = DryRun([opened, broken], Path("o"))
    data = json.loads(plan.as_json())
    assert [entry.get("error") for entry in data["benchmarks"]] == [None, "there is no task 'nope'"]
    assert "error" not in data["benchmarks"][0]
    assert plan.failed
    assert plan.text().splitlines() == [
        "2 benchmarks, results in o",
        "  fine: 1,000 problems x 2 = 2,000 steps, simple on m, concurrency 4",
        "  broken: there is no task 'nope'",
    ]
