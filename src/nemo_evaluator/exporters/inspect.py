"""``inspect``: a run as an Inspect log, which ``inspect view`` opens and ``read_eval_log`` reads."""

import shutil
from collections.abc import Sequence
from contextlib import AbstractContextManager
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


# A log is written row by row, in both of its forms, so that memory does not grow with the run. Inspect's own writer
# holds every sample and compares each new one with all before it: minutes for 20,000 rows.
class JsonFile(AbstractContextManager["JsonFile"]):
    """``.json``: one object; the samples come last, so that a reader of headers need not pass them. Until then they are
    an array in the file ``side``; in the other form that is one of their summaries."""

    def __init__(self, out: IO[bytes], side: IO[bytes]) -> None:
        self._out = out
        self._side = side
        self._before = b"["

    def __exit__(self, *exc: object) -> None:
        return None

    def add(self, sample: Any) -> None:
        self._note(_json(sample))

    def finish(self, header: Any) -> None:
        self._out.write(_json(header)[:-1] + b',"samples":')
        self._copy_side(self._out)
        self._out.write(b"}")

    def _note(self, item: bytes) -> None:
        self._side.write(self._before + item)
        self._before = b","

    def _copy_side(self, out: IO[bytes]) -> None:
        self._side.write(b"[]" if self._before == b"[" else b"]")
        self._side.seek(0)
        shutil.copyfileobj(self._side, out)


class EvalFile(JsonFile):
    """``.eval``: a zip with a member a sample, their summaries, and the header."""

    def __init__(self, out: IO[bytes], side: IO[bytes]) -> None:
        super().__init__(out, side)
        self._zip = ZipFile(out, "w", compression=ZIP_DEFLATED, compresslevel=_LEVEL)

    def __exit__(self, *exc: object) -> None:
        self._zip.close()

    def add(self, sample: Any) -> None:
        """One member, and one entry among the summaries."""
        self._zip.writestr(f"samples/{sample.id}_epoch_{sample.epoch}.json", _json(sample))
        self._note(_json(sample.summary()))

    def finish(self, header: Any) -> None:
        """The summaries, the header, and the start record that readers of unfinished logs look at."""
        with self._zip.open("summaries.json", "w") as member:
            self._copy_side(member)
        start = {"version": header.version, "eval": header.eval, "plan": header.plan}
        self._zip.writestr("_journal/start.json", _json(start))
        self._zip.writestr("header.json", _json(header))


def _json(value: Any) -> bytes:
    """JSON as Inspect writes it: without nulls; NaN and infinity become null, which readers accept."""
    plain = to_jsonable_python(value, exclude_none=True, inf_nan_mode="constants")
    return orjson.dumps(plain, option=orjson.OPT_NON_STR_KEYS)


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
    folders: list[Path] = []
    for task in tasks:
        folders.append(
            output_dir / task.name
            if names.count(task.name) == 1
            else output_dir / task.parent.name / task.name
        )
    results: list[Path] = []
    for number, folder in enumerate(folders):
        results.append(
            folder if folders.count(folder) == 1 else folder.with_name(f"{folder.name}-{number}")
        )
    return results


def write_log(bundle: ExportBundle, target: Path, kind: type[JsonFile]) -> None:
    """Write the rows of a bundle as samples, then the header."""
    count = 0
    ids = dict[int, None]()
    usage = JsonDict()
    with (
        replacing(target) as out,
        TemporaryFile(dir=target.parent) as side,
        kind(out, side) as file,
    ):
        for row in bundle.rows():
            count += 1
            one = sample.to_sample(row, bundle.model)
            ids[one.id] = None
            for name, used in one.model_usage.items():
                usage[name] = usage[name] + used if name in usage else used
            file.add(one)
        file.finish(to_header(bundle, count, list(ids), usage=usage))


def to_header(bundle: ExportBundle, count: int, ids: list[int], usage: JsonDict) -> Any:
    """The bundle as an EvalLog without its samples; of these their number, their ids and what they used."""
    bench = bundle.benchmark
    coverage = bundle.coverage
    scored = count if coverage.scored is None else coverage.scored
    reasons = "; ".join(bundle.validity.get("reasons") or [])
    error = bundle.document.get("error") or (
        (reasons or "there are no rows") if not count else None
    )
    return log.EvalLog(
        status="error" if error else "success",
        eval=_spec(bundle, ids),
        plan=log.EvalPlan(name="nel", steps=[log.EvalPlanStep(solver=_solver(bundle), params={})]),
        results=log.EvalResults(
            total_samples=coverage.planned or count,
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
        stats=log.EvalStats(**_times(bundle), model_usage=usage),
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
    config = bundle.config
    bench = bundle.benchmark
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
            shuffled=bool(
                (config.get("shuffle") or {}).get("applied", config.get("shuffle_seed") is not None)
            ),
        ),
        model=bundle.model or sample.NO_MODEL,
        model_base_url=config.get("base_url"),
        model_generate_config=model.GenerateConfig(
            **{k: v for k, v in generation.items() if k in known}
        ),
        config=log.EvalConfig(epochs=bench.get("repeats") or 1, limit=config.get("max_problems")),
        packages={"nemo_evaluator": bundle.sdk_version},
        scorers=[{"name": name} for name in (sample.NATIVE, *map(sample.score_name, extra))],
        metadata={"config_hash": bundle.document.get("config_hash"), "nel_config": config},
    )


def _scores(bundle: ExportBundle, scored: int, failed: int | None) -> list[Any]:
    raw = as_dict(bundle.benchmark.get("scores"))
    native: dict[str, Any] = {}
    for score in bundle.scores:
        if not score.name.startswith("scorer:"):
            native[score.name] = raw[score.name]
    extra = [score.name for score in bundle.scores if score.name not in native]
    groups = {sample.NATIVE: native} | {
        sample.score_name(name): {"mean": raw[name]} for name in extra
    }
    results: list[Any] = []
    for scorer, metrics in groups.items():
        results.append(
            log.EvalScore(
                name=scorer,
                scorer=scorer,
                scored_samples=scored,
                unscored_samples=failed,
                metrics={name: _metric(name, fields) for name, fields in metrics.items()},
            )
        )
    return results


def _metric(name: str, raw: Any) -> Any:
    if isinstance(raw, dict):
        rest = dict(raw)
    else:
        rest = {"value": raw}
    return log.EvalMetric(name=name, value=float(rest.pop("value")), metadata=rest or None)


KIND = InspectExporter
