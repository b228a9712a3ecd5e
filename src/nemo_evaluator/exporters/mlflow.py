"""``mlflow``: one MLflow run per bundle, with parameters, metrics, artifacts and one trace per row."""

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
_BATCH: Final = 100
# Give up on an unreachable server after 15 s instead of four minutes; store spans in batches, at half the cost.
_DEFAULTS: Final = {
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "3",
    "MLFLOW_ASYNC_TRACE_LOGGING_MAX_SPAN_BATCH_SIZE": "500",
    # Standard output is reserved for nel's own output.
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
}
T = TypeVar("T")
_TAG_LIMIT: Final = 5000
_NEVER: Final = ("*cache*", "*.db", "*.lock", "synthetic", "debug.json", "previous", "*_inspect.*")


@dataclass(frozen=True, slots=True)
class _EarlierExports:
    """The MLflow runs of a bundle that exist already.

    Attributes:
        complete: The complete MLflow run of the bundle, if there is one.
        outdated: Those to delete: incomplete ones, and those of the run before it was resumed.
    """

    complete: str | None
    outdated: list[str]


@dataclass
class MlflowExporter:
    """Writes each bundle to one MLflow run, which a repeated export finds again and updates.

    The tags ``job_id`` and ``nel.run`` identify the MLflow run of a bundle. An MLflow run is deleted and written again
    when its export broke off, or when the nel run was resumed since.

    Attributes:
        tracking_uri: The tracking URI, or the name of an environment variable that holds it; None for
            ``MLFLOW_TRACKING_URI``. Resolved on construction.
        experiment_name: The experiment; it is created if it does not exist.
        artifact_location: Where a new experiment stores artifacts.
        log_config_params: Whether to log the config as parameters.
        log_config_params_max_depth: How many levels of the config become separate parameters.
        skip_existing: Whether to leave a bundle that was exported before as it is.
        run_name: The name of the MLflow run; None for ``eval-<run id>``.
        description: The description of the MLflow run.
        tags: Additional tags.
        extra_metadata: Additional parameters.
        copy_artifacts: Whether to upload files.
        only_required: Whether to upload only the bundle and the results, not all files of the benchmark.
        copy_logs: Whether to upload the run's logs with the files.
        exclude_patterns: Names of files and folders not to upload, besides caches and the like.
        log_metrics: Texts of which one must occur in the name of a metric; empty for all metrics.
        emit_traces: Whether to write one trace per row.
        emit_traces_max_samples: The maximum number of traces; None for all rows.
        emit_traces_content_max: The longest text in a trace, in characters.
    """

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
    log_metrics: Sequence[str] = ()
    emit_traces: bool = True
    emit_traces_max_samples: int | None = None
    emit_traces_content_max: int = 4000

    def __post_init__(self) -> None:
        """Resolve the tracking URI.

        Raises:
            MissingExtraError: MLflow is not installed.
            UsageError: There is no tracking URI.
        """
        require("mlflow")
        self.tracking_uri = self.uri = _resolve_uri(self.tracking_uri)

    def export(self, bundles: Sequence[ExportBundle], config: JsonDict) -> list[str]:
        """Send each bundle; a failure does not stop the others.

        Args:
            bundles: The finished benchmarks.
            config: Not used.

        Returns:
            The tracking URI and the MLflow run of each bundle.

        Raises:
            ExportError: A bundle could not be sent; raised after the others were.
        """
        mlflow = import_module("mlflow")
        destinations = []
        failures = []
        with _mlflow_set_to(self.uri):
            client = mlflow.MlflowClient(tracking_uri=self.uri)
            experiment = self._experiment(client)
            for bundle in bundles:
                try:
                    destinations.append(self._export_one(client, experiment, bundle))
                except (mlflow.exceptions.MlflowException, ExportError, OSError) as error:
                    failures.append(scrub(f"{bundle.name}: {error}"))
        if failures:
            raise ExportError("; ".join(failures))
        return destinations

    def _experiment(self, client: Any) -> str:
        """Return the id of the experiment, which is created if necessary."""
        existing = client.get_experiment_by_name(self.experiment_name)
        if existing is not None:
            return str(existing.experiment_id)
        # Store the artifacts of a SQLite database beside it instead of in the current directory.
        location = self.artifact_location
        database = re.fullmatch(r"sqlite:///(?P<path>.+)", self.uri)
        if not location and database:
            folder = Path(database["path"]).resolve().parent / "mlartifacts"
            location = folder.as_uri()
        return str(client.create_experiment(self.experiment_name, artifact_location=location))

    def _export_one(self, client: Any, experiment: str, bundle: ExportBundle) -> str:
        """Send one bundle and return where it went.

        A new MLflow run is marked complete at the end; only then the outdated ones are deleted.
        """
        earlier = self._find(client, experiment, bundle)
        if earlier.complete is not None and self.skip_existing:
            return f"{_shown(self.uri)} run {earlier.complete} (already exported)"
        run_id = earlier.complete or self._create(client, experiment, bundle)
        self._log_metrics(client, run_id, bundle)
        if self.copy_artifacts:
            self._log_artifacts(client, run_id, bundle)
        if self.emit_traces and _TRACED not in client.get_run(run_id).data.tags:
            writer = TraceWriter(
                client, experiment, run_id, content_max=self.emit_traces_content_max
            )
            writer.write(bundle, limit=self.emit_traces_max_samples)
            client.set_tag(run_id, _TRACED, "true")
        if earlier.complete is None:
            client.set_terminated(run_id, "FINISHED")
            client.set_tag(run_id, _STATE, "complete")
        for old_run_id in earlier.outdated:
            self._delete(client, experiment, old_run_id)
        return f"{_shown(self.uri)} run {run_id}"

    def _find(self, client: Any, experiment: str, bundle: ExportBundle) -> _EarlierExports:
        """Find the MLflow runs of a bundle, and of the run before it was resumed."""
        job = _job(bundle)
        origin = bundle.origin
        filters = [f"tags.job_id = '{job}'"]
        if origin:
            filters.append(f"tags.`{_ORIGIN}` = '{origin}'")
        tags_by_run: dict[str, Mapping[str, str]] = {}
        for filter_string in filters:
            for run in client.search_runs([experiment], filter_string=filter_string):
                if run.data.tags.get(_ORIGIN, origin) == origin:
                    tags_by_run[run.info.run_id] = run.data.tags
        complete: str | None = None
        outdated: list[str] = []
        for run_id, tags in tags_by_run.items():
            if tags["job_id"] != job or tags.get(_STATE) == "started":
                outdated.append(run_id)
            elif complete is None:
                complete = run_id
        return _EarlierExports(complete, outdated)

    def _delete(self, client: Any, experiment: str, run_id: str) -> None:
        """Delete an MLflow run and its traces."""
        owner_filter = f"tags.`{OWNER}` = '{run_id}'"
        while True:
            traces = client.search_traces(
                locations=[experiment], filter_string=owner_filter, include_spans=False
            )
            if not traces:
                break
            client.delete_traces(experiment, trace_ids=[trace.info.trace_id for trace in traces])
        client.delete_run(run_id)

    def _create(self, client: Any, experiment: str, bundle: ExportBundle) -> str:
        """Create the MLflow run of a bundle with its tags and parameters, and return its id."""
        run = client.create_run(
            experiment,
            run_name=self.run_name or f"eval-{bundle.run_id}",
            tags=self._run_tags(bundle),
        )
        run_id = str(run.info.run_id)
        param_class = import_module("mlflow.entities").Param
        params: list[Any] = []
        for key, value in _keyed(self._params(bundle)).items():
            params.append(param_class(key, _cut(str(value))))
        for start in range(0, len(params), _BATCH):
            client.log_batch(run_id, params=params[start : start + _BATCH])
        return run_id

    def _run_tags(self, bundle: ExportBundle) -> dict[str, str]:
        """Return the tags of a bundle's MLflow run, without secrets and within MLflow's limits."""
        tags = {_STATE: "started", "job_id": _job(bundle)}
        if bundle.origin:
            tags[_ORIGIN] = bundle.origin
        tags["benchmark"] = bundle.name
        tags["config_hash"] = bundle.config_hash
        tags["sdk_version"] = bundle.sdk_version
        tags["validity"] = bundle.status
        for key, value in (self.tags or {}).items():
            tags[str(key)] = str(value)
        if self.description:
            tags["mlflow.note.content"] = self.description
        return {key: scrub(value)[:_TAG_LIMIT] for key, value in _keyed(tags).items()}

    def _params(self, bundle: ExportBundle) -> JsonDict:
        """Return the parameters of a bundle's MLflow run."""
        params: JsonDict = {
            "benchmark": bundle.name,
            "run_id": bundle.run_id,
            "model": bundle.model,
            "timestamp": bundle.timestamp,
            "sdk_version": bundle.sdk_version,
            "config_hash": bundle.config_hash,
            "n_results": bundle.n_results,
            "results_dir": str(bundle.run_dir),
        }
        params |= self.extra_metadata or {}
        if self.log_config_params:
            params |= flatten(bundle.config, "config", self.log_config_params_max_depth)
        return params

    def _log_metrics(self, client: Any, run_id: str, bundle: ExportBundle) -> None:
        """Log the metrics that the MLflow run does not have yet, or has with another value."""
        logged_metrics = client.get_run(run_id).data.metrics
        metric_class = import_module("mlflow.entities").Metric
        now_ms = int(time.time() * 1000)
        changed_metrics: list[Any] = []
        for key, value in _keyed(bundle.metrics(self.log_metrics)).items():
            if logged_metrics.get(key) != value:
                changed_metrics.append(metric_class(key, value, now_ms, 0))
        for start in range(0, len(changed_metrics), _BATCH):
            client.log_batch(run_id, metrics=changed_metrics[start : start + _BATCH])

    def _log_artifacts(self, client: Any, run_id: str, bundle: ExportBundle) -> None:
        """Upload the files of a benchmark under its name, and the run's logs if they are wanted."""
        task_folder = bundle.path.parent
        target = safe_name(bundle.name)
        for path in self._selected_files(bundle):
            subfolder = path.parent.relative_to(task_folder).as_posix()
            destination = target if subfolder == "." else f"{target}/{subfolder}"
            client.log_artifact(run_id, str(path), destination)
        if self.copy_logs:
            for path in sorted((bundle.run_dir / "logs").glob("*.log")):
                client.log_artifact(run_id, str(path), "logs")

    def _selected_files(self, bundle: ExportBundle) -> list[Path]:
        """Return the files of a benchmark to upload."""
        if self.only_required:
            return [path for path in (bundle.path, bundle.results) if path.is_file()]
        task_folder = bundle.path.parent
        excluded_patterns = (*_NEVER, *self.exclude_patterns)
        selected_files: list[Path] = []
        for path in sorted(task_folder.rglob("*")):
            names = path.relative_to(task_folder).parts
            excluded = any(fnmatch.filter(names, pattern) for pattern in excluded_patterns)
            if path.is_file() and not excluded:
                selected_files.append(path)
        return selected_files


