"""A real MLflow store in SQLite."""

from __future__ import annotations

import os
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.files import read_json, write_json
from nemo_evaluator.exporters import ExportError, export_bundles, get_exporter
from nemo_evaluator.exporters._mlflow_traces import TraceWriter
from nemo_evaluator.exporters.mlflow import _shown, flatten
from nemo_evaluator.store.run_registry import RunMeta

pytestmark = [pytest.mark.needs("mlflow"), pytest.mark.filterwarnings("ignore")]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    """One database for the module (making one takes seconds); each test has an experiment of its own."""
    return f"sqlite:///{tmp_path_factory.mktemp('mlflow')}/mlflow.db"


@pytest.fixture
def settings(store: str, request: pytest.FixtureRequest) -> dict[str, Any]:
    return {"tracking_uri": store, "experiment_name": request.node.name}


def _client(settings: dict[str, Any]) -> tuple[Any, str]:
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=settings["tracking_uri"])
    return client, client.get_experiment_by_name(settings["experiment_name"]).experiment_id


def test_a_run_has_params_metrics_artifacts_and_traces(
    run_dir: Path, settings: dict[str, Any]
) -> None:
    export_bundles(
        "mlflow", [run_dir / "gsm8k"], settings | {"tags": {"team": "x"}, "log_config_params": True}
    )
    client, experiment = _client(settings)
    (run,) = client.search_runs([experiment])
    assert run.data.metrics["pass_at_1"] == 0.5
    assert run.data.metrics["pass_at_1/ci_lower"] == 0.1
    assert run.data.metrics["coverage"] == 0.75
    assert run.data.params["benchmark"] == "gsm8k"
    assert run.data.params["config.generation.temperature"] == "0.5"
    assert (run.data.tags["job_id"], run.data.tags["team"], run.data.tags["validity"]) == (
        "eval-20261115T001802Z-gsm8k",
        "x",
        "VALID",
    )
    assert run.info.status == "FINISHED"
    assert run.info.run_name == "eval-eval-20261115T001802Z-gsm8k"
    files = sorted(file.path for file in client.list_artifacts(run.info.run_id, "gsm8k"))
    assert files == ["gsm8k/eval-20261115T001802Z-gsm8k.json", "gsm8k/results.jsonl"]
    traces = client.search_traces(locations=[experiment], run_id=run.info.run_id)
    assert len(traces) == 4
    names = {trace.data.spans[0].name: trace for trace in traces}
    assert sorted(names) == ["sample_0", "sample_0.r1", "sample_1", "sample_1.r1"]
    root = names["sample_0"].data.spans[0]
    assert (root.attributes["nel.reward"], root.attributes["nel.category"]) == (1.0, "algebra")
    assert [span.span_type for span in names["sample_0"].data.spans] == ["AGENT", "LLM"]
    assert str(names["sample_1.r1"].info.state).endswith("ERROR")


def test_an_agents_trace_shows_each_call_with_its_time(
    run_dir: Path, settings: dict[str, Any]
) -> None:
    export_bundles(
        "mlflow",
        [run_dir / "agents"],
        settings | {"emit_traces_max_samples": 1, "emit_traces_content_max": 4},
    )
    client, experiment = _client(settings)
    (trace,) = client.search_traces(locations=[experiment])
    spans = {span.name: span for span in trace.data.spans}
    kinds = sorted(span.span_type for span in trace.data.spans)
    assert kinds == ["AGENT", "CHAIN", "CHAIN", "LLM", "LLM", "TOOL"]
    tool = spans["bash"]
    assert (tool.end_time_ns - tool.start_time_ns) == 7_000_000
    assert tool.inputs == {"command": "ls"}
    assert tool.outputs["content"] == "a b … (5 characters)"


def test_exporting_twice_leaves_one_run_and_no_second_trace(
    run_dir: Path, settings: dict[str, Any]
) -> None:
    for _ in range(2):
        export_bundles("mlflow", [run_dir], settings)
    client, experiment = _client(settings)
    runs = client.search_runs([experiment])
    assert sorted(run.data.params["benchmark"] for run in runs) == ["agents", "gsm8k"]
    assert len(client.search_traces(locations=[experiment], include_spans=False)) == 6
    assert len(client.get_metric_history(runs[0].info.run_id, "pass_at_1")) == 1


def _runs(settings: dict[str, Any]) -> list[Any]:
    client, experiment = _client(settings)
    return list(client.search_runs([experiment]))


