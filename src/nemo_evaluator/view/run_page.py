"""The page of a run: a summary of each benchmark, and plots made by the code of the reports."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.core.wording import counted
from nemo_evaluator.reports.html import figures_html, figures_of
from nemo_evaluator.reports.model import BenchmarkReport
from nemo_evaluator.reports.row_details import RowDetails, histogram
from nemo_evaluator.runs.bundle import Bundle
from nemo_evaluator.runs.folder import BenchmarkFolder
from nemo_evaluator.runs.query import IndexColumns, outcomes, tally
from nemo_evaluator.runs.scores import FailureLine, Runtime, Score
from nemo_evaluator.runs.unfinished import find_unfinished
from nemo_evaluator.store.layout import TaskPaths
from nemo_evaluator.view.library import Library
from nemo_evaluator.view.listed_run import ListedRun, extended


@dataclass(frozen=True, slots=True)
class BenchmarkSummary:
    """What the bundle of a benchmark says; without a bundle only the name and the warnings are known.

    Attributes:
        name: The name of the benchmark's folder.
        missing: Warnings about missing data.
        title: The benchmark's name.
        model: The model that was evaluated.
        invalid: Why the scores must not be used.
        truncated_share: The share of answers that were cut off.
        unparsed_share: The share of scored answers that could not be parsed.
        samples: The number of problems.
        repeats: Answers per problem.
        config: The settings of the run.
        notes: Notes to show beside the scores.
        scores: All scores.
        failures: Causes of failed rows, and flaws of scored ones.
        runtime: Tokens, times and cost.
        version: The version of nel that wrote the bundle.
        drawn: Whether rows were drawn for labelling.
    """

    name: str
    missing: list[str]
    title: str = ""
    model: str = ""
    invalid: tuple[str, ...] = ()
    truncated_share: float | None = None
    unparsed_share: float | None = None
    samples: int | None = None
    repeats: int | None = None
    config: JsonDict = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    scores: tuple[Score, ...] = ()
    failures: tuple[FailureLine, ...] = ()
    runtime: Runtime | None = None
    version: str = ""
    drawn: bool = False


@dataclass(frozen=True, slots=True)
class RunPage(ListedRun):
    """A run as in the list of runs, and the summary of each benchmark."""

    parts: list[BenchmarkSummary] = field(default_factory=list)


def run_page(library: Library, key: str) -> RunPage:
    """Return the page of a run.

    Raises:
        UsageError: No run has that key.
    """
    listed = library.listed_run(key)
    running = listed.state == "running"
    parts: list[BenchmarkSummary] = []
    for name in library.run(key).benchmarks:
        parts.append(summary(library.benchmark(key, name), running=running))
    return extended(RunPage, listed, parts=parts)


def summary(folder: BenchmarkFolder, *, running: bool) -> BenchmarkSummary:
    """Return the scores, failures and notes of a benchmark, without reading its rows."""
    warnings: list[str] = []
    try:
        bundle = folder.bundle
    except UsageError as error:
        bundle = None
        warnings.append(error.message)
    warnings += _warnings(folder, bundle, running=running)
    if bundle is None:
        return BenchmarkSummary(folder.name, warnings)
    return BenchmarkSummary(
        name=folder.name,
        missing=warnings,
        title=bundle.name,
        model=bundle.model,
        invalid=bundle.invalid,
        truncated_share=bundle.truncated_share,
        unparsed_share=bundle.unparsed_share,
        samples=bundle.samples,
        repeats=bundle.repeats,
        config=bundle.config,
        notes=_notes(bundle),
        scores=bundle.scores,
        failures=(*bundle.failures, *bundle.flaws),
        runtime=bundle.runtime,
        version=bundle.sdk_version,
        drawn=TaskPaths(folder.path).label_draw.is_file(),
    )


def _notes(bundle: Bundle) -> list[str]:
    """Return the notes to show beside the scores; the page shows the reasons of an invalid benchmark separately."""
    candidates = [*bundle.notes, bundle.stop_reason]
    if not bundle.invalid:
        candidates = [*bundle.reasons, *candidates]
    notes: list[str] = []
    for note in dict.fromkeys(candidates):
        if note and note not in bundle.invalid:
            notes.append(note)
    return notes


def _warnings(folder: BenchmarkFolder, bundle: Bundle | None, *, running: bool) -> Iterator[str]:
    """Yield warnings about missing data for the reader of the page.

    Args:
        folder: The benchmark.
        bundle: Its bundle; None if there is none that can be read.
        running: Whether the run is alive: what is missing may then still come.
    """
    task = TaskPaths(folder.path)
    if bundle is None and not running:
        for unfinished in find_unfinished(folder.path):
            yield f"{unfinished.name} {unfinished.reason}"
    rows = task.results if task.results.is_file() else task.journal
    if not running and _ends_within_a_line(rows):
        yield f"The last line of {rows.name} was cut off; run `nel eval resume` to recover the missing rows."
    if not task.journal.is_file():
        yield "There is no journal: requests as they were sent, reasoning and timings are not known."
    if bundle is not None:
        yield from _bundle_warnings(folder, bundle)


def _bundle_warnings(folder: BenchmarkFolder, bundle: Bundle) -> Iterator[str]:
    """Yield warnings about what a bundle does not record, or records differently from the rows."""
    progress = folder.progress()
    row_count = progress.scored + progress.failed
    if row_count < bundle.n_results:
        yield f"The bundle counts {counted(bundle.n_results, 'row')}, {row_count:,} can be read."
    if bundle.coverage.planned is None or not bundle.validity:
        yield "The bundle was written by an older version: coverage or validity was not recorded."


def _ends_within_a_line(path: Path) -> bool:
    """Return whether the last line of a file is incomplete; a missing or empty file has no lines."""
    if not path.is_file() or path.stat().st_size == 0:
        return False
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) != b"\n"


def benchmark_figures(folder: BenchmarkFolder) -> str:
    """Return the plots of a benchmark as HTML.

    The index is read in place of the rows that reports read, so that a benchmark has plots before it has finished.
    """
    try:
        bundle = folder.bundle
    except UsageError:
        # The summary of the page shows the reason.
        bundle = None
    with folder.reading() as (columns, _):
        details = _row_details(columns)
        if bundle is not None:
            report = BenchmarkReport(bundle.path, bundle.document, details)
        else:
            document = {"benchmark": {"categories": _categories(columns)}}
            report = BenchmarkReport(folder.path / "unfinished", document, details)
    return figures_html(figures_of(report))


def _row_details(columns: IndexColumns) -> RowDetails:
    """Return what plots show of the rows."""
    outcome_counts, binary = outcomes(columns)
    causes: dict[str, int] = {}
    for cause, row_count, _mean in tally(columns, "cause"):
        causes[cause] = row_count
    return RowDetails(
        rows=sum(outcome_counts.values()),
        latency_ms=histogram(columns["latency_ms"]),
        completion_tokens=histogram(columns["tokens"]),
        outcomes=outcome_counts,
        causes=causes,
        binary=binary,
    )


def _categories(columns: IndexColumns) -> JsonDict:
    """Return the number of rows and the mean reward of each category, as a bundle has them."""
    categories: JsonDict = {}
    for category, row_count, mean_reward in tally(columns, "category"):
        categories[category] = {"n": row_count, "mean_reward": mean_reward}
    return categories