def _resolve_uri(given: str | None) -> str:
    """Return the tracking URI that the setting, or the environment variable it names, holds.

    Raises:
        UsageError: There is none.
    """
    uri = given or os.environ.get("MLFLOW_TRACKING_URI")
    if uri and "://" not in uri and not uri.startswith("databricks"):
        uri = os.environ.get(uri)
    if not uri:
        unset_variable = f" ({given} is not set)" if given else ""
        raise UsageError(
            f"mlflow has no tracking URI{unset_variable}",
            hint="set tracking_uri (for example sqlite:///mlflow.db) or MLFLOW_TRACKING_URI",
        )
    password = urlsplit(uri).password
    if password:
        # Registered as a secret, so that it is removed from MLflow's error messages.
        Secret(password)
    return uri


def _shown(uri: str) -> str:
    """Return the URI; if it has a password, without user name and password."""
    parts = urlsplit(uri)
    # A token may be the user's name.
    if "@" not in parts.netloc:
        return uri
    return uri.replace(f"{parts.netloc}", parts.netloc.rpartition("@")[2], 1)


def _job(bundle: ExportBundle) -> str:
    """Return the id of the run without quotes, which would end a string in an MLflow filter."""
    return bundle.run_id.replace("'", "")


def _keyed(values: Mapping[str, T]) -> dict[str, T]:
    """Return the values under names that MLflow accepts; names that become equal are numbered."""
    values_by_key: dict[str, T] = {}
    for name, value in values.items():
        spelled_name = str(name).replace("@", "_at_").replace("^", "_pow_")
        valid_name = re.sub(r"[^\w\-. /:]", "_", spelled_name)[:_PARAM_LIMIT]
        key = valid_name
        number = 1
        while key in values_by_key:
            number += 1
            key = f"{valid_name[: _PARAM_LIMIT - 4]}_{number}"
        values_by_key[key] = value
    return values_by_key


