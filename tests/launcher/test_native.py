"""A benchmark of nel that runs in place of a launcher's task: the plan, the bundle and the reports say so."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from nel_support import Nel, Serve

_CONFIG = """
defaults: [{{execution: local}}, {{deployment: none}}, _self_]
execution: {{output_dir: results}}
target: {{api_endpoint: {{url: "{url}/chat/completions", model_id: m}}}}
evaluation:
  nemo_evaluator_config: {{config: {{params: {{limit_samples: 2}}}}}}
  tasks: [{{name: simple_evals.math_test_500}}]
"""
_TASK = "in place of simple_evals.math_test_500"


@pytest.mark.needs("mirror")
def test_native_is_said_in_the_dry_run_the_bundle_and_the_report(
    nel: Nel, serve: Serve, data_mirror: Path
) -> None:
    server = serve("The answer is \\boxed{4}.")
    nel.env |= {"NEL_DATA_MIRROR": str(data_mirror), "COLUMNS": "80"}
    (nel.folder / "config.yaml").write_text(_CONFIG.format(url=server.url))
    dry_run = nel("run", "--config", "config.yaml", "--native", "--dry-run")
    assert _TASK in " ".join(dry_run.stdout.split())
    assert "prompts and graders differ" in dry_run.stderr and server.count == 0
    nel("run", "--config", "config.yaml", "--native", "--wait", code=None)
    assert server.count == 2
    (bundle_file,) = (nel.folder / "results").glob("*/math_test_500.0/eval-*.json")
    bundle = json.loads(bundle_file.read_text())
    assert bundle["config"]["replaces"] == "simple_evals.math_test_500"
    assert any(_TASK in note for note in bundle["benchmark"]["notes"])
    (run_folder,) = (nel.folder / "results").iterdir()
    report = nel("report", str(run_folder)).stdout
    assert _TASK in " ".join(report.split())


def test_without_native_the_harness_runs(nel: Nel) -> None:
    (nel.folder / "config.yaml").write_text(_CONFIG.format(url="http://127.0.0.1:9/v1"))
    nel("run", "--config", "config.yaml", "--convert", "same.yaml")
    same = (nel.folder / "same.yaml").read_text()
    assert "container://nvcr.io/nvidia/eval-factory/simple-evals:26.03#math_test_500" in same
    nel("run", "--config", "config.yaml", "--native", "--convert", "native.yaml")
    native = (nel.folder / "native.yaml").read_text()
    assert "- name: math500" in native and "replaces: simple_evals.math_test_500" in native
    refused = nel("run", "--config", "config.yaml", "--native", "--containers", "-n", code=1)
    assert "exclude each other" in refused.stderr
