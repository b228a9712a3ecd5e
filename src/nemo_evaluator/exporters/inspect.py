"""``inspect``: a run as an Inspect log, for ``inspect view`` and ``read_eval_log``."""

import shutil
from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, Final, Literal, get_args
from zipfile import ZIP_DEFLATED, ZipFile

import orjson
from pydantic_core import to_jsonable_python

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.files import replacing, safe_name
from nemo_evaluator.core.json_coerce import as_dict
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.exporters import _inspect_sample as sample
from nemo_evaluator.exporters._inspect_sample import log, model
from nemo_evaluator.exporters.base import ExportBundle, require

Format = Literal["eval", "json"]
_LEVEL: Final = 5


# Both formats are written row by row, so that memory does not grow with the run. Inspect's own writer holds every
# sample and compares each new one with all earlier ones, which takes minutes for 20,000 rows.
class JsonFile(AbstractContextManager["JsonFile"]):
    """Writes a log as ``.json``: one object whose samples come last, so that readers of the header need not parse them.

    Until ``finish``, the samples are collected as a JSON array in the side file.
    """

    def __init__(self, out: IO[bytes], side: IO[bytes]) -> None:
        """Start a log.

        Args:
            out: The file to write.
            side: A temporary file for what is written at the end.
        """
        self._out = out
        self._side = side
        self._before = b"["

    def __exit__(self, *exc: object) -> None:
        """Close nothing: the caller closes the files."""
        return None

    def add(self, sample: Any) -> None:
        """Add a sample.

        Args:
            sample: An ``inspect_ai.log.EvalSample``.
        """
        self._note(_json(sample))

    def finish(self, header: Any) -> None:
        """Write the header, then the samples.

        Args:
            header: An ``inspect_ai.log.EvalLog`` without samples.
        """
        self._out.write(_json(header)[:-1] + b',"samples":')
        self._copy_side(self._out)
        self._out.write(b"}")

    def _note(self, item: bytes) -> None:
        """Add an item to the array in the side file."""
        self._side.write(self._before + item)
        self._before = b","

    def _copy_side(self, out: IO[bytes]) -> None:
        """End the array in the side file and copy it."""
        self._side.write(b"[]" if self._before == b"[" else b"]")
        self._side.seek(0)
        shutil.copyfileobj(self._side, out)


class EvalFile(JsonFile):
    """Writes a log as ``.eval``: a zip file with one member per sample, the summaries of all samples, and the header.

    The side file collects the summaries.
    """

    def __init__(self, out: IO[bytes], side: IO[bytes]) -> None:
        """Start a log.

        Args:
            out: The file to write.
            side: A temporary file for the summaries.
        """
        super().__init__(out, side)
        self._zip = ZipFile(out, "w", compression=ZIP_DEFLATED, compresslevel=_LEVEL)

    def __exit__(self, *exc: object) -> None:
        """Write the directory of the zip file."""
        self._zip.close()

    def add(self, sample: Any) -> None:
        """Add a sample, and its summary.

        Args:
            sample: An ``inspect_ai.log.EvalSample``.
        """
        self._zip.writestr(f"samples/{sample.id}_epoch_{sample.epoch}.json", _json(sample))
        self._note(_json(sample.summary()))

    def finish(self, header: Any) -> None:
        """Write the summaries, the header, and the start record that Inspect's readers of unfinished logs expect.

        Args:
            header: An ``inspect_ai.log.EvalLog`` without samples.
        """
        with self._zip.open("summaries.json", "w") as member:
            self._copy_side(member)
        start = {"version": header.version, "eval": header.eval, "plan": header.plan}
        self._zip.writestr("_journal/start.json", _json(start))
        self._zip.writestr("header.json", _json(header))


def _json(value: Any) -> bytes:
    """Serialize as Inspect does: without null fields; NaN and infinity become null, which readers accept."""
    json_value = to_jsonable_python(value, exclude_none=True, inf_nan_mode="constants")
    return orjson.dumps(json_value, option=orjson.OPT_NON_STR_KEYS)


