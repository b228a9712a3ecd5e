"""The last words of a run: one line a benchmark, with everything that a score needs beside it."""

from collections.abc import Iterator
from pathlib import Path

from nemo_evaluator.core.errors import EXIT_DETACHED
from nemo_evaluator.core.terminal import cells, one_line, table
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.core.wording import counted, folded
from nemo_evaluator.runs.bundle import INVALID, Bundle
from nemo_evaluator.suite.results import BenchmarkResult, SuiteResult

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
    """A table no wider than ``width``, then why a status is what it is, where the files are and what to do next."""
    lines = _table([_row(one) for one in result.benchmarks], width)
    for one in result.benchmarks:
        lines += [folded(f"{one.key}: {line}", width) for line in _about(one)]
    left = sum(one.exit_code == EXIT_DETACHED for one in result.benchmarks)
    failed = sum(one.exit_code not in (0, 3, EXIT_DETACHED) for one in result.benchmarks)
    told = f"Completed {counted(len(result.benchmarks) - failed - left, 'benchmark')}."
    told += (f" {failed} failed." if failed else "") + (
        f" {left} left to the vendor's batches." if left else ""
    )
    lines.append(f"{told} Results: {output_dir}")
    lines += [f"Report: {path}" for path in result.reports]
    if any(one.bundle is not None for one in result.benchmarks):
        lines.append(f"Wrong answers: nel show {output_dir} --wrong")
        lines.append(f"In a browser: nel view {output_dir}")
    if result.exit_code:
        lines.append("Run the same command with --resume to continue; finished answers are reused.")
    return "\n".join(lines)


def _table(rows: list[tuple[str, ...]], width: int | None) -> list[str]:
    lines = table([_HEAD, *rows], width=None)
    fits = width is None or max(map(cells, lines)) <= width
    if fits:
        return lines
    return table([_SHORT, *rows], width, narrow=(1,))


def _about(one: BenchmarkResult) -> Iterator[str]:
    """Reasons of the status, one example per cause of failure and where the rest is, notes."""
    if one.bundle is None:
        return
    reasons = one.bundle["validity"]["reasons"]
    yield from reasons
    bundle = Bundle(Path(), one.bundle)
    for line in bundle.failures:
        if line.examples:
            example = one_line(line.examples[0], _EXAMPLE)
        else:
            example = ""
        yield f"{line.count:,} failed with {line.cause}" + (
            f", such as: {example}" if example else ""
        )
    if bundle.failures and one.task_dir is not None:
        yield f"all failed rows: {one.task_dir / 'results.jsonl'} (status: failed)"
    people = bundle.corrected
    if people is not None:
        yield f"{people.name} {people.value:.4f} {_interval(people.ci_lower, people.ci_upper)}"
    yield from (note for note in bundle.notes if note not in reasons)


def summary_json(result: SuiteResult, output_dir: Path) -> JsonDict:
    """The same as JSON."""
    return {
        "event": "result",
        "exit_code": result.exit_code,
        "output_dir": str(output_dir),
        "benchmarks": [
            {
                "id": one.key,
                "status": _status(one),
                "error": {"message": one.error.message, "hint": one.error.hint}
                if one.error
                else None,
                "bundle": one.bundle,
            }
            for one in result.benchmarks
        ],
        "reports": [str(path) for path in result.reports],
        "export_errors": result.export_errors,
    }


def headline(bundle: JsonDict) -> tuple[str, JsonDict] | None:
    """The metric that stands for a benchmark."""
    scores = bundle["benchmark"]["scores"]
    return next(
        ((name, scores[name]) for name in ("mean_reward", "pass@1") if name in scores), None
    )


def _row(one: BenchmarkResult) -> tuple[str, ...]:
    if one.bundle:
        found = headline(one.bundle)
    else:
        found = None
    if one.bundle is None or found is None:
        return (_status(one), one.key, *"-------")
    name, score = found
    bench = one.bundle["benchmark"]
    repeats = f" x{bench['repeats']}" if bench["repeats"] > 1 else ""
    return (
        _status(one),
        one.key,
        f"{name} (fallback)" if bench.get("fallback") else name,
        f"{score['value']:.4f}",
        _interval(score.get("ci_lower"), score.get("ci_upper")),
        f"{bench['samples']:,}{repeats}",
        f"{bench['coverage']['share']:.1%}",
        f"{bench['truncated_share']:.1%}",
        f"{bench['unparsed_share']:.1%}",
    )


def _interval(lower: float | None, upper: float | None) -> str:
    if lower is None or upper is None:
        return "-"
    return f"[{lower:.3f}, {upper:.3f}]"


def _status(one: BenchmarkResult) -> str:
    """That of ``nel check``, also of a benchmark that did not get as far as a bundle."""
    if one.bundle:
        return str(one.bundle["validity"]["status"])
    return INVALID
