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
    planned = as_list(checkpoint.get("planned_benchmarks")) or [path.name for path in root.iterdir() if path.is_dir()]
    sessions, model = as_dict(checkpoint.get("sessions")), str(run.details.get("model") or "")
    return [
        line
        for key in map(str, planned)
        if (line := _line(root / safe_name(key), key, model, as_dict(sessions.get(key)))) is not None
    ]


def _line(folder: Path, key: str, model: str, session: JsonDict) -> BenchmarkLine | None:
    try:
        bundle = newest_bundle(folder)
        if bundle is not None:
            score, share = bundle.headline, bundle.coverage.share
            metric, value = (score.name, score.value) if score is not None else (None, None)
            people = bundle.corrected.value if bundle.corrected is not None else None
            return BenchmarkLine(key, bundle.model or model, bundle.status, metric, value, share, people)
        if not TaskPaths(folder).journal.is_file():
            return BenchmarkLine(key, model) if session else None
        done, total = BenchmarkFolder(folder).progress(), as_count(session.get("planned"))
    except UsageError:
        # `nel check` and `nel eval status` say what is wrong with its files.
        return BenchmarkLine(key, model, verdict="UNREADABLE")
    return BenchmarkLine(key, model, coverage=done.scored / total if total else None)
