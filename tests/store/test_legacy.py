"""Results of harness containers become bundles and rows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from nemo_evaluator.cli.report import eval_report
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.files import iter_jsonl, read_json
from nemo_evaluator.store.legacy import convert_legacy

RESULTS = """
results:
  tasks:
    gsm8k:
      metrics:
        accuracy:
          scores:
            accuracy: {value: 0.75, stats: {count: 4, stderr: 0.1}}
            latency: {value: 12.5}
"""
CONFIG = """
config: {type: simple_evals.gsm8k, params: {extra: {num_repeats: 2}}}
target: {api_endpoint: {model_id: m-1}}
"""


@pytest.fixture
def task(tmp_path: Path) -> Path:
    folder = tmp_path / "out" / "gsm8k"
    rows = folder / "results" / "eval-results" / "deep"
    rows.mkdir(parents=True)
    (folder / "results" / "results.yml").write_text(RESULTS)
    (folder / "run_config.yaml").write_text(CONFIG)
    lines = [
        {
            "problem_idx": 0,
            "symbolic_correct": True,
            "problem": "2+2?",
            "generation": "4",
            "predicted_answer": "4",
        },
        {"problem_idx": 0, "reward": 0.5},
        {"question": "?"},
    ]
    (rows / "output-rs0.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


def test_scores_and_rows_are_read(task: Path) -> None:
    (path,) = convert_legacy(task.parent)
    bundle = read_json(path)
    assert bundle["config"]["model"] == "m-1"
    assert bundle["benchmark"]["name"] == "container/simple_evals.gsm8k"
    assert (
        bundle["benchmark"]["samples"],
        bundle["benchmark"]["repeats"],
        bundle["n_results"],
    ) == (4, 2, 3)
    assert bundle["benchmark"]["scores"] == {
        "gsm8k.accuracy.accuracy": {"value": 0.75, "n": 4},
        "gsm8k.accuracy.latency": {"value": 12.5},
    }
    rows = list(iter_jsonl(task / "results.jsonl"))
    assert [(row["problem_idx"], row["repeat"], row["reward"]) for row in rows] == [
        (0, 0, 1.0),
        (0, 1, 0.5),
        (2, 0, None),
    ]
    # A row without a score is a failed row, not a zero.
    assert (rows[2]["status"], rows[2]["failure"]["cause"]) == ("failed", "scorer")
    assert (rows[0]["prompt"], rows[0]["model_response"], rows[0]["extracted_answer"]) == (
        "2+2?",
        "4",
        "4",
    )


def test_what_is_there_is_kept(task: Path) -> None:
    (path,) = convert_legacy(task.parent)
    before = path.read_bytes(), (task / "results.jsonl").read_bytes()
    assert convert_legacy(task.parent) == []
    assert (path.read_bytes(), (task / "results.jsonl").read_bytes()) == before


def test_the_report_reads_them(task: Path) -> None:
    result = CliRunner().invoke(eval_report, [str(task.parent)], catch_exceptions=False)
    assert (
        "| container/simple_evals.gsm8k | gsm8k.accuracy.accuracy | 4 × 2 | 0.7500 |"
        in result.stdout
    )


def test_a_file_that_cannot_be_read_says_which(task: Path) -> None:
    (task / "results" / "results.yml").write_text("a: [")
    with pytest.raises(UsageError, match=r"results\.yml cannot be read"):
        convert_legacy(task.parent)
