"""The corrected score stands wherever the raw one does: every report format, every exporter, and every list of runs."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from nel_support import Nel

from nemo_evaluator.assistant.harvest import harvest
from nemo_evaluator.cli.main import nel
from nemo_evaluator.config.groups import EXPORTERS
from nemo_evaluator.core.files import write_json
from nemo_evaluator.decisions.calibrate.report import calibrate
from nemo_evaluator.exporters import export_bundles
from nemo_evaluator.reports.formats import RENDERERS, render
from nemo_evaluator.reports.model import load_report
from nemo_evaluator.runs.bundle import Bundle, load_bundle, newest_bundle
from nemo_evaluator.runs.calibration import read_draw
from nemo_evaluator.runs.labels import read_labels
from nemo_evaluator.runs.overview import overview
from nemo_evaluator.store.run_registry import RunMeta
from nemo_evaluator.store.sums import damaged_files, record_sums
from nemo_evaluator.suite.results import BenchmarkResult, SuiteResult
from nemo_evaluator.suite.summary import summary_text
from nemo_evaluator.testing import ScriptedServer
from nemo_evaluator.view.library import Library
from nemo_evaluator.view.run_page import run_page

from .test_calibrate import give, judged, run

NAME = "corrected pass@1"
SETTINGS = {
    "mlflow": lambda root: {"tracking_uri": f"sqlite:///{root}/mlflow.db", "emit_traces": False},
    "wandb": lambda root: {"mode": "offline", "artifacts": False},
    "inspect": lambda root: {},
    "local": lambda root: {},
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose bundle has a calibration."""
    folder = tmp_path_factory.mktemp("corrected") / "run" / "toy"
    right = judged(folder)
    record_sums(folder, folder.glob("eval-*.json"))
    run("judge", "sample", folder, "--labels", 100)
    give(folder, right)
    run("judge", "calibrate", folder)
    return folder.parent


@pytest.fixture(scope="module")
def value(root: Path) -> float:
    """The corrected score as the bundle's own JSON has it, where any program finds it."""
    (file,) = (root / "toy").glob("eval-*.json")
    assert damaged_files(root) == []
    scores = json.loads(file.read_text())["benchmark"]["scores"]
    assert scores["pass@1"]["value"] != scores[NAME]["value"]
    assert scores[NAME]["ci_lower"] < scores[NAME]["value"] < scores[NAME]["ci_upper"]
    return float(scores[NAME]["value"])


@pytest.mark.parametrize("fmt", RENDERERS.names())
def test_every_report_format_has_it(root: Path, value: float, fmt: str) -> None:
    text = render(load_report([root], rows=True), fmt)
    assert NAME in text
    assert str(value) in text or f"{value:.4f}" in text


@pytest.mark.needs("mlflow", "wandb", "inspect")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", EXPORTERS.names())
def test_every_exporter_sends_it(root: Path, value: float, name: str, tmp_path: Path) -> None:
    export_bundles(name, [root], SETTINGS[name](tmp_path), output_dir=tmp_path)
    assert [found for found in READ[name](tmp_path) if abs(found - value) < 1e-6]


def _in_mlflow(root: Path) -> Iterator[float]:
    mlflow = pytest.importorskip("mlflow")
    client = mlflow.MlflowClient(tracking_uri=f"sqlite:///{root}/mlflow.db")
    experiment = client.get_experiment_by_name("nemo-evaluator")
    for one in client.search_runs([experiment.experiment_id]):
        yield from (
            number for key, number in one.data.metrics.items() if key.startswith("corrected")
        )


