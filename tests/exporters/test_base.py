"""Choosing an exporter, third parties, and what a failing export says."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest
from click.testing import CliRunner

from nemo_evaluator.cli.export import export, read_settings
from nemo_evaluator.core.errors import MissingExtraError, UsageError
from nemo_evaluator.core.kinds import Kinds
from nemo_evaluator.core.secrets import Secret
from nemo_evaluator.exporters import (
    EXPORTERS,
    ExportBundle,
    ExportError,
    export_bundles,
    get_exporter,
)
from nemo_evaluator.exporters import base as exporters_base


class Recorder:
    """Remembers what it was given."""

    seen: ClassVar[list[Any]] = []

    def __init__(self, shout: bool = False) -> None:
        self.shout = shout

    def export(self, bundles: Sequence[ExportBundle], config: dict[str, Any]) -> list[str]:
        """Remember."""
        Recorder.seen.append(
            (self.shout, [(one.name, len(list(one.rows()))) for one in bundles], config)
        )
        return [one.run_id for one in bundles]


class Breaks:
    """Fails like a library would, with a secret in its message."""

    def export(self, bundles: Sequence[ExportBundle], config: dict[str, Any]) -> list[str]:
        """Fail."""
        raise ConnectionError("POST https://tracker/?key=sk-topsecret-4711-value: refused")


@pytest.fixture(autouse=True)
def exporters(monkeypatch: pytest.MonkeyPatch) -> Kinds:
    """A registry of our own, so that tests do not leak names."""
    fresh = Kinds("exporter", group="nemo_evaluator.exporters", home="nemo_evaluator.exporters")
    for name in ("inspect", "mlflow", "wandb"):
        fresh.add(name, EXPORTERS.get(name))
    fresh.add("recorder", Recorder)
    fresh.add("breaks", Breaks)
    monkeypatch.setattr(exporters_base, "EXPORTERS", fresh)
    monkeypatch.setattr(Recorder, "seen", [])
    return fresh


def test_an_exporter_gets_bundles_rows_and_the_output_dir(run_dir: Path) -> None:
    assert export_bundles("recorder", [run_dir], {"shout": True}) == [
        "eval-20261115T001802Z-agents",
        "eval-20261115T001802Z-gsm8k",
    ]
    assert Recorder.seen == [(True, [("agents", 2), ("gsm8k", 4)], {"output_dir": str(run_dir)})]


def test_trajectories_are_joined_to_rows_whatever_their_order(run_dir: Path) -> None:
    bundle = exporters_base.read_bundle(next((run_dir / "agents").glob("eval-*.json")))
    steps = [len(row["trajectory"][0]["steps"]) for row in bundle.rows()]
    assert steps == [4, 4]


def test_metrics_have_bounds_shares_and_runtime(run_dir: Path) -> None:
    bundle = exporters_base.read_bundle(next((run_dir / "gsm8k").glob("eval-*.json")))
    metrics = bundle.metrics()
    assert metrics["pass@1"] == 0.5
    assert metrics["pass@1/ci_upper"] == 0.9
    assert metrics["coverage"] == 0.75
    assert metrics["runtime/latency_p50_ms"] == 120.0
    assert not any(name.startswith("summary") for name in metrics)


def test_an_unknown_name_or_setting_is_refused_with_the_nearest() -> None:
    with pytest.raises(UsageError) as name:
        get_exporter("mlflwo")
    assert name.value.hint == "did you mean 'mlflow'?"
    with pytest.raises(UsageError, match="no setting 'shoot'") as setting:
        get_exporter("recorder", shoot=True)
    assert setting.value.hint == "did you mean 'shout'?"


def test_a_missing_library_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError) as caught:
        get_exporter("wandb")
    assert caught.value.hint == 'pip install "nemo-evaluator[export]"'


def test_what_a_library_raises_is_one_error_without_secrets(run_dir: Path) -> None:
    Secret("sk-topsecret-4711-value")
    with pytest.raises(ExportError, match="ConnectionError") as caught:
        export_bundles("breaks", [run_dir])
    assert "sk-topsecret-4711-value" not in caught.value.message
    assert caught.value.exit_code == 2


def test_settings_come_from_the_file_then_from_the_command(tmp_path: Path) -> None:
    file = tmp_path / "export.yaml"
    file.write_text("mlflow: {experiment_name: a, emit_traces: true}\nwandb: {project: p}\n")
    settings = read_settings(
        "mlflow", file, ("emit_traces=false", 'tags={"a": "b"}', "run_name=x=y")
    )
    assert settings == {
        "experiment_name": "a",
        "emit_traces": False,
        "tags": {"a": "b"},
        "run_name": "x=y",
    }
    file.write_text(json.dumps({"experiment_name": "whole"}))
    assert read_settings("mlflow", file, ()) == {"experiment_name": "whole"}
    with pytest.raises(UsageError, match="key=value"):
        read_settings("mlflow", None, ("oops",))


def test_the_command_prints_where_things_went(run_dir: Path) -> None:
    result = CliRunner().invoke(
        export, [str(run_dir), "-d", "recorder", "-o", "shout=true"], catch_exceptions=False
    )
    assert result.stdout.splitlines() == [
        "eval-20261115T001802Z-agents",
        "eval-20261115T001802Z-gsm8k",
    ]
    assert Recorder.seen[0][0] is True


def test_an_installed_package_adds_an_exporter(run_dir: Path, tmp_path: Path) -> None:
    """A real entry point: the metadata of a package, as pip leaves it, and the command in a process of its own."""
    site = tmp_path / "site"
    info = site / "their_tracker-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: their-tracker\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[nemo_evaluator.exporters]\ntheirs = their_tracker:Theirs\n"
    )
    (site / "their_tracker.py").write_text(THEIRS)
    command = [str(Path(sys.executable).with_name("nel")), "export", str(run_dir), "-d"]
    environment = os.environ | {"PYTHONPATH": str(site)}
    done = subprocess.run(
        [*command, "theirs", "-o", "prefix=hi"], env=environment, capture_output=True, text=True
    )
    assert done.stdout.splitlines() == ["hi agents 2", "hi gsm8k 4"], done.stderr
    refused = subprocess.run([*command, "thiers"], env=environment, capture_output=True, text=True)
    assert refused.returncode == 1
    assert "did you mean 'theirs'?" in refused.stderr


THEIRS = """
class Theirs:
    def __init__(self, prefix=""):
        self.prefix = prefix

    def export(self, bundles, config):
        return [f"{self.prefix} {bundle.name} {len(list(bundle.rows()))}" for bundle in bundles]
"""


def test_the_missing_library_is_said_before_a_question_is_asked(run_dir: Path) -> None:
    """In an interpreter where the library cannot be found."""
    code = (
        "import sys, importlib.machinery as m\n"
        "real = m.PathFinder.find_spec.__func__\n"
        "find = lambda c, n, *a: None if n.partition('.')[0] == 'mlflow' else real(c, n, *a)\n"
        "m.PathFinder.find_spec = classmethod(find)\n"
        "from nemo_evaluator.cli.main import main\n"
        f"sys.argv = ['nel', 'export', {str(run_dir)!r}, '-d', 'mlflow']\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1
    assert "mlflow is not installed" in done.stderr
    assert 'pip install "nemo-evaluator[export]"' in done.stderr


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"{", "not JSON"),
        (b"[]", "not a bundle"),
        (b'{"benchmark": 3}', "not a bundle"),
        (b"\xff", "not JSON"),
    ],
)
def test_what_is_no_bundle_is_refused(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "eval-x.json"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=said):
        export_bundles("recorder", [path])
    with pytest.raises(UsageError, match="does not exist"):
        export_bundles("recorder", [tmp_path / "none"])
