"""What a report says: bundles, with what only their rows can tell, drawn by every renderer."""

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
    """One benchmark of one model; ``details`` where its rows were read."""

    details: RowDetails | None = None

    @property
    def stop_rule(self) -> str:
        """What its stop rule did, in words; empty without one."""
        return rule_words(self.stopped)


@dataclass(frozen=True, slots=True)
class EvalReport:
    """All benchmarks that were found, in the order of their names and models, and those that did not finish."""

    benchmarks: tuple[BenchmarkReport, ...]
    unfinished: tuple[Unfinished, ...] = ()

    @property
    def models(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(bench.model for bench in self.benchmarks))

    @property
    def title(self) -> str:
        """The heading: names the model when there is only one."""
        models = [model for model in self.models if model]
        if len(models) == 1:
            return f"Evaluation Report: {models[0]}"
        return "Evaluation Report"


def load_report(paths: Path | str | Iterable[Path | str], *, rows: bool = False) -> EvalReport:
    """The report on everything under ``paths``; ``rows`` also reads results.jsonl for distributions and examples.
    Raises UsageError when there is nothing to report on, or a bundle cannot be read."""
    if isinstance(paths, str | Path):
        given = [Path(paths)]
    else:
        given = [Path(path) for path in paths]
    unfinished: dict[Path, Unfinished] = {}
    for path in given:
        for one in find_unfinished(path):
            unfinished[one.folder] = one
    try:
        found = find_bundles(given)
    except UsageError as error:
        if not unfinished:
            raise
        reasons = "; ".join(f"{one.name}: {one.reason}" for one in unfinished.values())
        raise UsageError(
            f"no benchmark has finished: {reasons}", hint="`nel eval status` says more"
        ) from error
    benchmarks = [load_bundle(path, rows=rows) for path in found]
    in_order = sorted(benchmarks, key=lambda bench: (bench.name, bench.model, str(bench.path)))
    return EvalReport(tuple(in_order), tuple(unfinished.values()))


def load_bundle(path: Path, *, rows: bool = False) -> BenchmarkReport:
    """One bundle file as a benchmark report. Raises UsageError when the file is not a bundle."""
    bundle = read_bundle(path)
    return BenchmarkReport(path, bundle.document, read_details(bundle.results) if rows else None)