class InspectExporter:
    """Writes ``<task>/<task>_inspect.eval`` (or ``.json``) for each bundle.

    Attributes:
        format: ``eval`` or ``json``.
    """

    def __init__(self, format: Format = "eval") -> None:
        """Create an exporter.

        Args:
            format: ``eval`` or ``json``.

        Raises:
            UsageError: The format is unknown.
            MissingExtraError: Inspect is not installed.
        """
        if format not in get_args(Format):
            raise UsageError(f"inspect has no format {format!r}", hint="use eval or json")
        require("inspect_ai")
        self.format = format

    def export(self, bundles: Sequence[ExportBundle], config: JsonDict) -> list[str]:
        """Write one log per bundle.

        Args:
            bundles: The finished benchmarks.
            config: ``output_dir`` is the folder to write to, unless it is a run's own folder.

        Returns:
            The paths of the logs.
        """
        folders = _folders(bundles, Path(config["output_dir"]))
        kind = EvalFile if self.format == "eval" else JsonFile
        log_paths: list[str] = []
        for bundle, folder in zip(bundles, folders, strict=True):
            target = folder / f"{safe_name(bundle.name)}_inspect.{self.format}"
            write_log(bundle, target, kind)
            log_paths.append(str(target))
        return log_paths


def _folders(bundles: Sequence[ExportBundle], output_dir: Path) -> list[Path]:
    """Choose the folder of each bundle's log.

    When the output directory is a run's own, logs go beside the bundles. Otherwise each benchmark gets a folder below
    it; benchmarks of the same name are separated by the names of their runs, and then by numbers.
    """
    task_folders = [bundle.path.parent for bundle in bundles]
    absolute_output = output_dir.resolve()
    for task_folder in task_folders:
        absolute_folder = task_folder.resolve()
        if absolute_output == absolute_folder or absolute_output in absolute_folder.parents:
            return task_folders
    name_counts = Counter(task_folder.name for task_folder in task_folders)
    folders: list[Path] = []
    for task_folder in task_folders:
        if name_counts[task_folder.name] == 1:
            folders.append(output_dir / task_folder.name)
        else:
            folders.append(output_dir / task_folder.parent.name / task_folder.name)
    folder_counts = Counter(folders)
    unique_folders: list[Path] = []
    for number, folder in enumerate(folders):
        if folder_counts[folder] == 1:
            unique_folders.append(folder)
        else:
            unique_folders.append(folder.with_name(f"{folder.name}-{number}"))
    return unique_folders


def write_log(bundle: ExportBundle, target: Path, kind: type[JsonFile]) -> None:
    """Write the rows of a bundle as samples, then the header.

    Args:
        bundle: The finished benchmark.
        target: The log to write; it is replaced only when the new one is complete.
        kind: The format of the log.
    """
    rows = LoggedRows()
    with (
        replacing(target) as log_file,
        TemporaryFile(dir=target.parent) as side_file,
        kind(log_file, side_file) as writer,
    ):
        for row in bundle.rows():
            eval_sample = sample.to_sample(row, bundle.model)
            rows.add(eval_sample)
            writer.add(eval_sample)
        writer.finish(to_header(bundle, rows))


@dataclass(slots=True)
class LoggedRows:
    """What the header of a log says about its samples.

    Attributes:
        count: The number of rows.
        ids: The ids of the problems; a dict keeps their order.
        usage: The tokens that were used, by model.
    """

    count: int = 0
    ids: dict[int, None] = field(default_factory=dict)
    usage: JsonDict = field(default_factory=dict)

    def add(self, eval_sample: Any) -> None:
        """Count a sample.

        Args:
            eval_sample: An ``inspect_ai.log.EvalSample``.
        """
        self.count += 1
        self.ids[eval_sample.id] = None
        for model_name, usage in eval_sample.model_usage.items():
            if model_name in self.usage:
                self.usage[model_name] += usage
            else:
                self.usage[model_name] = usage


def to_header(bundle: ExportBundle, rows: LoggedRows) -> Any:
    """Convert a bundle to an Inspect log without samples.

    Args:
        bundle: The finished benchmark.
        rows: Its rows.

    Returns:
        An ``inspect_ai.log.EvalLog``; its status is ``error`` when the bundle has an error or no rows.
    """
    bench = bundle.benchmark
    coverage = bundle.coverage
    scored = coverage.scored
    if scored is None:
        scored = rows.count
    results = log.EvalResults(
        total_samples=coverage.planned or rows.count,
        completed_samples=scored,
        scores=_scores(bundle, scored, coverage.failed),
        metadata={
            "coverage": bench.get("coverage") or {},
            "truncated_share": bench.get("truncated_share"),
            "unparsed_share": bench.get("unparsed_share"),
            "categories": bench.get("categories") or {},
            "validity": bundle.validity,
        },
    )
    step = log.EvalPlanStep(solver=_solver(bundle), params={})
    status = "success"
    eval_error = None
    error = _error(bundle, rows.count)
    if error is not None:
        status = "error"
        eval_error = sample.to_error(error)
    return log.EvalLog(
        status=status,
        eval=_spec(bundle, list(rows.ids)),
        plan=log.EvalPlan(name="nel", steps=[step]),
        results=results,
        stats=log.EvalStats(**_times(bundle), model_usage=rows.usage),
        error=eval_error,
    )


