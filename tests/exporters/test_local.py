"""The ``local`` exporter: files in a folder, chosen metrics, copies of logs and results."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.exporters import export_bundles, get_exporter


def test_each_benchmark_has_a_file_and_all_have_one(run_dir: Path, tmp_path: Path) -> None:
    written = export_bundles("local", [run_dir], {"output_dir": str(tmp_path / "exported")})
    names = [str(Path(path).relative_to(tmp_path / "exported")) for path in written]
    assert names == [
        "eval-20261115T001802Z-agents/agents/processed_results.json",
        "eval-20261115T001802Z-gsm8k/gsm8k/processed_results.json",
        "processed_results.json",
    ]
    merged = json.loads(Path(written[-1]).read_text())["benchmarks"]
    assert [entry["benchmark"] for entry in merged] == ["agents", "gsm8k"]
    assert merged[1]["metrics"]["pass@1"] == 0.5
    assert (merged[1]["model"], merged[1]["status"]) == ("m-1", "VALID")


def test_csv_has_a_line_for_each_chosen_metric(run_dir: Path, tmp_path: Path) -> None:
    settings = {
        "output_dir": str(tmp_path / "exported"),
        "format": "csv",
        "output_filename": "scores.csv",
        "log_metrics": ["pass@1", "coverage"],
    }
    (path,) = export_bundles("local", [run_dir / "gsm8k"], settings)
    assert Path(path).name == "scores.csv"
    with Path(path).open() as file:
        rows = list(csv.DictReader(file))
    assert {row["metric"] for row in rows} == {
        "pass@1",
        "pass@1/ci_lower",
        "pass@1/ci_upper",
        "coverage",
    }
    assert rows[0]["value"] == "0.5"


def test_logs_and_results_are_copied_when_wanted(run_dir: Path, tmp_path: Path) -> None:
    (run_dir / "nel_eval.log").write_text("the log\n")
    (run_dir / "logs").mkdir(exist_ok=True)
    (run_dir / "logs" / "server-model.log").write_text("the server\n")
    out = tmp_path / "exported"
    export_bundles("local", [run_dir / "gsm8k"], {"output_dir": str(out)})
    assert [path.name for path in out.rglob("*") if path.is_file()] == ["processed_results.json"]
    settings = {"output_dir": str(out), "copy_logs": True, "copy_artifacts": True}
    export_bundles("local", [run_dir / "gsm8k"], settings)
    names = {path.name for path in out.rglob("*") if path.is_file()}
    assert {"nel_eval.log", "server-model.log", "results.jsonl"} <= names


def test_files_in_the_run_are_no_further_results_of_it(run_dir: Path) -> None:
    written = export_bundles("local", [run_dir], {"copy_artifacts": True}, output_dir=run_dir)
    assert Path(written[-1]) == run_dir / "export" / "processed_results.json"
    assert len(list(run_dir.rglob("eval-*.json"))) == 2


def test_wrong_settings_are_refused() -> None:
    with pytest.raises(UsageError, match="no files are written as 'xml'"):
        get_exporter("local", format="xml")
    with pytest.raises(UsageError, match="is a path"):
        get_exporter("local", output_filename="a/b.json")
