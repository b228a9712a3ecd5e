"""Exports as part of a run: wrong ones are refused before anything is asked, failing ones fail it only when told to."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import pytest
import yaml
from click.testing import CliRunner

from nemo_evaluator.cli.main import nel
from nemo_evaluator.core.errors import NelError
from nemo_evaluator.exporters import EXPORTERS
from nemo_evaluator.testing import ScriptedServer

BENCHMARK = """
from nemo_evaluator import ScorerInput, benchmark, exact_match, scorer


@benchmark(name="tiny", dataset=lambda: [{"q": "1+1?", "a": "2"}], prompt="{q}", target_field="a")
@scorer
def check(sample: ScorerInput) -> dict:
    return exact_match(sample)
"""


class Unreachable:
    """A tracker that is down."""

    def export(self, bundles: Any, config: Any) -> list[str]:
        raise ConnectionError("tracker is down")


class Kept:
    """A tracker that remembers."""

    seen: ClassVar[list[Any]] = []

    def export(self, bundles: Any, config: Any) -> list[str]:
        Kept.seen.append([(one.name, len(list(one.rows()))) for one in bundles])
        return ["kept"]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.setitem(EXPORTERS._targets, "unreachable", Unreachable)
    monkeypatch.setitem(EXPORTERS._targets, "kept", Kept)
    monkeypatch.setattr(Kept, "seen", [])
    (tmp_path / "bench.py").write_text(BENCHMARK)

    def start(export: list[Any], *options: str) -> tuple[Any, int]:
        with ScriptedServer("2") as server:
            config = {
                "services": {
                    "m": {
                        "type": "api",
                        "url": server.url,
                        "protocol": "chat_completions",
                        "model": "m",
                    }
                },
                "benchmarks": [{"name": "bench.py", "solver": {"type": "simple", "service": "m"}}],
                "output": {"export": export},
            }
            (tmp_path / "c.yaml").write_text(yaml.safe_dump(config))
            result = CliRunner().invoke(nel, ["eval", "run", "c.yaml", "-o", "out", *options])
            return result, server.count

    return start


def test_a_failing_export_is_said_and_fails_the_run_only_when_asked(run: Any) -> None:
    result, _ = run(["unreachable"])
    assert result.exit_code == 0
    assert "export to unreachable failed: ConnectionError: tracker is down" in result.output
    result, _ = run(["unreachable"], "--strict-export")
    assert result.exit_code == 2


@pytest.mark.parametrize(
    ("export", "said"),
    [
        ("unreachble", "unknown exporter 'unreachble'"),
        ({"type": "inspect", "fromat": "json"}, "no setting 'fromat'"),
        ({"type": "mlflow"}, "no tracking URI"),
    ],
)
def test_an_exporter_that_cannot_work_is_refused_before_a_question_is_asked(
    run: Any, export: Any, said: str
) -> None:
    result, asked = run([export])
    assert isinstance(result.exception, NelError)
    assert said in str(result.exception)
    assert result.exception.exit_code == 1
    assert asked == 0


def test_a_shard_is_not_exported_and_the_merged_whole_is(run: Any, tmp_path: Path) -> None:
    for index in range(2):
        result, _ = run(["kept"], "--shard", f"{index}/2")
        assert (
            f"shard {index} is not exported: `nel eval merge {tmp_path / 'out'}` exports the whole"
            in result.output
        )
    assert Kept.seen == []
    result = CliRunner().invoke(nel, ["eval", "merge", "out"])
    assert result.exit_code == 0, result.output
    assert Kept.seen == [[("tiny", 1)]]
    # Merged again after the shards were run with another config, the folder says what they say.
    snapshot = tmp_path / "out" / "shard_0" / "full_config.yaml"
    snapshot.write_text(snapshot.read_text().replace("- kept", "- unreachable"))
    result = CliRunner().invoke(nel, ["eval", "merge", "out"])
    assert result.exit_code == 0
    assert "tracker is down" in result.output
    assert (tmp_path / "out" / "full_config.yaml").read_text() == snapshot.read_text()


def test_a_failing_export_of_a_merge_fails_it_only_when_asked(run: Any, tmp_path: Path) -> None:
    run(["unreachable"], "--shard", "0/1", "--strict-export")
    result = CliRunner().invoke(nel, ["eval", "merge", "out"])
    assert result.exit_code == 2
    assert "export to unreachable failed: ConnectionError: tracker is down" in result.output
