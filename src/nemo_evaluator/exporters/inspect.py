"""``inspect``: a run as an Inspect log, which ``inspect view`` opens and ``read_eval_log`` reads."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, Literal, get_args

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.files import replacing, safe_name
from nemo_evaluator.core.json_coerce import as_dict
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.exporters import _inspect_sample as sample
from nemo_evaluator.exporters._inspect_file import EvalFile, JsonFile
from nemo_evaluator.exporters._inspect_sample import log, model
from nemo_evaluator.exporters.base import ExportBundle, require

Format = Literal["eval", "json"]


class InspectExporter:
    """Writes ``<task>/<task>_inspect.eval`` (or ``.json``) for each bundle."""

    def __init__(self, format: Format = "eval") -> None:
        if format not in get_args(Format):
            raise UsageError(f"inspect has no format {format!r}", hint="use eval or json")
        require("inspect_ai")
        self.format = format

    def export(self, bundles: Sequence[ExportBundle], config: JsonDict) -> list[str]:
        folders = _folders(bundles, Path(config["output_dir"]))
        written = []
        for bundle, folder in zip(bundles, folders, strict=True):
            target = folder / f"{safe_name(bundle.name)}_inspect.{self.format}"
            write_log(bundle, target, EvalFile if self.format == "eval" else JsonFile)
            written.append(str(target))
        return written


def _folders(bundles: Sequence[ExportBundle], output_dir: Path) -> list[Path]:
    """Beside each bundle when the output directory is a run's own; else below it, one folder a benchmark, with the
    run's name above where two runs have the same one."""
    tasks = [bundle.path.parent for bundle in bundles]
    if any(output_dir.resolve() in [task.resolve(), *task.resolve().parents] for task in tasks):
        return tasks
    names = [task.name for task in tasks]
    folders = [
        output_dir / task.name if names.count(task.name) == 1 else output_dir / task.parent.name / task.name
        for task in tasks
    ]
    return [
        folder if folders.count(folder) == 1 else folder.with_name(f"{folder.name}-{number}")
        for number, folder in enumerate(folders)
    ]


def write_log(bundle: ExportBundle, target: Path, kind: type[JsonFile]) -> None:
    """The rows of a bundle as samples, then what is to be said of them all."""
    seen = _Seen()
    with replacing(target) as out, TemporaryFile(dir=target.parent) as side, kind(out, side) as file:
        for row in bundle.rows():
            one = sample.to_sample(row, bundle.model)
            seen.add(one)
            file.add(one)
        file.finish(to_header(bundle, seen))


@dataclass(slots=True)
class _Seen:
    """What the header needs to know of the samples."""

    count: int = 0
    ids: dict[int, None] = field(default_factory=dict)
    usage: JsonDict = field(default_factory=dict)

    def add(self, one: Any) -> None:
        self.count += 1
        self.ids[one.id] = None
        for name, used in one.model_usage.items():
            self.usage[name] = self.usage[name] + used if name in self.usage else used


def to_header(bundle: ExportBundle, seen: _Seen) -> Any:
    """The bundle as an EvalLog without its samples."""
    bench, coverage = bundle.benchmark, bundle.coverage
    scored = seen.count if coverage.scored is None else coverage.scored
    reasons = "; ".join(bundle.validity.get("reasons") or [])
    error = bundle.document.get("error") or ((reasons or "there are no rows") if not seen.count else None)
    return log.EvalLog(
        status="error" if error else "success",
        eval=_spec(bundle, list(seen.ids)),
        plan=log.EvalPlan(name="nel", steps=[log.EvalPlanStep(solver=_solver(bundle), params={})]),
        results=log.EvalResults(
            total_samples=coverage.planned or seen.count,
            completed_samples=scored,
            scores=_scores(bundle, scored, coverage.failed),
            metadata={
                "coverage": bench.get("coverage") or {},
                "truncated_share": bench.get("truncated_share"),
                "unparsed_share": bench.get("unparsed_share"),
                "categories": bench.get("categories") or {},
                "validity": bundle.validity,
            },
        ),
        stats=log.EvalStats(**_times(bundle), model_usage=seen.usage),
        error=sample.to_error(str(error)) if error else None,
    )


def _times(bundle: ExportBundle) -> dict[str, str]:
    """When it began and ended; the viewer computes with both."""
    stamp = bundle.timestamp
    if not stamp:
        return {}
    began = datetime.fromisoformat(stamp) - timedelta(seconds=bundle.runtime.elapsed_seconds or 0.0)
    return {"started_at": began.isoformat(), "completed_at": stamp}


def _solver(bundle: ExportBundle) -> str:
    return str((bundle.config.get("solver") or {}).get("type") or "simple")


def _spec(bundle: ExportBundle, ids: list[int]) -> Any:
    config, bench = bundle.config, bundle.benchmark
    generation = config.get("generation") or {}
    known = model.GenerateConfig.model_fields
    extra = [one.name for one in bundle.scores if one.name.startswith("scorer:")]
    return log.EvalSpec(
        eval_id=bundle.run_id,
        run_id=bundle.run_id,
        created=bundle.timestamp,
        task=bundle.name,
        task_id=bundle.run_id,
        solver=_solver(bundle),
        tags=["INVALID"] if bundle.invalid else None,
        dataset=log.EvalDataset(
            name=bundle.name,
            samples=bench.get("samples"),
            sample_ids=ids or None,
            shuffled=bool((config.get("shuffle") or {}).get("applied", config.get("shuffle_seed") is not None)),
        ),
        model=bundle.model or sample.NO_MODEL,
        model_base_url=config.get("base_url"),
        model_generate_config=model.GenerateConfig(**{k: v for k, v in generation.items() if k in known}),
        config=log.EvalConfig(epochs=bench.get("repeats") or 1, limit=config.get("max_problems")),
        packages={"nemo_evaluator": bundle.sdk_version},
        scorers=[{"name": name} for name in (sample.NATIVE, *map(sample.score_name, extra))],
        metadata={"config_hash": bundle.document.get("config_hash"), "nel_config": config},
    )


def _scores(bundle: ExportBundle, scored: int, failed: int | None) -> list[Any]:
    raw = as_dict(bundle.benchmark.get("scores"))
    native = {score.name: raw[score.name] for score in bundle.scores if not score.name.startswith("scorer:")}
    extra = [score.name for score in bundle.scores if score.name not in native]
    groups = {sample.NATIVE: native} | {sample.score_name(name): {"mean": raw[name]} for name in extra}
    return [
        log.EvalScore(
            name=scorer,
            scorer=scorer,
            scored_samples=scored,
            unscored_samples=failed,
            metrics={name: _metric(name, fields) for name, fields in metrics.items()},
        )
        for scorer, metrics in groups.items()
    ]


def _metric(name: str, raw: Any) -> Any:
    rest = dict(raw) if isinstance(raw, dict) else {"value": raw}
    return log.EvalMetric(name=name, value=float(rest.pop("value")), metadata=rest or None)


KIND = InspectExporter
