"""The report as data: CSV with cells that are safe to open in a spreadsheet, and JSON with everything that is known."""

import csv
import dataclasses
import io
from typing import Any, Final

import orjson

from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.reports._words import FIELDS
from nemo_evaluator.reports.model import BenchmarkReport, EvalReport
from nemo_evaluator.runs.bundle import INVALID
from nemo_evaluator.runs.scores import Score

# The documentation lists the first seven columns; new ones come after them.
COLUMNS: Final = FIELDS["csv"]
_FORMULA_STARTS: Final = ("=", "+", "-", "@", "＝", "＋", "－", "＠")
_HEADLINE: Final = {
    "metric": "name",
    "score": "value",
    "ci_lower": "ci_lower",
    "ci_upper": "ci_upper",
    "n": "n",
}
_BY_NAME: Final = (*_HEADLINE, "samples", "repeats")


def render_csv(report: EvalReport) -> str:
    """One row per score of each benchmark, then one per unfinished benchmark."""
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, COLUMNS, restval=None, lineterminator="\n")
    writer.writeheader()
    for bench in report.benchmarks:
        scores = _scores(bench)
        for score in scores:
            writer.writerow(_safe_cells(_bench_cells(bench) | _score_cells(bench, score)))
        if not scores:
            writer.writerow(_safe_cells(_bench_cells(bench)))
    for unfinished in report.unfinished:
        writer.writerow(_safe_cells({"benchmark": unfinished.name, "validity": INVALID}))
    return buffer.getvalue()


def _scores(bench: BenchmarkReport) -> list[Score]:
    """The scores of a benchmark, the headline first."""
    scores: list[Score] = []
    if bench.headline is not None:
        scores.append(bench.headline)
    scores.extend(bench.others)
    scores.extend(bench.scorers)
    return scores


def _bench_cells(bench: BenchmarkReport) -> dict[str, object]:
    """The cells of a benchmark by column, which all of its scores share."""
    coverage = bench.coverage
    return {
        "benchmark": bench.name,
        "samples": bench.samples,
        "repeats": bench.repeats,
        "model": bench.model,
        "planned": coverage.planned,
        "scored": coverage.scored,
        "failed": coverage.failed,
        "coverage": coverage.share,
        "truncated_share": bench.truncated_share,
        "unparsed_share": bench.unparsed_share,
        "validity": bench.status,
        "run_id": bench.run_id,
    }


def _score_cells(bench: BenchmarkReport, score: Score) -> dict[str, object]:
    """The cells of one score by column."""
    is_headline = score is bench.headline
    return {
        "metric": score.name,
        "score": score.value,
        "ci_lower": score.ci_lower,
        "ci_upper": score.ci_upper,
        "headline": str(is_headline).lower(),
        "ci_method": score.ci_method,
        "n": score.n,
    }


def _safe_cells(cell_of_column: dict[str, object]) -> dict[str, object]:
    """The cells of a row, none of which a spreadsheet takes for a formula."""
    return {column: safe_cell(value) for column, value in cell_of_column.items()}


def safe_cell(value: object) -> object:
    """A value as a cell that spreadsheets do not take for a formula; like them, this ignores blanks in front of one."""
    if isinstance(value, int | float) or value is None:
        return value
    text = str(value)
    if text.startswith(("\t", "\r")) or text.lstrip().startswith(_FORMULA_STARTS):
        return f"'{text}"
    return text


def render_json(report: EvalReport) -> str:
    """The whole report as indented JSON."""
    benchmarks = [_benchmark(bench) for bench in report.benchmarks]
    # For several runs of one benchmark, the last run.
    headline_of_benchmark: dict[str, JsonDict] = {}
    for entry in benchmarks:
        headline_of_benchmark[entry["benchmark"]] = {key: entry[key] for key in _BY_NAME}
    unfinished_entries: list[JsonDict] = []
    for unfinished in report.unfinished:
        unfinished_entries.append(
            {"benchmark": unfinished.name, "reason": unfinished.reason, "cause": unfinished.cause}
        )
    named_models = [model for model in report.models if model]
    document = {
        "model": named_models[0] if named_models else "",
        "models": list(report.models),
        "n_benchmarks": len(benchmarks),
        "benchmarks": benchmarks,
        "by_name": headline_of_benchmark,
        "unfinished": unfinished_entries,
    }
    return orjson.dumps(document, option=orjson.OPT_INDENT_2, default=str).decode() + "\n"


def _benchmark(bench: BenchmarkReport) -> JsonDict:
    """The entry of one benchmark: its headline, fields, scores and details."""
    entry: JsonDict = {"benchmark": bench.name}
    for key, name in _HEADLINE.items():
        entry[key] = getattr(bench.headline, name, None)
    for name in FIELDS["json"]:
        entry[name] = getattr(bench, name)
    entry["validity"] = {"status": bench.status, "reasons": list(bench.reasons)}
    entry["scores"] = {score.name: _score(score) for score in _scores(bench)}
    if bench.details is not None:
        entry["details"] = bench.details
    return entry


def _score(score: Score) -> JsonDict:
    """The fields of a score that are known."""
    fields: dict[str, Any] = {}
    for key, value in dataclasses.asdict(score).items():
        if value is not None and key != "name":
            fields[key] = value
    return fields