def _cut(text: str) -> str:
    """Return a text, cut to the length of a parameter."""
    if len(text) <= _PARAM_LIMIT:
        return text
    return f"{text[: _PARAM_LIMIT - 1]}…"


@contextmanager
def _mlflow_set_to(uri: str) -> Iterator[None]:
    """Apply our MLflow settings during an export; variables that the user has set keep their values."""
    mlflow = import_module("mlflow")
    variables = dict(_DEFAULTS)
    if uri.startswith("sqlite:"):
        # Concurrent writers of one SQLite file block each other until MLflow drops spans.
        variables["MLFLOW_ASYNC_TRACE_LOGGING_MAX_WORKERS"] = "1"
    previous_uri = mlflow.get_tracking_uri()
    set_by_us = {key: value for key, value in variables.items() if key not in os.environ}
    os.environ.update(set_by_us)
    mlflow.set_tracking_uri(uri)
    try:
        yield
    finally:
        mlflow.set_tracking_uri(previous_uri)
        for key in set_by_us:
            os.environ.pop(key, None)


def flatten(value: Any, prefix: str, depth: int) -> JsonDict:
    """Flatten a nested config to dotted names.

    Args:
        value: The config, or a part of it.
        prefix: The name of that part.
        depth: How many levels to flatten; deeper dicts stay values.
    """
    if isinstance(value, dict) and value and depth > 0:
        flat: JsonDict = {}
        for key, part in value.items():
            flat |= flatten(part, f"{prefix}.{key}", depth - 1)
        return flat
    return {prefix: value}


KIND: Final = MlflowExporter
