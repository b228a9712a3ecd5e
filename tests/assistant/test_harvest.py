"""Canonical scores with scale and standard error, from bundles of every shape."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from nel_support import Nel, Serve, Sums, api, bench

from nemo_evaluator.assistant.harvest import harvest
from nemo_evaluator.cli.main import nel as cli
from nemo_evaluator.runs.bundle import load_bundle
from nemo_evaluator.runs.calibration import measured_by


def bundle(folder: Path, key: str, scores: dict[str, Any], **more: Any) -> None:
    (folder / key).mkdir(parents=True)
    document = {
        "run_id": f"eval-20260101T000000Z-{key}",
        "config": {"model": "m"},
        "validity": {"status": "VALID"},
    }
    document["benchmark"] = {
        "name": more.pop("name", key),
        "samples": 10,
        "repeats": 4,
        "scores": scores,
    }
    (folder / key / f"{document['run_id']}.json").write_text(json.dumps(document | more))


@pytest.mark.parametrize(
    ("key", "scores", "metric", "value", "scale", "percent"),
    [
        (
            "ifbench",
            {"mean_reward": {"value": 0.5}, "prompt_loose": {"value": 0.6}},
            "prompt_loose",
            0.6,
            1,
            60.0,
        ),
        (
            "gpqa",
            {"mean_reward": {"value": 0.5}, "pass@4": {"value": 0.9}},
            "mean_reward",
            0.5,
            1,
            50.0,
        ),
        ("other", {"mean_reward": {"value": 0.25}}, "mean_reward", 0.25, 1, 25.0),
        (
            "livecodebench",
            {
                "mean_reward": {"value": 0.1},
                "lcb/pass@1[avg-of-2]/accuracy": {"value": 40.0},
                "lcb/pass@1[avg-of-8]/accuracy": {"value": 41.5},
                "lcb/pass@8/accuracy": {"value": 70.0},
            },
            "lcb/pass@1[avg-of-8]/accuracy",
            41.5,
            100,
            41.5,
        ),
        ("aa_lcr", {"lcr/judge_correct": {"value": 0.31}}, "lcr/judge_correct", 0.31, 1, 31.0),
        ("empty", {}, None, None, None, None),
    ],
)
def test_the_canonical_score_and_its_scale(
    key: str,
    scores: dict[str, Any],
    metric: Any,
    value: Any,
    scale: Any,
    percent: Any,
    tmp_path: Path,
) -> None:
    bundle(tmp_path, key, scores)
    (found,) = harvest(tmp_path)
    assert (found.metric, found.score, found.scale, found.percent) == (
        metric,
        value,
        scale,
        percent,
    )


@pytest.mark.parametrize(
    ("scores", "percent"),
    [
        # Rewards from 0 to 100.
        ({"mean_reward": {"value": 0.8}, "summary": {"max": 100.0}}, 0.8),
        ({"mean_reward": {"value": 0.8}, "summary": {"max": 1.0}}, 80.0),
        # Another metric's scale is no evidence.
        ({"mean_reward": {"value": 0.8}, "bleu": {"value": 31.0}}, 80.0),
        ({"pass@1": {"value": 1.0}, "summary": {"max": 1.0}}, 100.0),
    ],
)
def test_the_scale_of_a_low_score_follows_from_the_largest_reward(
    scores: dict[str, Any], percent: float, tmp_path: Path
) -> None:
    bundle(tmp_path, "other", scores)
    (harvested,) = harvest(tmp_path)
    assert harvested.percent == percent


@pytest.mark.parametrize(
    "evidence",
    [
        {"lcb/pass@8/accuracy": {"value": 4.5}},
        {"lcb/pass@8/accuracy": {"value": 0.9, "ci_lower": 0.2, "ci_upper": 2.1}},
    ],
)
def test_the_scale_of_a_low_score_of_a_container_follows_from_scores_of_its_kind(
    evidence: dict[str, Any], tmp_path: Path
) -> None:
    bundle(tmp_path, "livecodebench", {"lcb/pass@1[avg-of-8]/accuracy": {"value": 0.8}} | evidence)
    (harvested,) = harvest(tmp_path)
    assert (harvested.scale, harvested.percent) == (100, 0.8)


def test_a_real_run_in_all_formats(nel: Nel, serve: Serve, sums: Sums) -> None:
    server = serve(lambda seen: "4" if " 2 + 2" in seen.prompt else "6")
    services = {"model": api(server.url)}
    config = nel.config(
        "c.yaml", services=services, benchmarks=[bench(sums(5), repeats=3)], output={"dir": "out"}
    )
    nel("eval", "run", config)

    def told(form: str) -> str:
        return (
            CliRunner().invoke(cli, ["harvest", str(nel.folder / "out"), "--format", form]).output
        )

    (found,) = json.loads(told("json"))
    assert (found["status"], found["metric"], found["scale"], found["repeats"]) == (
        "VALID",
        "pass@1",
        1,
        3,
    )
    assert found["score"] == pytest.approx(0.4)
    assert found["standard_error"] == pytest.approx(np.std([0, 0, 1, 1, 0], ddof=1) / np.sqrt(5))
    (row,) = csv.DictReader(io.StringIO(told("csv")))
    assert (float(row["percent"]), row["model"]) == (40.0, "m")
    shown = told("table")
    assert "0.4000" in shown and "0.2449" in shown


def test_several_runs_as_json_with_the_error_of_a_corrected_score(tmp_path: Path) -> None:
    corrected = {"value": 0.4, "ci_lower": 0.3, "ci_upper": 0.5, "ci_method": "ppi"}
    calibration = {"corrected": corrected, "measured_by": {}}
    for name in ("first", "second"):
        bundle(tmp_path / name, "toy", {"mean_reward": {"value": 0.5}})
    path = next((tmp_path / "second" / "toy").glob("eval-*.json"))
    document = json.loads(path.read_text())
    document["benchmark"]["calibration"] = calibration
    path.write_text(json.dumps(document))
    current = measured_by(load_bundle(path).config, load_bundle(path).coverage.scored)
    document["benchmark"]["calibration"]["measured_by"] = current
    path.write_text(json.dumps(document))
    folders = [str(tmp_path / "first"), str(tmp_path / "second")]
    first, second = json.loads(CliRunner().invoke(cli, ["harvest", *folders, "--json"]).output)
    assert [first["run"], second["run"]] == folders
    assert (first["corrected"], first["corrected_standard_error"]) == (None, None)
    assert second["corrected"] == 0.4
    assert second["corrected_standard_error"] == pytest.approx(0.2 / 3.919928)
    table = CliRunner().invoke(cli, ["harvest", *folders]).output
    assert "corrected_standard_error" in table.replace("\n", "") and "0.0510" in table
