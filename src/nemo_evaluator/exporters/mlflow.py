"""``mlflow``: one MLflow run per bundle, with params, metrics, artifacts and a trace per row."""

import fnmatch
import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.files import safe_name
from nemo_evaluator.core.secrets import Secret, scrub
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.exporters._mlflow_traces import OWNER, TraceWriter
from nemo_evaluator.exporters.base import ExportBundle, ExportError, require

_STATE: Final = "nel.export"
_TRACED: Final = "nel.traces"
_ORIGIN: Final = "nel.run"
_PARAM_LIMIT: Final = 250
_FACTS: Final = ("run_id", "model", "timestamp", "sdk_version", "config_hash", "n_results")
_BATCH: Final = 100
# A server that is down is given up after 15 s, not four minutes; spans are stored together, at half the cost.
_DEFAULTS: Final = {
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "3",
    "MLFLOW_ASYNC_TRACE_LOGGING_MAX_SPAN_BATCH_SIZE": "500",
    # Standard output belongs to the command.
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
}
T = TypeVar("T")
_TAG_LIMIT: Final = 5000
_NEVER: Final = ("*cache*", "*.db", "*.lock", "synthetic", "debug.json", "previous", "*_inspect.*")


@dataclass
class MlflowExporter:
    """Finds the MLflow run of a bundle again by its tags ``job_id`` and ``nel.run``, so exporting twice leaves one run.
    A run whose export broke off half-way is deleted and written again, and so is that of a run that was resumed
    since."""

    tracking_uri: str | None = None
    experiment_name: str = "nemo-evaluator"
    artifact_location: str | None = None
    log_config_params: bool = False
    log_config_params_max_depth: int = 10
    skip_existing: bool = False
    run_name: str | None = None
    description: str | None = None
    tags: Mapping[str, str] | None = None
    extra_metadata: Mapping[str, Any] | None = None
    copy_artifacts: bool = True
    only_required: bool = True
    copy_logs: bool = False
    exclude_patterns: Sequence[str] = ()
    emit_traces: bool = True
    emit_traces_max_samples: int | None = None
    emit_traces_content_max: int = 4000

    def __post_init__(self) -> None:
        require("mlflow")
        self.tracking_uri = self.uri = _resolve_uri(self.tracking_uri)

    def export(self, bundles: Sequence[ExportBundle], config: JsonDict) -> list[str]:
        """Send each bundle; what fails does not keep the others back, and is raised at the end."""
        mlflow = import_module("mlflow")
        places = []
        broken = []
        with _mlflow_set_to(self.uri):
            client = mlflow.MlflowClient(tracking_uri=self.uri)
            experiment = self._experiment(client)
            for bundle in bundles:
                try:
                    places.append(self._export_one(client, experiment, bundle))
                except (mlflow.exceptions.MlflowException, ExportError, OSError) as error:
                    broken.append(scrub(f"{bundle.name}: {error}"))
        if broken:
            raise ExportError("; ".join(broken))
        return places

    def _experiment(self, client: Any) -> str:
        found = client.get_experiment_by_name(self.experiment_name)
        if found is not None:
            return str(found.experiment_id)
        # With a SQLite file artifacts go beside it, not into the current directory.
        database = re.fullmatch(r"sqlite:///(?P<path>.+)", self.uri)
        if database:
            beside: str | None = (Path(database["path"]).resolve().parent / "mlartifacts").as_uri()
        else:
            beside = None
        location = self.artifact_location or beside
        return str(client.create_experiment(self.experiment_name, artifact_location=location))

    def _export_one(self, client: Any, experiment: str, bundle: ExportBundle) -> str:
        existing, outdated = self._find(client, experiment, bundle)
        if existing is not None and self.skip_existing:
            return f"{_shown(self.uri)} run {existing} (already exported)"
        run_id = existing or self._create(client, experiment, bundle)
        self._log_metrics(client, run_id, bundle)
        if self.copy_artifacts:
            self._log_artifacts(client, run_id, bundle)
        if self.emit_traces and _TRACED not in client.get_run(run_id).data.tags:
            writer = TraceWriter(
                client, experiment, run_id, content_max=self.emit_traces_content_max
            )
            writer.write(bundle, limit=self.emit_traces_max_samples)
            client.set_tag(run_id, _TRACED, "true")
        if existing is None:
            client.set_terminated(run_id, "FINISHED")
            client.set_tag(run_id, _STATE, "complete")
        for old in outdated:
            self._delete(client, experiment, old)
        return f"{_shown(self.uri)} run {run_id}"

    def _find(
        self, client: Any, experiment: str, bundle: ExportBundle
    ) -> tuple[str | None, list[str]]:
        """The MLflow run of this bundle, and those to be deleted: half-written ones, and what the run was before it
        was resumed."""
        origin = bundle.origin
        wanted = [f"tags.job_id = '{_job(bundle)}'"] + (
            [f"tags.`{_ORIGIN}` = '{origin}'"] if origin else []
        )
        found: dict[Any, Any] = {}
        for filter_string in wanted:
            for run in client.search_runs([experiment], filter_string=filter_string):
                if run.data.tags.get(_ORIGIN, origin) == origin:
                    found[run.info.run_id] = run.data.tags
        whole: list[Any] = []
        for run_id, tags in found.items():
            if tags["job_id"] == _job(bundle) and tags.get(_STATE) != "started":
                whole.append(run_id)
        return (whole[0] if whole else None), [run_id for run_id in found if run_id not in whole]

    def _delete(self, client: Any, experiment: str, run_id: str) -> None:
        """A run and its traces."""
        own = f"tags.`{OWNER}` = '{run_id}'"
        while traces := client.search_traces(
            locations=[experiment], filter_string=own, include_spans=False
        ):
            client.delete_traces(experiment, trace_ids=[trace.info.trace_id for trace in traces])
        client.delete_run(run_id)

    def _create(self, client: Any, experiment: str, bundle: ExportBundle) -> str:
        tags = {
            _STATE: "started",
            "job_id": _job(bundle),
            **({_ORIGIN: bundle.origin} if bundle.origin else {}),
            "benchmark": bundle.name,
            "config_hash": bundle.config_hash,
            "sdk_version": bundle.sdk_version,
            "validity": bundle.status,
            **{str(key): str(value) for key, value in (self.tags or {}).items()},
        }
        if self.description:
            tags["mlflow.note.content"] = self.description
        cut = {key: value[:_TAG_LIMIT] for key, value in _keyed(tags).items()}
        run = client.create_run(
            experiment, run_name=self.run_name or f"eval-{bundle.run_id}", tags=cut
        )
        params: JsonDict = {
            "benchmark": bundle.name,
            **{name: getattr(bundle, name) for name in _FACTS},
            "results_dir": str(bundle.run_dir),
            **(self.extra_metadata or {}),
        }
        if self.log_config_params:
            params |= flatten(bundle.config, "config", self.log_config_params_max_depth)
        param = import_module("mlflow.entities").Param
        logged = [param(key, _cut(str(value))) for key, value in _keyed(params).items()]
        for at in range(0, len(logged), _BATCH):
            client.log_batch(run.info.run_id, params=logged[at : at + _BATCH])
        return str(run.info.run_id)

    def _log_metrics(self, client: Any, run_id: str, bundle: ExportBundle) -> None:
        known = client.get_run(run_id).data.metrics
        metric = import_module("mlflow.entities").Metric
        now = int(time.time() * 1000)
        new: list[Any] = []
        for key, value in _keyed(bundle.metrics()).items():
            if known.get(key) != value:
                new.append(metric(key, value, now, 0))
        for at in range(0, len(new), _BATCH):
            client.log_batch(run_id, metrics=new[at : at + _BATCH])

    def _log_artifacts(self, client: Any, run_id: str, bundle: ExportBundle) -> None:
        task = bundle.path.parent
        target = safe_name(bundle.name)
        if self.only_required:
            chosen = [path for path in (bundle.path, bundle.results) if path.is_file()]
        else:
            never = (*_NEVER, *self.exclude_patterns)
            files = [path for path in sorted(task.rglob("*")) if path.is_file()]
            chosen = []
            for one in files:
                if not any(fnmatch.filter(one.relative_to(task).parts, p) for p in never):
                    chosen.append(one)
        for path in chosen:
            within = path.parent.relative_to(task).as_posix()
            client.log_artifact(
                run_id, str(path), target if within == "." else f"{target}/{within}"
            )
        if self.copy_logs:
            for path in sorted((bundle.run_dir / "logs").glob("*.log")):
                client.log_artifact(run_id, str(path), "logs")


