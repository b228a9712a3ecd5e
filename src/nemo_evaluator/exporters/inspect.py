"""``inspect``: a run as an Inspect log, which ``inspect view`` opens and ``read_eval_log`` reads."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, get_args

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.files import safe_name
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.exporters import _inspect_sample as sample
from nemo_evaluator.exporters._optional import load, require
from nemo_evaluator.exporters.base import ExportBundle

Format = Literal["eval", "json"]
NATIVE = "reward"


class InspectExporter:
    """Writes ``<task>/<task>_inspect.eval`` (or ``.json``) for each bundle."""

    def __init__(self, format: Format = "eval") -> None:
        if format not in get_args(Format):
            raise UsageError(f"inspect has no format {format!r}", hint="use eval or json")
        require("inspect_ai")
        self.format = format

    def export(self, bundles: Sequence[ExportBundle], config: JsonDict) -> list[str]:
        """Write one log per bundle; an existing log of the bundle is replaced."""
        log = load("inspect_ai.log")
        written = []
        for bundle in bundles:
            target = _folder(bundle, Path(config["output_dir"])) / f"{safe_name(bundle.name)}_inspect.{self.format}"
            target.parent.mkdir(parents=True, exist_ok=True)
            log.write_eval_log(to_log(bundle), str(target), format=self.format)
            written.append(str(target))
        return written


def _folder(bundle: ExportBundle, output_dir: Path) -> Path:
    """Beside the bundle when it lies in the output directory, else in a folder of the same name there."""
    task = bundle.path.parent
    inside = output_dir.resolve() in [task.resolve(), *task.resolve().parents]
    return task if inside else output_dir / task.name


def to_log(bundle: ExportBundle) -> Any:
    """The bundle and its rows as an EvalLog."""
    log = load("inspect_ai.log")
    samples = [sample.to_sample(row, bundle.model) for row in bundle.rows()]
    bench = bundle.document["benchmark"]
    coverage = bench.get("coverage") or {}
    scored = coverage.get("scored", len(samples))
    reasons = "; ".join(bundle.validity.get("reasons") or [])
    error = bundle.document.get("error") or (reasons if not samples else None)
    return log.EvalLog(
        status="error" if error else "success",
        eval=_spec(bundle, [one.id for one in samples if one.epoch == 1]),
        plan=log.EvalPlan(name="nel", steps=[log.EvalPlanStep(solver=_solver(bundle), params={})]),
        results=log.EvalResults(
            total_samples=coverage.get("planned") or len(samples),
            completed_samples=scored,
            scores=_scores(bundle, scored, coverage.get("failed")),
            metadata={
                "coverage": coverage,
                "truncated_share": bench.get("truncated_share"),
                "unparsed_share": bench.get("unparsed_share"),
                "categories": bench.get("categories") or {},
                "validity": bundle.validity,
            },
        ),
        stats=_stats(bundle, samples),
        error=sample.to_error(str(error)) if error else None,
        samples=samples,
    )


def _solver(bundle: ExportBundle) -> str:
    return str((bundle.config.get("solver") or {}).get("type") or "simple")


def _spec(bundle: ExportBundle, ids: list[int]) -> Any:
    log, model = load("inspect_ai.log"), load("inspect_ai.model")
    config, bench = bundle.config, bundle.document["benchmark"]
    generation = config.get("generation") or {}
    known = model.GenerateConfig.model_fields
    return log.EvalSpec(
        eval_id=bundle.run_id,
        run_id=bundle.run_id,
        created=str(bundle.document.get("timestamp") or ""),
        task=bundle.name,
        task_id=bundle.run_id,
        solver=_solver(bundle),
        tags=["INVALID"] if bundle.validity.get("status") == "INVALID" else None,
        dataset=log.EvalDataset(
            name=bundle.name,
            samples=bench.get("samples"),
            sample_ids=ids or None,
            shuffled=bool((config.get("shuffle") or {}).get("applied", config.get("shuffle_seed") is not None)),
        ),
        model=bundle.model or "none/none",
        model_base_url=config.get("base_url"),
        model_generate_config=model.GenerateConfig(**{k: v for k, v in generation.items() if k in known}),
        config=log.EvalConfig(epochs=bench.get("repeats") or 1, limit=config.get("max_problems")),
        packages={"nemo_evaluator": str(bundle.document.get("sdk_version") or "")},
        scorers=[{"name": name} for name in _scorer_names(bundle)],
        metadata={"config_hash": bundle.document.get("config_hash"), "nel_config": config},
    )


def _scorer_names(bundle: ExportBundle) -> list[str]:
    return [NATIVE, *(name.removeprefix("scorer:") for name in bundle.scores if name.startswith("scorer:"))]


def _scores(bundle: ExportBundle, scored: int, failed: int | None) -> list[Any]:
    log = load("inspect_ai.log")
    native = {name: raw for name, raw in bundle.scores.items() if not name.startswith("scorer:")}
    groups = {NATIVE: native} | {
        name.removeprefix("scorer:"): {"mean": raw} for name, raw in bundle.scores.items() if name.startswith("scorer:")
    }
    return [
        log.EvalScore(
            name=scorer,
            scorer=scorer,
            scored_samples=scored,
            unscored_samples=failed,
            metrics={name: metric for name, raw in metrics.items() if (metric := _metric(name, raw)) is not None},
        )
        for scorer, metrics in groups.items()
    ]


def _metric(name: str, raw: Any) -> Any:
    fields = raw if isinstance(raw, dict) else {"value": raw}
    if not isinstance(fields.get("value"), int | float):
        return None
    rest = {key: value for key, value in fields.items() if key != "value"}
    return load("inspect_ai.log").EvalMetric(name=name, value=float(fields["value"]), metadata=rest or None)


def _stats(bundle: ExportBundle, samples: Sequence[Any]) -> Any:
    log, model = load("inspect_ai.log"), load("inspect_ai.model")
    usage = model.ModelUsage()
    for one in samples:
        for used in one.model_usage.values():
            usage = usage + used
    finished = str(bundle.document.get("timestamp") or "")
    return log.EvalStats(completed_at=finished, model_usage={bundle.model or "none/none": usage})
