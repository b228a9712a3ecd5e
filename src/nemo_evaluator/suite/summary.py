"""The summary at the end of a run: one line per benchmark, with what is needed to interpret its score."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from nemo_evaluator.core.errors import EXIT_DETACHED, EXIT_INVALID, EXIT_OK
from nemo_evaluator.core.terminal import cells, one_line, table
from nemo_evaluator.core.wording import counted, folded
from nemo_evaluator.runs.bundle import INVALID, Bundle
from nemo_evaluator.runs.scores import FailureLine, Score, leading_scores, read_score
from nemo_evaluator.suite.results import BenchmarkResult, SuiteResult

if TYPE_CHECKING:
    from nemo_evaluator.store.bundle_document import BenchmarkEntry, BundleDocument
    from nemo_evaluator.suite.summary_document import (
        BenchmarkSummaryEntry,
        ErrorEntry,
        SuiteDocument,
    )

_HEAD = (
    "status",
    "benchmark",
    "metric",
    "score",
    "95% interval",
    "n",
    "coverage",
    "truncated",
    "unparsed",
)
_SHORT = (*_HEAD[:6], "cov.", "trunc.", "unp.")
_EXAMPLE = 200


def summary_text(result: SuiteResult, output_dir: Path, *, width: int | None = None) -> str:
    """Return a table of at most ``width`` columns, then reasons of statuses, paths of files and next steps."""
    rows: list[tuple[str, ...]] = []
    for benchmark in result.benchmarks:
        rows += _rows(benchmark)
    lines = _table(rows, width)
    for benchmark in result.benchmarks:
        for line in _remarks(benchmark):
            lines.append(folded(f"{benchmark.key}: {line}", width))
    lines.append(f"{_completed(result)} Results: {output_dir}")
    lines += [f"Report: {path}" for path in result.reports]
    if any(benchmark.bundle is not None for benchmark in result.benchmarks):
        lines.append(f"Wrong answers: nel show {output_dir} --wrong")
        lines.append(f"In a browser: nel view {output_dir}")
    if result.exit_code:
        lines.append("Run the same command with --resume to continue; finished answers are reused.")
    return "\n".join(lines)


def _completed(result: SuiteResult) -> str:
    """Say how many benchmarks completed, failed, or wait for batches."""
    codes = [benchmark.exit_code for benchmark in result.benchmarks]
    detached = codes.count(EXIT_DETACHED)
    completed = codes.count(EXIT_OK) + codes.count(EXIT_INVALID)
    failed = len(codes) - completed - detached
    text = f"Completed {counted(completed, 'benchmark')}."
    if failed:
        text += f" {failed} failed."
    if detached:
        text += f" {detached} left to the vendor's batches."
    return text


def _table(rows: list[tuple[str, ...]], width: int | None) -> list[str]:
    """Format the rows, with short column titles if the long ones do not fit."""
    lines = table([_HEAD, *rows], width=None)
    is_narrow_enough = width is None or max(map(cells, lines)) <= width
    if is_narrow_enough:
        return lines
    return table([_SHORT, *rows], width, narrow=(1,))


def _remarks(result: BenchmarkResult) -> Iterator[str]:
    """Yield the reasons of the status, an example for each cause of failure, and notes."""
    if result.bundle is None:
        return
    reasons = result.bundle["validity"]["reasons"]
    yield from reasons
    bundle = Bundle(Path(), result.bundle)
    for failure in bundle.failures:
        yield _failure_line(failure)
    if bundle.failures and result.task_dir is not None:
        yield f"all failed rows: {result.task_dir / 'results.jsonl'} (status: failed)"
    corrected = bundle.corrected
    if corrected is not None:
        interval = _interval(corrected.ci_lower, corrected.ci_upper)
        yield f"{corrected.name} {corrected.value:.4f} {interval}"
    for note in bundle.notes:
        if note not in reasons:
            yield note


def _failure_line(failure: FailureLine) -> str:
    """Return how many rows failed with one cause, with the first example."""
    line = f"{failure.count:,} failed with {failure.cause}"
    if failure.examples:
        example = one_line(failure.examples[0], _EXAMPLE)
        if example:
            line += f", such as: {example}"
    return line


def summary_json(result: SuiteResult, output_dir: Path) -> SuiteDocument:
    """Return the summary as data."""
    benchmarks: list[BenchmarkSummaryEntry] = []
    for benchmark in result.benchmarks:
        error: ErrorEntry | None = None
        if benchmark.error is not None:
            error = {"message": benchmark.error.message, "hint": benchmark.error.hint}
        benchmarks.append(
            {
                "id": benchmark.key,
                "status": _status(benchmark),
                "error": error,
                "bundle": benchmark.bundle,
            }
        )
    return {
        "event": "result",
        "exit_code": result.exit_code,
        "output_dir": str(output_dir),
        "benchmarks": benchmarks,
        "reports": [str(path) for path in result.reports],
        "export_errors": result.export_errors,
    }


def headlines(bundle: BundleDocument) -> list[Score]:
    """Return a benchmark's headline metrics: those that it names, else its mean; empty if it has no score.

    Args:
        bundle: The bundle of the benchmark.
    """
    bench = bundle["benchmark"]
    scores: list[Score] = []
    for name, entry in bench["scores"].items():
        score = read_score(name, entry, bench["samples"])
        if score is not None:
            scores.append(score)
    leading = list(leading_scores(tuple(scores)))
    if leading:
        return leading
    return [score for score in scores if score.name in ("mean_reward", "pass@1")][:1]


def headline(bundle: BundleDocument) -> Score | None:
    """Return a benchmark's first headline metric; None if it has no score.

    Args:
        bundle: The bundle of the benchmark.
    """
    scores = headlines(bundle)
    return scores[0] if scores else None


def _rows(result: BenchmarkResult) -> list[tuple[str, ...]]:
    """Return the lines of a benchmark in the table: one for each of its headlines."""
    scores = headlines(result.bundle) if result.bundle else []
    if result.bundle is None or not scores:
        return [(_status(result), result.key, *"-------")]
    return [_row(result, score, result.bundle["benchmark"]) for score in scores]


def _row(result: BenchmarkResult, score: Score, bench: BenchmarkEntry) -> tuple[str, ...]:
    """Return the line of one headline."""
    name = score.name
    if bench.get("fallback"):
        name += " (fallback)"
    return (
        _status(result),
        result.key,
        name,
        f"{score.value:.4f}",
        _interval(score.ci_lower, score.ci_upper),
        _sample_size(bench),
        f"{bench['coverage']['share']:.1%}",
        f"{bench['truncated_share']:.1%}",
        f"{bench['unparsed_share']:.1%}",
    )


def _sample_size(bench: BenchmarkEntry) -> str:
    """Return the size of the sample behind the interval: problems and repeats, or scored rows if some are missing.

    Problems that belong together are followed by the number of their clusters.
    """
    scored = bench["coverage"]["scored"]
    samples = f"{bench['samples']:,}"
    if scored != bench["coverage"]["planned"]:
        samples = f"{scored:,}"
    elif bench["repeats"] > 1:
        samples += f" x{bench['repeats']}"
    clusters = bench.get("clusters")
    if clusters is not None:
        samples += f" in {clusters['clusters']:,}"
    return samples


def _interval(lower: float | None, upper: float | None) -> str:
    if lower is None or upper is None:
        return "-"
    return f"[{lower:.3f}, {upper:.3f}]"


def _status(result: BenchmarkResult) -> str:
    """Return the status as reported by ``nel check``; INVALID for a benchmark without a bundle."""
    if result.bundle:
        return str(result.bundle["validity"]["status"])
    return INVALID