def _resolve_uri(given: str | None) -> str:
    """A URI, or the name of an environment variable that holds one."""
    uri = given or os.environ.get("MLFLOW_TRACKING_URI")
    if uri and "://" not in uri and not uri.startswith("databricks"):
        uri = os.environ.get(uri)
    if not uri:
        hint = "set tracking_uri (for example sqlite:///mlflow.db) or MLFLOW_TRACKING_URI"
        raise UsageError(
            f"mlflow has no tracking URI{f' ({given} is not set)' if given else ''}", hint=hint
        )
    password = urlsplit(uri).password
    if password:
        # Known from now on, it is struck out of whatever MLflow says.
        Secret(password)
    return uri


def _shown(uri: str) -> str:
    """The URI without who may use it."""
    parts = urlsplit(uri)
    if parts.password is None:
        return uri
    return uri.replace(f"{parts.netloc}", parts.netloc.rpartition("@")[2], 1)


def _job(bundle: ExportBundle) -> str:
    return bundle.run_id.replace("'", "")


def _keyed(values: Mapping[str, T]) -> dict[str, T]:
    """The values under names that MLflow takes; a number distinguishes names that become equal."""
    keyed: dict[str, T] = {}
    for name, value in values.items():
        plain = re.sub(r"[^\w\-. /:]", "_", str(name).replace("@", "_at_").replace("^", "_pow_"))[
            :_PARAM_LIMIT
        ]
        key = plain
        number = 1
        while key in keyed:
            number += 1
            key = f"{plain[: _PARAM_LIMIT - 4]}_{number}"
        keyed[key] = value
    return keyed


