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
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(COLUMNS)
    for bench in report.benchmarks:
        scores: list[Score | None] = [
            *([bench.headline] if bench.headline else []),
            *bench.others,
            *bench.scorers,
        ]
        for score in scores or [None]:
            writer.writerow([safe_cell(value) for value in _row(bench, score)])
    for unfinished in report.unfinished:
        cells = {"benchmark": unfinished.name, "validity": INVALID}
        writer.writerow([safe_cell(cells.get(column)) for column in COLUMNS])
    return buffer.getvalue()


def _row(bench: BenchmarkReport, score: Score | None) -> list[str | float | None]:
    """The cells of one score, in the order of ``COLUMNS``; without a score, those of the benchmark alone."""
    coverage = bench.coverage
    if score:
        metric: tuple[str, float, float | None, float | None] | tuple[str, None, None, None] = (
            score.name,
            score.value,
            score.ci_lower,
            score.ci_upper,
        )
    else:
        metric = ("", None, None, None)
    if score:
        metric_details: tuple[str, str | None, int | None] = (
            str(score is bench.headline).lower(),
            score.ci_method,
            score.n,
        )
    else:
        metric_details = ("", None, None)
    shares = (
        coverage.planned,
        coverage.scored,
        coverage.failed,
        coverage.share,
        bench.truncated_share,
        bench.unparsed_share,
    )
    return [
        bench.name,
        bench.samples,
        bench.repeats,
        *metric,
        bench.model,
        *metric_details,
        *shares,
        bench.status,
        bench.run_id,
    ]


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
    document = {
        "model": next((model for model in report.models if model), ""),
        "models": list(report.models),
        "n_benchmarks": len(report.benchmarks),
        "benchmarks": (benchmarks := [_benchmark(bench) for bench in report.benchmarks]),
        # The headlines by benchmark; for several runs of one benchmark, the last run.
        "by_name": {
            bench["benchmark"]: {key: bench[key] for key in _BY_NAME} for bench in benchmarks
        },
        "unfinished": [
            {"benchmark": unfinished.name, "reason": unfinished.reason, "cause": unfinished.cause}
            for unfinished in report.unfinished
        ],
    }
    return orjson.dumps(document, option=orjson.OPT_INDENT_2, default=str).decode() + "\n"


def _benchmark(bench: BenchmarkReport) -> JsonDict:
    """The entry of one benchmark: its headline, fields, scores and details."""
    headline_fields = {key: getattr(bench.headline, name, None) for key, name in _HEADLINE.items()}
    fields = {name: getattr(bench, name) for name in FIELDS["json"]}
    fields["validity"] = {"status": bench.status, "reasons": list(bench.reasons)}
    scores: list[Score] = []
    for score in (bench.headline, *bench.others, *bench.scorers):
        if score is not None:
            scores.append(score)
    fields["scores"] = {score.name: _score(score) for score in scores}
    details = {} if bench.details is None else {"details": bench.details}
    return {"benchmark": bench.name, **headline_fields, **fields, **details}


def _score(score: Score) -> JsonDict:
    """The fields of a score that are known."""
    fields: dict[str, Any] = {}
    for key, value in dataclasses.asdict(score).items():
        if value is not None and key != "name":
            fields[key] = value
    return fields
