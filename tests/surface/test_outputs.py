"""Files of a run as users of the documented formats read them, and what a run says of its own choices."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from nel_support import Nel, api, bench

from nemo_evaluator.config import parse_eval_config
from nemo_evaluator.core.errors import ConfigError
from nemo_evaluator.testing import ScriptedServer

REPORT_KEYS = {
    "trajectories": """problems repeats mean_reward reported_mean failures_by_category failure_examples timeout_examples
        problems_with_empty_final_response no_agent_step_examples quality field_coverage""",
    "tokens_stats": """per_step_sum wire_total wire_total_for_trajectory_comparison wire_total_all_sessions
        wire_total_earlier_retry_sessions final_metrics_total problems_with_missing_final_metrics_tokens
        problems_with_per_step_vs_final_metrics_mismatch problems_with_wire_vs_final_metrics_mismatch
        all_sources_match""",
    "wire_calls": """total successful non_200 total_for_trajectory_comparison total_all_sessions non_200_by_status
        non_200_examples non_success_examples last_non_success_examples unique problems_with_duplicates
        selected_session_policy retry_examples""",
    "enrichment": """trials_spliced_1_to_1 trials_with_unmatched_calls_stashed trials_with_no_wire_data steps_backfilled
        rows_reclassified_from_wire_failure quality per_step_sum_after_enrichment
        step_field_coverage_after_enrichment_missing""",
}


@pytest.fixture
def nel(tmp_path: Path) -> Nel:
    return Nel(tmp_path)


def rows_of(task: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (task / "results.jsonl").read_text().splitlines()]


def test_enrich_alone_full_rows_and_reports(nel: Nel, tmp_path: Path) -> None:
    output = {
        "dir": "out",
        "rows": "full",
        "trajectories": {"enrich": True},
        "report": ["json", "csv"],
    }
    with ScriptedServer("ok") as server:
        entry = bench(
            "quickstart",
            max_problems=3,
            scoring={"metrics": [{"type": "scorer", "name": "exact_match"}]},
        )
        config = nel.config(
            "run.yaml", services={"model": api(server.url)}, benchmarks=[entry], output=output
        )
        said = nel("eval", "run", config)
    text = said.stdout + said.stderr
    assert "quickstart: 3 of 60 problems, drawn at random (shuffle_seed 42)" in text
    assert "reward comes from the benchmark's scorer; also reported: scorer:exact_match" in text
    task = tmp_path / "out" / "quickstart"
    assert len((task / "trajectories_enriched.jsonl").read_text().splitlines()) == 3
    (entry,) = json.loads((tmp_path / "out" / "trajectories_report.json").read_text())["benchmarks"]
    for part, keys in REPORT_KEYS.items():
        assert set(keys.split()) <= entry[part].keys(), part
    row = rows_of(task)[0]
    assert [step["source"] for step in row["trajectory"][0]["steps"]] == ["user", "agent"]
    assert row["metadata"]["question"]
    (bundle,) = (json.loads(path.read_text()) for path in task.glob("eval-*.json"))
    assert bundle["config"]["shuffle"]["selection"].startswith("3 of 60")
    assert bundle["config"]["reward_from"] == "benchmark"
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert report["by_name"]["quickstart"]["score"] == report["benchmarks"][0]["score"]
    lines = list(csv.DictReader((tmp_path / "out" / "report.csv").read_text().splitlines()))
    assert [line["benchmark"] for line in lines if line["headline"] == "true"] == ["quickstart"]


def test_lean_rows_and_the_first_problems(nel: Nel, tmp_path: Path) -> None:
    with ScriptedServer("ok") as server:
        entry = bench("quickstart", max_problems=3, shuffle_seed=None)
        scoring = {
            "include_defaults": False,
            "metrics": [{"type": "scorer", "name": "exact_match"}],
        }
        other = bench("quickstart", id="other", scoring=scoring)
        config = nel.config(
            "run.yaml",
            services={"model": api(server.url)},
            benchmarks=[entry, other],
            output={"dir": "out"},
        )
        said = nel("eval", "run", config)
    text = said.stdout + said.stderr
    assert "quickstart: the first 3 of 60 problems" in text
    assert "beside it" not in text
    row = rows_of(tmp_path / "out" / "quickstart")[0]
    assert "trajectory" not in row and "question" not in row["metadata"]
    (bundle,) = (
        json.loads(path.read_text()) for path in (tmp_path / "out" / "other").glob("eval-*.json")
    )
    assert bundle["config"]["reward_from"] == "exact_match"
    assert "selection" not in bundle["config"]["shuffle"]
    assert not (tmp_path / "out" / "trajectories_report.json").exists()


def test_enrich_without_traffic_is_refused() -> None:
    data: dict[str, Any] = {
        "services": {},
        "benchmarks": [{"name": "gsm8k", "solver": {"type": "oracle"}}],
    }
    output: dict[str, Any] = {"traffic": "none", "trajectories": {"enrich": True}}
    with pytest.raises(ConfigError, match="needs the traffic"):
        parse_eval_config(data | {"output": output})
    config = parse_eval_config(data | {"output": {"trajectories": {"enrich": True}}})
    assert config.output.traffic == "bodies"
    assert parse_eval_config(config.model_dump()).output.traffic == "bodies"
    assert parse_eval_config(data).output.traffic == "none"
