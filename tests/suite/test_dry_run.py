"""The plan as people read it."""

from pathlib import Path

from nemo_evaluator.suite.dry_run import DryRun


def test_a_benchmark_that_cannot_be_opened_stands_in_the_plan_with_the_reason() -> None:
    facts = {
        "name": "x",
        "repeats": 2,
        "solver": "simple",
        "model": "m",
        "max_concurrent": 4,
        "task_dir": "o/x",
    }
    opened = facts | {"id": "fine", "problems": 1000, "steps": 2000}
    broken = facts | {
        "id": "broken",
        "problems": None,
        "steps": None,
        "error": "there is no task 'nope'",
    }
    plan = DryRun([opened, broken], Path("o"))
    assert plan.failed
    assert plan.text().splitlines() == [
        "2 benchmarks, results in o",
        "  fine: 1,000 problems x 2 = 2,000 steps, simple on m, concurrency 4",
        "  broken: there is no task 'nope'",
    ]
