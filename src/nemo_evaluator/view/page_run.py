"""The page of a run: what its report says, plots drawn by the report's own code, and what is missing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.core.wording import counted
from nemo_evaluator.reports.html import figures_html, figures_of
from nemo_evaluator.reports.model import BenchmarkReport, Histogram, RowDetails
from nemo_evaluator.runs.bundle import Bundle
from nemo_evaluator.runs.folder import BenchmarkFolder
from nemo_evaluator.runs.query import distribution, outcomes, tally
from nemo_evaluator.runs.unfinished import find_unfinished
from nemo_evaluator.store.layout import TaskPaths
from nemo_evaluator.view.library import Library


def run_page(library: Library, key: str) -> JsonDict:
    """A run as the list shows it, with the summary of each benchmark."""
    described = library.described(key)
    running = described["state"] == "running"
    return described | {
        "parts": [summary(library.benchmark(key, name), running=running) for name in library.run(key).benchmarks]
    }


def summary(folder: BenchmarkFolder, *, running: bool) -> JsonDict:
    """Scores, failures and notes of a benchmark; nothing that needs the rows."""
    bundle, missing = _bundle(folder)
    missing += _missing(folder, bundle, running=running)
    if bundle is None:
        return {"name": folder.name, "missing": missing, "scores": [], "failures": [], "notes": [], "config": {}}
    return {
        "name": folder.name,
        "title": bundle.name,
        "model": bundle.model,
        "missing": missing,
        "invalid": bundle.invalid,
        "notes": [*(() if bundle.invalid else bundle.reasons), *bundle.notes, *filter(None, [bundle.stop_reason])],
        "scores": [asdict(score) for score in bundle.scores],
        "failures": [asdict(line) for line in (*bundle.failures, *bundle.flaws)],
        "truncated_share": bundle.truncated_share,
        "unparsed_share": bundle.unparsed_share,
        "samples": bundle.samples,
        "repeats": bundle.repeats,
        "runtime": asdict(bundle.runtime),
        "config": bundle.config,
        "version": bundle.sdk_version,
        "drawn": TaskPaths(folder.path).label_draw.is_file(),
    }


def figures(folder: BenchmarkFolder) -> str:
    """The plots of a benchmark, finished or not; what reports read from all rows comes from the index here."""
    bundle, _ = _bundle(folder)
    with folder.reading() as (columns, _):
        seen, binary = outcomes(columns)
        spread = [distribution(columns, name) for name in ("latency_ms", "tokens")]
        causes = {name: number for name, number, _ in tally(columns, "cause")}
        groups = (
            {name: {"n": n, "mean_reward": mean} for name, n, mean in tally(columns, "category")} if not bundle else {}
        )
    latency, tokens = (Histogram(tuple(one[0]), tuple(one[1])) if one else None for one in spread)
    details = RowDetails(sum(seen.values()), latency, tokens, outcomes=seen, causes=causes, binary=binary)
    document = bundle.document if bundle else {"benchmark": {"categories": groups}}
    report = BenchmarkReport(bundle.path if bundle else folder.path / "unfinished", document, details)
    return figures_html(figures_of(report))


def _bundle(folder: BenchmarkFolder) -> tuple[Bundle | None, list[str]]:
    try:
        return folder.bundle, []
    except UsageError as error:
        return None, [error.message]


def _missing(folder: BenchmarkFolder, bundle: Bundle | None, *, running: bool) -> Iterator[str]:
    """What a reader of this page should know is not there."""
    task = TaskPaths(folder.path)
    if bundle is None and not running:
        unfinished = (f"{one.name} {one.reason}" for one in find_unfinished(folder.path))
        yield from unfinished
    rows = task.results if task.results.is_file() else task.journal
    if not running and _torn(rows):
        yield f"The last line of {rows.name} was cut off; `nel eval resume` asks for what is lost."
    if not task.journal.is_file():
        yield "There is no journal: requests as they were sent, reasoning and timings are not known."
    if bundle is None:
        return
    done = folder.progress()
    if (known := done.scored + done.failed) < bundle.n_results:
        yield f"The bundle counts {counted(bundle.n_results, 'row')}, {known:,} can be read."
    if bundle.coverage.planned is None or not bundle.validity:
        yield "The bundle was written by an older version: coverage or validity was not recorded."


def _torn(path: Path) -> bool:
    """Whether a file of lines ends within one."""
    if not path.is_file() or not path.stat().st_size:
        return False
    with path.open("rb") as file:
        file.seek(-1, 2)
        return file.read(1) != b"\n"