def _cut(text: str) -> str:
    if len(text) <= _PARAM_LIMIT:
        return text
    return f"{text[: _PARAM_LIMIT - 1]}…"


@contextmanager
def _mlflow_set_to(uri: str) -> Iterator[None]:
    """MLflow's own settings for the time of an export; what the user has set in the environment stands."""
    mlflow = import_module("mlflow")
    # Several writers of one SQLite file keep each other waiting until MLflow drops spans.
    wanted = _DEFAULTS | (
        {"MLFLOW_ASYNC_TRACE_LOGGING_MAX_WORKERS": "1"} if uri.startswith("sqlite:") else {}
    )
    before = mlflow.get_tracking_uri()
    ours = {key: value for key, value in wanted.items() if key not in os.environ}
    os.environ.update(ours)
    mlflow.set_tracking_uri(uri)
    try:
        yield
    finally:
        mlflow.set_tracking_uri(before)
        for key in ours:
            os.environ.pop(key, None)


def flatten(value: Any, prefix: str, depth: int) -> JsonDict:
    """A nested config as dotted names, down to ``depth``."""
    if isinstance(value, dict) and value and depth > 0:
        flat: JsonDict = {}
        for key, part in value.items():
            flat |= flatten(part, f"{prefix}.{key}", depth - 1)
        return flat
    return {prefix: value}


KIND: Final = MlflowExporter