def _restamp(task: Path, stamp: str, **changes: Any) -> None:
    """What a resume leaves: a bundle of another second, the same run."""
    (path,) = task.glob("eval-*.json")
    document = read_json(path) | changes
    document["run_id"] = f"eval-{stamp}-{task.name}"
    path.unlink()
    write_json(path.with_name(f"{document['run_id']}.json"), document)


def test_a_resumed_run_takes_the_place_of_what_it_was(
    run_dir: Path, settings: dict[str, Any]
) -> None:
    settings = settings | {"emit_traces_max_samples": 1}
    write_json(
        run_dir / "nel_run.json",
        asdict(RunMeta("20261115_001700_aa", "local", "/runs/one", "", "gsm8k")),
    )
    export_bundles("mlflow", [run_dir], settings)
    _restamp(run_dir / "gsm8k", "20261116T000000Z", n_results=5)
    export_bundles("mlflow", [run_dir], settings)
    runs = {run.data.params["benchmark"]: run for run in _runs(settings)}
    assert len(_runs(settings)) == 2
    assert runs["gsm8k"].data.tags["job_id"] == "eval-20261116T000000Z-gsm8k"
    assert runs["gsm8k"].data.params["n_results"] == "5"
    client, experiment = _client(settings)
    assert len(client.search_traces(locations=[experiment], include_spans=False)) == 2


def test_two_models_that_end_in_the_same_second_are_two_runs(
    run_dir: Path, settings: dict[str, Any], tmp_path: Path
) -> None:
    settings = settings | {"emit_traces": False}
    other = tmp_path / "other"
    shutil.copytree(run_dir / "gsm8k", other / "gsm8k")
    (path,) = (other / "gsm8k").glob("eval-*.json")
    write_json(path, read_json(path) | {"config": {"model": "m-2"}})
    for folder in (run_dir, other):
        write_json(
            folder / "nel_run.json",
            asdict(RunMeta("20261115_001700_aa", "local", str(folder), "", "gsm8k")),
        )
    for _ in range(2):
        export_bundles("mlflow", [run_dir / "gsm8k", other / "gsm8k"], settings)
    places = {run.data.params["model"]: run.data.params["results_dir"] for run in _runs(settings)}
    assert places == {"m-1": str(run_dir), "m-2": str(other)}


def test_traces_may_come_later_and_come_once(run_dir: Path, settings: dict[str, Any]) -> None:
    for more in ({"emit_traces": False}, {}, {}):
        export_bundles("mlflow", [run_dir / "agents"], settings | more)
    client, experiment = _client(settings)
    (run,) = client.search_runs([experiment])
    assert (
        len(
            client.search_traces(
                locations=[experiment], run_id=run.info.run_id, include_spans=False
            )
        )
        == 2
    )


def test_traces_that_mlflow_did_not_keep_fail_the_export(
    run_dir: Path, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TraceWriter, "_count", lambda self: 3)
    with pytest.raises(ExportError, match="gsm8k: MLflow kept 3 of 4 traces"):
        export_bundles("mlflow", [run_dir / "gsm8k"], settings)


def test_odd_rows_have_traces_too(odd_run: Path, settings: dict[str, Any]) -> None:
    export_bundles("mlflow", [odd_run], settings)
    client, experiment = _client(settings)
    assert len(client.search_traces(locations=[experiment], include_spans=False)) == 6


def test_names_and_values_are_made_to_fit(run_dir: Path, settings: dict[str, Any]) -> None:
    (path,) = (run_dir / "gsm8k").glob("eval-*.json")
    document = read_json(path)
    document["benchmark"]["scores"] |= {
        "pass^2": 0.25,
        "pass_at_1": 0.125,
        "f1 (macro) %": {"value": 1},
    }
    document["config"]["note"] = "x" * 9000
    document["config"]["a|b"], document["config"]["a+b"] = 1, 2
    document["config"] |= {f"key {number}": number for number in range(150)}
    write_json(path, document)
    more = {"log_config_params": True, "emit_traces": False, "tags": {"team{1}": "y" * 9000}}
    export_bundles("mlflow", [path], settings | more)
    (run,) = _runs(settings)
    metrics, params = run.data.metrics, run.data.params
    assert (metrics["pass_at_1"], metrics["pass_at_1_2"], metrics["pass_pow_2"]) == (
        0.5,
        0.125,
        0.25,
    )
    assert metrics["f1 _macro_ _"] == 1.0
    assert params["config.note"] == "x" * 249 + "…"
    assert (params["config.a_b"], params["config.a_b_2"], params["config.key 149"]) == (
        "1",
        "2",
        "149",
    )
    assert len(run.data.tags["team_1_"]) == 5000


