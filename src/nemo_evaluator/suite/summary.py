"""The last words of a run: one line a benchmark, with everything that a score needs beside it."""

from __future__ import annotations

from pathlib import Path

from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.suite.run import BenchmarkResult, SuiteResult

_HEAD = ("benchmark", "metric", "score", "95% interval", "n", "coverage", "truncated", "unparsed", "status")


def summary_text(result: SuiteResult, output_dir: Path) -> str:
    """A table, then where the files are and what to do next."""
    rows = [_HEAD, *(_row(one) for one in result.benchmarks)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    for one in result.benchmarks:
        if one.bundle is not None:
            about = *one.bundle["validity"]["reasons"], *one.bundle["benchmark"].get("notes", ())
            lines += [f"{one.key}: {line}" for line in about]
    failed = sum(one.exit_code not in (0, 3) for one in result.benchmarks)
    done = len(result.benchmarks) - failed
    lines.append(f"Completed {done} benchmark(s).{f' {failed} failed.' if failed else ''} Results: {output_dir}")
    lines += [f"Report: {path}" for path in result.reports]
    if result.exit_code:
        lines.append("Run the same command with --resume to continue; finished answers are reused.")
    return "\n".join(lines)


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
                "error": {"message": one.error.message, "hint": one.error.hint} if one.error else None,
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
    for name in ("mean_reward", "pass@1"):
        if name in scores:
            return name, scores[name]
    return None


def _row(one: BenchmarkResult) -> tuple[str, ...]:
    found = headline(one.bundle) if one.bundle else None
    if one.bundle is None or found is None:
        return (one.key, "-", "-", "-", "-", "-", "-", "-", _status(one))
    name, score = found
    bench = one.bundle["benchmark"]
    interval = "-"
    if score.get("ci_lower") is not None:
        interval = f"[{score['ci_lower']:.3f}, {score['ci_upper']:.3f}]"
    return (
        one.key,
        f"{name} (fallback)" if bench.get("fallback") else name,
        f"{score['value']:.4f}",
        interval,
        str(bench["coverage"]["scored"]),
        f"{bench['coverage']['share']:.1%}",
        f"{bench['truncated_share']:.1%}",
        f"{bench['unparsed_share']:.1%}",
        _status(one),
    )


def _status(one: BenchmarkResult) -> str:
    if one.error is not None:
        return "FAILED"
    if one.stopped is not None and one.bundle is not None and one.stopped != "rule":
        return f"STOPPED ({one.stopped})"
    return str(one.bundle["validity"]["status"]) if one.bundle else "FAILED"
