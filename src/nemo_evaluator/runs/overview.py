"""A short summary of a run for lists of runs: model, score and coverage of each benchmark."""

from dataclasses import dataclass
from pathlib import Path

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.files import safe_name
from nemo_evaluator.core.json_coerce import as_count, as_dict, as_list
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.runs.bundle import newest_bundle
from nemo_evaluator.runs.folder import BenchmarkFolder
from nemo_evaluator.runs.unfinished import read_checkpoint
from nemo_evaluator.store.layout import TaskPaths
from nemo_evaluator.store.run_registry import RunMeta, load_run


@dataclass(frozen=True, slots=True)
class BenchmarkLine:
    """One benchmark of a run; ``verdict`` and ``score`` are None until it has finished."""

    name: str
    model: str
    verdict: str | None = None
    metric: str | None = None
    score: float | None = None
    coverage: float | None = None
    # The score corrected by labels, if there are any.
    corrected: float | None = None


def overview(run: RunMeta) -> list[BenchmarkLine]:
    """Return the benchmarks of a run, finished or not; empty if its folder is gone or holds a later run."""
    root = Path(run.output_dir)
    current_run = load_run(root)
    if current_run is None or current_run.run_id != run.run_id:
        return []
    checkpoint = read_checkpoint(root)
    planned = as_list(checkpoint.get("planned_benchmarks")) or [
        path.name for path in root.iterdir() if path.is_dir()
    ]
    sessions = as_dict(checkpoint.get("sessions"))
    model = str(run.details.get("model") or "")
    benchmark_lines: list[BenchmarkLine] = []
    for key in map(str, planned):
        line = _line(root / safe_name(key), key, model, session=as_dict(sessions.get(key)))
        if line is not None:
            benchmark_lines.append(line)
    return benchmark_lines


def _line(folder: Path, key: str, model: str, session: JsonDict) -> BenchmarkLine | None:
    """Return the line of one benchmark, or None if it has not started and has no journal."""
    try:
        bundle = newest_bundle(folder)
        if bundle is not None:
            score = bundle.headline
            share = bundle.coverage.share
            metric_name, headline_value = (
                (score.name, score.value) if score is not None else (None, None)
            )
            if bundle.corrected is not None:
                corrected_score: float | None = bundle.corrected.value
            else:
                corrected_score = None
            return BenchmarkLine(
                key,
                bundle.model or model,
                bundle.status,
                metric=metric_name,
                score=headline_value,
                coverage=share,
                corrected=corrected_score,
            )
        if not TaskPaths(folder).journal.is_file():
            if session:
                return BenchmarkLine(key, model)
            return None
        progress = BenchmarkFolder(folder).progress()
        total = as_count(session.get("planned"))
    except UsageError:
        # `nel check` and `nel eval status` report what is wrong with the files.
        return BenchmarkLine(key, model, verdict="UNREADABLE")
    return BenchmarkLine(key, model, coverage=progress.scored / total if total else None)
