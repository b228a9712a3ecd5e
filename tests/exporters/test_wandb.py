"""Weights & Biases, offline: the run is on disk and holds what we logged."""

from __future__ import annotations

from pathlib import Path

import pytest

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.exporters import export_bundles, get_exporter
from nemo_evaluator.exporters.base import read_bundle
from nemo_evaluator.exporters.wandb import _labels

pytestmark = [pytest.mark.needs("wandb"), pytest.mark.filterwarnings("ignore")]


def _records(folder: Path) -> bytes:
    (log,) = folder.glob("wandb/offline-run-*/run-*.wandb")
    return log.read_bytes()


def test_an_offline_run_holds_metrics_config_and_files(run_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_MODE", "offline")
    (place,) = export_bundles("wandb", [run_dir], {"project": "my-project", "tags": ["nightly"]}, output_dir=run_dir)
    assert Path(place).is_relative_to(run_dir)
    raw = _records(run_dir)
    for expected in (b"my-project", b"nightly", b"gsm8k/pass@1", b"agents/coverage", b"eval-20261115"):
        assert expected in raw, expected
    assert b"results.jsonl" in raw


def test_a_benchmark_that_is_there_twice_keeps_both_numbers(run_dir: Path) -> None:
    bundle = read_bundle(next((run_dir / "gsm8k").glob("eval-*.json")))
    assert _labels([bundle]) == ["gsm8k"]
    assert len(set(_labels([bundle, bundle]))) == 2


def test_an_unknown_mode_is_refused() -> None:
    with pytest.raises(UsageError, match="no mode"):
        get_exporter("wandb", mode="sometimes")