def test_mlflows_own_settings_are_left_as_they_were(
    run_dir: Path, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    import mlflow

    mlflow.set_tracking_uri("sqlite:///mine.db")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
    export_bundles("mlflow", [run_dir / "gsm8k"], settings | {"emit_traces": False})
    assert mlflow.get_tracking_uri() == "sqlite:///mine.db"
    assert os.environ["MLFLOW_HTTP_REQUEST_MAX_RETRIES"] == "1"
    assert "MLFLOW_ASYNC_TRACE_LOGGING_MAX_SPAN_BATCH_SIZE" not in os.environ


def test_an_export_that_broke_off_is_done_again_whole(
    run_dir: Path, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    real, wrote = TraceWriter._trace, []

    def breaks(self: TraceWriter, bundle: Any, row: Any) -> str:
        if len(wrote) == 2:
            raise OSError("disk full")
        wrote.append(real(self, bundle, row))
        return wrote[-1]

    monkeypatch.setattr(TraceWriter, "_trace", breaks)
    with pytest.raises(ExportError, match="disk full"):
        export_bundles("mlflow", [run_dir / "gsm8k"], settings)
    monkeypatch.setattr(TraceWriter, "_trace", real)
    export_bundles("mlflow", [run_dir / "gsm8k"], settings)
    client, experiment = _client(settings)
    (run,) = client.search_runs([experiment])
    assert (
        len(
            client.search_traces(
                locations=[experiment], run_id=run.info.run_id, include_spans=False
            )
        )
        == 4
    )
    assert len(client.search_traces(locations=[experiment], include_spans=False)) == 4


def test_the_whole_folder_goes_without_what_is_excluded(
    run_dir: Path, settings: dict[str, Any]
) -> None:
    task = run_dir / "gsm8k"
    for name in (
        "notes.txt",
        "response_cache/x.json",
        "a.lock",
        "secret.key",
        "previous/old.json",
        "deep/er.txt",
    ):
        (task / name).parent.mkdir(exist_ok=True)
        (task / name).write_text("x")
    (run_dir / "logs").mkdir()
    (run_dir / "logs" / "server.log").write_text("x")
    more = {
        "only_required": False,
        "exclude_patterns": ["*.key"],
        "emit_traces": False,
        "copy_logs": True,
    }
    export_bundles("mlflow", [task], settings | more, output_dir=run_dir)
    client, experiment = _client(settings)
    (run,) = client.search_runs([experiment])
    names = {
        file.path
        for folder in ("gsm8k", "gsm8k/deep", "logs")
        for file in client.list_artifacts(run.info.run_id, folder)
    }
    assert {"gsm8k/notes.txt", "gsm8k/deep/er.txt", "logs/server.log"} <= names
    assert not {
        name
        for name in names
        if "cache" in name or "lock" in name or "key" in name or "previous" in name
    }


def test_the_uri_may_be_a_variables_name_and_must_be_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.setenv("MY_URI", "sqlite:///x.db")
    assert get_exporter("mlflow", tracking_uri="MY_URI").tracking_uri == "sqlite:///x.db"  # type: ignore[attr-defined]
    with pytest.raises(UsageError, match="no tracking URI"):
        get_exporter("mlflow")
    with pytest.raises(UsageError, match="NOT_SET is not set"):
        get_exporter("mlflow", tracking_uri="NOT_SET")


def test_a_password_in_the_uri_is_not_shown(
    run_dir: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with pytest.raises(ExportError) as caught:
        export_bundles("mlflow", [run_dir], {"tracking_uri": "http://me:pass-word-42@127.0.0.1:9"})
    assert "127.0.0.1" in caught.value.message
    assert "pass-word-42" not in caught.value.message
    assert _shown("https://me:pw@tracker.example:80/x") == "https://tracker.example:80/x"
    assert _shown("https://token@tracker.example/x") == "https://tracker.example/x"
    assert _shown("sqlite:////data/mlflow.db") == "sqlite:////data/mlflow.db"


def test_flatten_stops_at_its_depth() -> None:
    assert flatten({"a": {"b": {"c": 1}}, "d": 2}, "config", 2) == {
        "config.a.b": {"c": 1},
        "config.d": 2,
    }
