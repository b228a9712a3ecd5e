"""The lines of the list of runs: a run and its benchmarks, as far as their files show them."""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from nemo_evaluator.core.json_coerce import as_count
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.runs.bundle import load_bundle
from nemo_evaluator.runs.folder import BenchmarkFolder
from nemo_evaluator.runs.scores import Score


@dataclass(frozen=True, slots=True)
class ListedBenchmark:
    """One benchmark of a run in the list of runs; unknown values are None."""

    name: str
    model: str = ""
    status: str = ""
    metric: str | None = None
    score: float | None = None
    lower: float | None = None
    upper: float | None = None
    coverage: float | None = None
    scored: int | None = None
    failed: int | None = None
    planned: int | None = None
    cost_usd: float | None = None
    finished: str = ""
    # The score corrected by labels.
    corrected: Score | None = None


@dataclass(frozen=True, slots=True)
class ListedRun:
    """One run in the list of runs.

    Attributes:
        key: The key by which pages name the run.
        path: The run's folder.
        run_id: Its id; empty if the folder has no record of the run.
        model: The models of its benchmarks.
        state: ``running``, ``unfinished`` or ``finished``.
        started: When it started, or when its last benchmark finished.
        age_seconds: The time since it started.
        benchmarks: Its benchmarks.
        cost_usd: The cost of all benchmarks.
    """

    key: str
    path: str
    run_id: str
    model: str
    state: str
    started: str
    age_seconds: float | None
    benchmarks: list[ListedBenchmark]
    cost_usd: float | None


Extended = TypeVar("Extended", bound=ListedRun)


def extended(kind: Callable[..., Extended], run: ListedRun, **more: Any) -> Extended:
    """Return a run from the list with more fields: ``extended(RunPage, run, parts=parts)``.

    Args:
        kind: The subclass of ``ListedRun`` to create.
        run: The run, whose fields are copied.
        **more: The fields that the subclass adds.
    """
    listed_fields = {field.name: getattr(run, field.name) for field in fields(ListedRun)}
    return kind(**listed_fields, **more)


@lru_cache(maxsize=10_000)
def finished_benchmark(name: str, bundle_file: Path, modified: int) -> ListedBenchmark:
    """Return the line of a finished benchmark.

    Args:
        name: The name of the benchmark's folder.
        bundle_file: The bundle.
        modified: When the bundle was last modified; the file is read again when this differs.

    Raises:
        UsageError: The bundle cannot be read.
    """
    bundle = load_bundle(bundle_file)
    coverage = bundle.coverage
    line = ListedBenchmark(
        name=name,
        model=bundle.model,
        status=bundle.status,
        coverage=coverage.share,
        scored=coverage.scored,
        failed=coverage.failed,
        planned=coverage.planned,
        cost_usd=bundle.runtime.cost_usd,
        finished=bundle.timestamp or "-",
    )
    headline = bundle.headline
    if headline is None:
        return line
    return replace(
        line,
        metric=headline.name,
        score=headline.value,
        lower=headline.ci_lower,
        upper=headline.ci_upper,
        corrected=bundle.corrected,
    )


def unfinished_benchmark(
    folder: BenchmarkFolder, session: JsonDict, *, running: bool
) -> ListedBenchmark:
    """Return the line of a benchmark without a bundle.

    Args:
        folder: The folder of the benchmark.
        session: What the checkpoint notes about its last start.
        running: Whether the run is alive.

    Raises:
        UsageError: The rows cannot be read.
    """
    progress = folder.progress()
    planned = as_count(session.get("planned"))
    return ListedBenchmark(
        name=folder.name,
        status="running" if running else "not finished",
        metric=None if progress.mean_reward is None else "mean reward so far",
        score=progress.mean_reward,
        coverage=progress.scored / planned if planned else None,
        scored=progress.scored,
        failed=progress.failed,
        planned=planned,
        cost_usd=progress.cost_usd,
    )
