"""The plan as people read it."""

import json
from dataclasses import replace
from pathlib import Path

from nemo_evaluator.config import parse_eval_config
from nemo_evaluator.suite.dry_run import DryRun, PlannedBenchmark, describe_plan


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
    later = replace(opened, id="later", problems=None, steps=None, solver="container")
    assert not DryRun([opened, later], Path("o")).failed
    plan = DryRun([opened, broken, later], Path("o"))
    data = json.loads(plan.as_json())
    errors = [entry.get("error") for entry in data["benchmarks"]]
    assert errors == [None, "there is no task 'nope'", None]
    assert "error" not in data["benchmarks"][0]
    assert plan.failed
    assert plan.text().splitlines() == [
        "3 benchmarks, results in o",
        "  fine: 1,000 problems x 2 = 2,000 steps, simple on m, concurrency 4",
        "  broken: there is no task 'nope'",
        "  later: problems: known after the run, container on m",
    ]


async def test_a_harness_container_says_its_problems_after_the_run(tmp_path: Path) -> None:
    solver = {"type": "container", "service": "model"}
    config = parse_eval_config(
        {
            "services": {"model": {"type": "api", "url": "http://127.0.0.1:9/v1/chat/completions"}},
            "benchmarks": [
                {"name": "container://registry/garak:1#garak", "solver": solver},
                {"name": "quickstart", "solver": {"type": "simple", "service": "model"}},
            ],
        }
    )
    plan = await describe_plan(config, tmp_path, shard=None)
    assert not plan.failed
    assert [benchmark.problems is None for benchmark in plan.benchmarks] == [True, False]