def _error(bundle: ExportBundle, row_count: int) -> str | None:
    """Return the error of the bundle, or why it has no rows; None if it has rows and no error."""
    error = bundle.document.get("error")
    if error:
        return str(error)
    if row_count:
        return None
    reasons = "; ".join(bundle.validity.get("reasons") or [])
    return reasons or "there are no rows"


def _times(bundle: ExportBundle) -> dict[str, str]:
    """Return when the benchmark started and ended; Inspect's viewer needs both."""
    completed_at = bundle.timestamp
    if not completed_at:
        return {}
    elapsed = timedelta(seconds=bundle.runtime.elapsed_seconds or 0.0)
    started_at = datetime.fromisoformat(completed_at) - elapsed
    return {"started_at": started_at.isoformat(), "completed_at": completed_at}


def _solver(bundle: ExportBundle) -> str:
    """Return the type of the run's solver."""
    solver = bundle.config.get("solver") or {}
    return str(solver.get("type") or "simple")


def _spec(bundle: ExportBundle, ids: list[int]) -> Any:
    """Return what was evaluated: the task, its dataset, the model, the settings and the scorers."""
    config = bundle.config
    bench = bundle.benchmark
    scorers = [sample.NATIVE]
    scorers += [sample.score_name(name) for name in _extra_scorers(bundle)]
    dataset = log.EvalDataset(
        name=bundle.name,
        samples=bench.get("samples"),
        sample_ids=ids or None,
        shuffled=_shuffled(config),
    )
    run_config = log.EvalConfig(epochs=bench.get("repeats") or 1, limit=config.get("max_problems"))
    return log.EvalSpec(
        eval_id=bundle.run_id,
        run_id=bundle.run_id,
        created=bundle.timestamp,
        task=bundle.name,
        task_id=bundle.run_id,
        solver=_solver(bundle),
        tags=["INVALID"] if bundle.invalid else None,
        dataset=dataset,
        model=bundle.model or sample.NO_MODEL,
        model_base_url=config.get("base_url"),
        model_generate_config=_generate_config(config.get("generation") or {}),
        config=run_config,
        packages={"nemo_evaluator": bundle.sdk_version},
        scorers=[{"name": name} for name in scorers],
        metadata={"config_hash": bundle.document.get("config_hash"), "nel_config": config},
    )


def _extra_scorers(bundle: ExportBundle) -> list[str]:
    """Return the names of the scores of extra scorers."""
    return [score.name for score in bundle.scores if score.name.startswith("scorer:")]


def _shuffled(config: JsonDict) -> bool:
    """Return whether the problems were shuffled."""
    shuffle = config.get("shuffle") or {}
    if "applied" in shuffle:
        return bool(shuffle["applied"])
    return config.get("shuffle_seed") is not None


def _generate_config(generation: JsonDict) -> Any:
    """Return the settings of the generation that Inspect knows."""
    known_settings = model.GenerateConfig.model_fields
    settings: JsonDict = {}
    for name, value in generation.items():
        if name in known_settings:
            settings[name] = value
    return model.GenerateConfig(**settings)


def _scores(bundle: ExportBundle, scored: int, failed: int | None) -> list[Any]:
    """Return the scores of the bundle: all metrics of the reward as one scorer, and one scorer per extra metric."""
    raw_scores = as_dict(bundle.benchmark.get("scores"))
    extra_scorers = _extra_scorers(bundle)
    reward_metrics: JsonDict = {}
    for score in bundle.scores:
        if score.name not in extra_scorers:
            reward_metrics[score.name] = raw_scores[score.name]
    metrics_by_scorer = {sample.NATIVE: reward_metrics}
    for name in extra_scorers:
        metrics_by_scorer[sample.score_name(name)] = {"mean": raw_scores[name]}
    eval_scores: list[Any] = []
    for scorer, metrics in metrics_by_scorer.items():
        eval_score = log.EvalScore(
            name=scorer,
            scorer=scorer,
            scored_samples=scored,
            unscored_samples=failed,
            metrics={name: _metric(name, raw_metric) for name, raw_metric in metrics.items()},
        )
        eval_scores.append(eval_score)
    return eval_scores


def _metric(name: str, raw: Any) -> Any:
    """Convert a score of the bundle; everything besides its value becomes metadata."""
    fields = dict(raw) if isinstance(raw, dict) else {"value": raw}
    return log.EvalMetric(name=name, value=float(fields.pop("value")), metadata=fields or None)


KIND = InspectExporter
