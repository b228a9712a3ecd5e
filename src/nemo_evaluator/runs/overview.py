"""A run in a few words: per benchmark the model, the score and the coverage, for lists of many runs."""

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
    """One benchmark of a run. ``verdict`` and ``score`` are None until it has finished."""

    name: str
    model: str
    verdict: str | None = None
    metric: str | None = None
    score: float | None = None
    coverage: float | None = None
    # The score as people would have given it, where labels say so.
    corrected: float | None = None


def overview(run: RunMeta) -> list[BenchmarkLine]:
    """The benchmarks of a run, finished or not; none when its folder is gone or holds a later run."""
    root = Path(run.output_dir)
    there = load_run(root)
    if there is None or there.run_id != run.run_id:
        return []
    checkpoint = read_checkpoint(root)
    planned = as_list(checkpoint.get("planned_benchmarks")) or [
        path.name for path in root.iterdir() if path.is_dir()
    ]
    sessions = as_dict(checkpoint.get("sessions"))
    model = str(run.details.get("model") or "")
    results: list[BenchmarkLine] = []
    for key in map(str, planned):
        line = _line(root / safe_name(key), key, model, session=as_dict(sessions.get(key)))
        if line is not None:
            results.append(line)
    return results


def _line(folder: Path, key: str, model: str, session: JsonDict) -> BenchmarkLine | None:
    try:
        bundle = newest_bundle(folder)
        if bundle is not None:
            score = bundle.headline
            share = bundle.coverage.share
            metric, value = (score.name, score.value) if score is not None else (None, None)
            if bundle.corrected is not None:
                people: float | None = bundle.corrected.value
            else:
                people = None
            return BenchmarkLine(
                key,
                bundle.model or model,
                bundle.status,
                metric=metric,
                score=value,
                coverage=share,
                corrected=people,
            )
        if not TaskPaths(folder).journal.is_file():
            if session:
                return BenchmarkLine(key, model)
            return None
        done = BenchmarkFolder(folder).progress()
        total = as_count(session.get("planned"))
    except UsageError:
        # `nel check` and `nel eval status` say what is wrong with its files.
        return BenchmarkLine(key, model, verdict="UNREADABLE")
    return BenchmarkLine(key, model, coverage=done.scored / total if total else None)
