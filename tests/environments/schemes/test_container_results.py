"""The results of a harness container without rows: the harness's own counts and errors, and nothing made of one row."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nemo_evaluator.core.errors import SolverError
from nemo_evaluator.core.types import Scored
from nemo_evaluator.engine.bundle import BundleFacts, build_bundle
from nemo_evaluator.engine.columns import Columns
from nemo_evaluator.environments.schemes._container_results import read_results
from nemo_evaluator.environments.schemes.container import ContainerEnvironment


def write(folder: Path, stats: dict[str, Any], value: float = 78.3, **files: str) -> Path:
    score = {"value": value, "stats": stats}
    tasks = {"mmlu": {"metrics": {"accuracy": {"scores": {"micro": score}}}}}
    (folder / "results.yml").write_text(json.dumps({"results": {"tasks": tasks}}))
    for name, text in files.items():
        (folder / f"{name}.json").write_text(text)
    return folder


def opened(folder: Path) -> ContainerEnvironment:
    environment = ContainerEnvironment("container://image:1#mmlu")
    environment._results = read_results(folder, "the harness in image:1")
    return environment


@pytest.mark.parametrize(
    ("stats", "lower", "upper", "method"),
    [
        ({"count": 400, "stderr": 2.0}, 74.38, 82.22, "reported by the harness"),
        ({"count": 400, "stddev": 40.0}, 74.38, 82.22, "reported by the harness"),
        ({"count": 400}, None, None, "none: the harness reported no standard error"),
    ],
)
def test_count_and_error_are_those_of_the_harness(
    tmp_path: Path, stats: dict[str, Any], lower: float | None, upper: float | None, method: str
) -> None:
    reported = opened(write(tmp_path, stats)).reported_score()
    assert reported == {
        "value": 78.3,
        "ci_lower": lower,
        "ci_upper": upper,
        "ci_method": method,
        "n": 400,
    }


async def test_one_row_stands_for_the_run_and_says_whose_number_it_is(tmp_path: Path) -> None:
    environment = opened(write(tmp_path, {"count": 400}))
    assert await environment.dataset_size() == 1
    assert environment.repeats_of_rows() == 1
    (row,) = read_results(tmp_path, "the harness in image:1").rows
    assert isinstance(row.outcome, Scored)
    assert row.outcome.verdict.reward == 78.3
    assert row.outcome.verdict.scoring_details["scored_by"] == "the harness in image:1"
    assert row.answer.response


def test_the_harness_s_own_measurements_are_kept(tmp_path: Path) -> None:
    metrics = {"response_stats": {"count": 400, "avg_latency_ms": 12.5}, "ok": True}
    environment = opened(
        write(tmp_path, {"count": 400, "stderr": 2.0}, eval_factory_metrics=json.dumps(metrics))
    )
    assert environment.summarize([]) == {
        "mmlu/accuracy/micro": 78.3,
        "mmlu/accuracy/micro.count": 400.0,
        "mmlu/accuracy/micro.stderr": 2.0,
        "eval_factory_metrics.response_stats.count": 400.0,
        "eval_factory_metrics.response_stats.avg_latency_ms": 12.5,
    }
    (tmp_path / "eval_factory_metrics.json").write_text('{"response')
    with pytest.raises(SolverError, match=r"eval_factory_metrics\.json is cut off"):
        opened(tmp_path)


def test_rows_of_the_harness_keep_their_own_statistics(tmp_path: Path) -> None:
    write(tmp_path, {"count": 2}, value=0.5)
    rows = tmp_path / "eval-results" / "mmlu"
    rows.mkdir(parents=True)
    lines = [json.dumps({"problem": "?", "reward": 1, "scored_by": "the model"})] * 2
    (rows / "output.jsonl").write_text("\n".join(lines))
    environment = opened(tmp_path)
    assert environment.reported_score() is None
    for row in environment._known.rows:
        assert isinstance(row.outcome, Scored)
        details = row.outcome.verdict.scoring_details
        assert details["scored_by"] == "the harness in image:1"


def test_a_bundle_derives_nothing_from_the_one_row(tmp_path: Path) -> None:
    from datetime import UTC, datetime

    columns = Columns(planned=1, scored=1, samples=1)
    columns.problem.append(0)
    columns.reward.append(78.3)
    columns.scored_by["the harness in image:1"] = 1
    facts = BundleFacts("mmlu", 1, {}, min_coverage=0.95, elapsed=1.0, finished=datetime.now(UTC))
    facts.reported = opened(write(tmp_path, {"count": 400, "stderr": 2.0})).reported_score()
    benchmark = build_bundle(columns, facts, "run")["benchmark"]
    assert benchmark["scores"]["mean_reward"]["ci_method"] == "reported by the harness"
    assert benchmark["samples"] == 400
    assert "summary" not in benchmark["scores"] and "pass@1" not in benchmark["scores"]
    assert benchmark["notes"] == ["scored by the harness in image:1, not by nel: 1 of 1 rows"]
