"""Weights & Biases: offline, and online with the real client against a stand-in of the server."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest
from wandb_stand_in import StandIn

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.files import read_json, write_json
from nemo_evaluator.exporters import export_bundles, get_exporter
from nemo_evaluator.exporters.base import read_bundle
from nemo_evaluator.exporters.wandb import _labels
from nemo_evaluator.store.run_registry import RunMeta

pytestmark = [pytest.mark.needs("wandb"), pytest.mark.filterwarnings("ignore")]


_EXPORT = """
import sys
from nemo_evaluator.exporters import export_bundles
print(export_bundles("wandb", [sys.argv[1]], {"project": "p"}, output_dir=sys.argv[1])[0])
"""


def _lacks(folder: Path, *words: bytes) -> list[bytes]:
    """What the log of the offline run does not hold; W&B's own process may still be writing it."""
    deadline = time.monotonic() + 60
    while True:
        (log,) = folder.glob("wandb/offline-run-*/run-*.wandb")
        missing = [word for word in words if word not in log.read_bytes()]
        if not missing or time.monotonic() > deadline:
            return missing
        time.sleep(0.1)


def test_an_offline_run_holds_metrics_config_and_files(
    run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANDB_MODE", "offline")
    (place,) = export_bundles(
        "wandb", [run_dir], {"project": "my-project", "tags": ["nightly"]}, output_dir=run_dir
    )
    assert Path(place).is_relative_to(run_dir)
    words = (
        b"my-project",
        b"nightly",
        b"gsm8k/pass@1",
        b"agents/coverage",
        b"eval-20261115",
        b"results.jsonl",
    )
    assert _lacks(run_dir, *words) == []


def test_exporting_offline_twice_leaves_one_run_until_it_was_synced(run_dir: Path) -> None:
    settings = {"mode": "offline", "artifacts": False}
    (first,) = export_bundles("wandb", [run_dir], settings, output_dir=run_dir)
    (second,) = export_bundles("wandb", [run_dir], settings, output_dir=run_dir)
    assert list(run_dir.glob("wandb/offline-run-*")) == [Path(second)]
    assert Path(first).name.rpartition("-")[2] == Path(second).name.rpartition("-")[2]
    (log,) = Path(second).glob("*.wandb")
    log.with_name(f"{log.name}.synced").touch()
    export_bundles("wandb", [run_dir], settings, output_dir=run_dir)
    assert len(list(run_dir.glob("wandb/offline-run-*"))) >= 1
    assert Path(second).exists()


@pytest.fixture
def online(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[StandIn]:
    with StandIn() as server:
        monkeypatch.setenv("WANDB_BASE_URL", server.url)
        monkeypatch.setenv("WANDB_API_KEY", "k" * 40)
        monkeypatch.setenv("WANDB_CONFIG_DIR", str(tmp_path))
        monkeypatch.delenv("WANDB_MODE", raising=False)
        yield server


def test_online_twice_and_after_a_resume_there_is_one_run_with_one_step(
    run_dir: Path, online: StandIn
) -> None:
    write_json(
        run_dir / "nel_run.json",
        asdict(RunMeta("20261115_001700_aa", "local", str(run_dir), "", "gsm8k")),
    )
    for stamp, value in (
        ("20261115T001802Z", 0.5),
        ("20261115T001802Z", 0.5),
        ("20261116T000000Z", 0.75),
    ):
        (path,) = (run_dir / "gsm8k").glob("eval-*.json")
        document = read_json(path)
        path.unlink()
        document["run_id"] = f"eval-{stamp}-gsm8k"
        document["benchmark"]["scores"]["pass@1"]["value"] = value
        write_json(path.with_name(f"{document['run_id']}.json"), document)
        # A process each: within one, W&B's client keeps the server it was first told of.
        words = [
            sys.executable,
            "-c",
            _EXPORT,
            str(run_dir),
            "--api-key",
            "a-key-on-the-command-line",
        ]
        done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=True)
        place = done.stdout.strip()
    ((name, run),) = online.runs.items()
    assert place == f"{online.url}/me/p/runs/{name}"
    assert len(run.history) == 1
    assert run.history[0]["gsm8k/pass@1"] == 0.5
    assert (run.summary["gsm8k/pass@1"], run.summary["agents/coverage"]) == (0.75, 0.75)
    assert run.summary["results"]["nrows"] == 6
    assert run.config["gsm8k"]["value"]["model"] == "m-1"
    assert online.files["gsm8k/results.jsonl"] == (run_dir / "gsm8k" / "results.jsonl").read_bytes()
    assert set(online.artifacts) == {f"run-{name}-results", f"nel-{name}"}
    # Neither the command line nor the machine is sent.
    for word in (
        b"a-key-on-the-command-line",
        sys.executable.encode(),
        b"requirements.txt",
        b"wandb-metadata",
    ):
        assert word not in online.received, word


def test_a_benchmark_that_is_there_twice_keeps_both_numbers(run_dir: Path) -> None:
    bundle = read_bundle(next((run_dir / "gsm8k").glob("eval-*.json")))
    assert _labels([bundle]) == ["gsm8k"]
    assert len(set(_labels([bundle, bundle]))) == 2


def test_an_unknown_mode_is_refused() -> None:
    with pytest.raises(UsageError, match="no mode"):
        get_exporter("wandb", mode="sometimes")
