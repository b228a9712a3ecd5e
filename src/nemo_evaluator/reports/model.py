"""The contents of a report, which every renderer draws: bundles, and what only their rows show."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.decisions.stop_words import rule_words
from nemo_evaluator.reports.row_details import RowDetails, read_details
from nemo_evaluator.runs.bundle import Bundle
from nemo_evaluator.runs.bundle import load_bundle as read_bundle
from nemo_evaluator.runs.find import find_bundles
from nemo_evaluator.runs.unfinished import Unfinished, find_unfinished


@dataclass(frozen=True)
class BenchmarkReport(Bundle):
    """One benchmark of one model.

    Attributes:
        details: What only the rows show; None when they were not read.
    """

    details: RowDetails | None = None

    @property
    def stop_rule(self) -> str:
        """The stop rule and its outcome as a sentence; empty without one."""
        return rule_words(self.stopped)


@dataclass(frozen=True, slots=True)
class EvalReport:
    """A report on several benchmarks.

    Attributes:
        benchmarks: The finished benchmarks, ordered by name and model.
        unfinished: The benchmarks that did not finish.
    """

    benchmarks: tuple[BenchmarkReport, ...]
    unfinished: tuple[Unfinished, ...] = ()

    @property
    def models(self) -> tuple[str, ...]:
        """The models, each once."""
        return tuple(dict.fromkeys(bench.model for bench in self.benchmarks))

    @property
    def title(self) -> str:
        """The heading, with the model if there is only one."""
        models = [model for model in self.models if model]
        if len(models) == 1:
            return f"Evaluation Report: {models[0]}"
        return "Evaluation Report"


def load_report(paths: Path | str | Iterable[Path | str], *, rows: bool = False) -> EvalReport:
    """Load the report on everything under ``paths``.

    Args:
        paths: Folders or bundles.
        rows: Also read results.jsonl, for distributions and examples.

    Raises:
        UsageError: There is nothing to report on, or a bundle cannot be read.
    """
    if isinstance(paths, str | Path):
        search_paths = [Path(paths)]
    else:
        search_paths = [Path(path) for path in paths]
    unfinished_of_folder: dict[Path, Unfinished] = {}
    for path in search_paths:
        for unfinished in find_unfinished(path):
            unfinished_of_folder[unfinished.folder] = unfinished
    all_unfinished = tuple(unfinished_of_folder.values())
    try:
        bundle_files = find_bundles(search_paths)
    except UsageError as error:
        if not all_unfinished:
            raise
        raise _nothing_finished(all_unfinished) from error
    benchmarks = [load_bundle(path, rows=rows) for path in bundle_files]
    benchmarks.sort(key=lambda bench: (bench.name, bench.model, str(bench.path)))
    return EvalReport(tuple(benchmarks), all_unfinished)


def _nothing_finished(all_unfinished: Iterable[Unfinished]) -> UsageError:
    """The error for runs of which no benchmark has finished."""
    reasons = [f"{unfinished.name}: {unfinished.reason}" for unfinished in all_unfinished]
    return UsageError(
        f"no benchmark has finished: {'; '.join(reasons)}", hint="`nel eval status` shows details"
    )


def load_bundle(path: Path, *, rows: bool = False) -> BenchmarkReport:
    """Load one bundle file as a benchmark report.

    Args:
        path: The bundle.
        rows: Also read results.jsonl, for distributions and examples.

    Raises:
        UsageError: The file is not a bundle.
    """
    bundle = read_bundle(path)
    details = None
    if rows:
        details = read_details(bundle.results)
    return BenchmarkReport(path, bundle.document, details)