def _in_wandb(root: Path) -> Iterator[float]:
    """Offline, the log has each number as text behind its name; W&B's own process may still be writing it."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        (log,) = root.glob("wandb/offline-run-*/run-*.wandb")
        if found := re.findall(rb"toy/corrected pass@1\W{1,8}(\d\.\d+)", log.read_bytes()):
            yield from map(float, found)
            return
        time.sleep(0.1)


def _in_inspect(root: Path) -> Iterator[float]:
    log = pytest.importorskip("inspect_ai.log")
    (file,) = root.rglob("*.eval")
    for score in log.read_eval_log(str(file), header_only=True).results.scores:
        yield from (metric.value for name, metric in score.metrics.items() if name == NAME)


def _in_local(root: Path) -> Iterator[float]:
    (file,) = (root / "export").rglob("processed_results.json")
    for benchmark in json.loads(file.read_text())["benchmarks"]:
        yield from (number for name, number in benchmark["metrics"].items() if name == NAME)


READ = {"mlflow": _in_mlflow, "wandb": _in_wandb, "inspect": _in_inspect, "local": _in_local}


def test_lists_of_runs_and_the_viewer_have_it(root: Path, value: float) -> None:
    (line,) = harvest(root)
    assert (line.metric, line.corrected) == ("pass@1", value)
    for form in ("table", "csv", "json"):
        said = CliRunner().invoke(nel, ["harvest", str(root), "-f", form]).output
        assert str(value) in said or f"{value:.4f}" in said, form
    meta = RunMeta("r1", "local", str(root), "2026-01-01T00:00:00+00:00", "toy")
    write_json(root / "nel_run.json", asdict(meta))
    (listed,) = overview(meta)
    assert listed.corrected == value
    library = Library([root], registry=False)
    (key,) = library.look()
    page = run_page(library, key)
    corrected = page.benchmarks[0].corrected
    assert corrected is not None and corrected.value == value
    assert NAME in [score.name for score in page.parts[0].scores]
    bundle = newest_bundle(root / "toy")
    assert bundle is not None
    said = summary_text(SuiteResult([BenchmarkResult("toy", bundle.document)]), root)
    assert f"{NAME} {value:.4f}" in said and "100 labels of 400 rows" in said


def test_it_has_one_place(root: Path) -> None:
    """Whoever deletes the calibration deletes the score: a score that is left among the others is not believed."""
    bundle = newest_bundle(root / "toy")
    assert (
        bundle is not None
        and bundle.corrected is not None
        and not list((root / "toy").glob("calibration*"))
    )
    other = {**bundle.benchmark, "scores": {**bundle.benchmark["scores"], NAME: {"value": 0.9}}}
    assert Bundle(bundle.path, {**bundle.document, "benchmark": other}).scores == bundle.scores
    again = calibrate(bundle, read_labels(root / "toy"), read_draw(root / "toy"))
    again.save()
    assert load_bundle(bundle.path).document == bundle.document


async def test_a_resumed_run_keeps_it_until_rows_are_added(tmp_path: Path) -> None:
    async with ScriptedServer("4") as server:
        api = {"type": "api", "url": server.url, "protocol": "chat_completions", "model": "m"}
        bench = {
            "name": "quickstart",
            "solver": {"type": "simple", "service": "model"},
            "max_problems": 12,
        }
        config = {
            "services": {"model": api},
            "benchmarks": [bench],
            "output": {"dir": str(tmp_path / "out")},
        }
        (tmp_path / "c.yaml").write_text(json.dumps(config))
        nel = Nel(tmp_path)
        folder = tmp_path / "out" / "quickstart"

        async def resumed(*more: str) -> Bundle:
            await asyncio.to_thread(nel, "eval", "run", "c.yaml", "--resume", *more)
            found = newest_bundle(folder)
            assert found is not None and len(list(folder.glob("eval-*.json"))) == 1
            return found

        await resumed()
        run("judge", "sample", folder, "--labels", 12)
        give(folder, np.ones(200))
        run("judge", "calibrate", folder)
        before = newest_bundle(folder)
        kept = await resumed()
        assert (
            before is not None and kept.corrected is not None and kept.corrected == before.corrected
        )
        assert kept.benchmark["scores"][kept.corrected.name]["value"] == kept.corrected.value
        longer = await resumed("-O", "benchmarks.0.max_problems=14")
        assert longer.corrected is None and any("rows were added" in note for note in longer.notes)
        assert not [name for name in longer.benchmark["scores"] if name.startswith("corrected")]
