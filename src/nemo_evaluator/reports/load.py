"""Bundles on disk → what a report says."""

from collections.abc import Iterable
from pathlib import Path

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.reports.model import BenchmarkReport, EvalReport
from nemo_evaluator.reports.row_details import read_details
from nemo_evaluator.runs.bundle import load_bundle as read_bundle
from nemo_evaluator.runs.find import find_bundles
from nemo_evaluator.runs.unfinished import find_unfinished


def load_report(paths: Path | str | Iterable[Path | str], *, rows: bool = False) -> EvalReport:
    """The report on everything under ``paths``; ``rows`` also reads results.jsonl for distributions and examples.

    Raises UsageError when there is nothing to report on, or a bundle cannot be read.
    """
    given = [Path(paths)] if isinstance(paths, str | Path) else [Path(path) for path in paths]
    unfinished = {one.folder: one for path in given for one in find_unfinished(path)}
    try:
        found = find_bundles(given)
    except UsageError as error:
        if not unfinished:
            raise
        reasons = "; ".join(f"{one.name}: {one.reason}" for one in unfinished.values())
        raise UsageError(f"no benchmark has finished: {reasons}", hint="`nel eval status` says more") from error
    benchmarks = [load_bundle(path, rows=rows) for path in found]
    in_order = sorted(benchmarks, key=lambda bench: (bench.name, bench.model, str(bench.path)))
    return EvalReport(tuple(in_order), tuple(unfinished.values()))


def load_bundle(path: Path, *, rows: bool = False) -> BenchmarkReport:
    """One bundle file as a benchmark report. Raises UsageError when the file is not a bundle."""
    bundle = read_bundle(path)
    return BenchmarkReport(path, bundle.document, read_details(bundle.results) if rows else None)
