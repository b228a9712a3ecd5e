"""The report as data: CSV, every cell safe to open in a spreadsheet, and JSON with everything that is known."""

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

# The first seven columns are the documented ones; new columns come after them.
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
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for bench in report.benchmarks:
        scores: list[Score | None] = [
            *([bench.headline] if bench.headline else []),
            *bench.others,
            *bench.scorers,
        ]
        for score in scores or [None]:
            writer.writerow([safe_cell(value) for value in _row(bench, score)])
    for one in report.unfinished:
        known = {"benchmark": one.name, "validity": INVALID}
        writer.writerow([safe_cell(known.get(column)) for column in COLUMNS])
    return out.getvalue()


def _row(bench: BenchmarkReport, score: Score | None) -> list[str | float | None]:
    cover = bench.coverage
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
        more: tuple[str, str | None, int | None] = (
            str(score is bench.headline).lower(),
            score.ci_method,
            score.n,
        )
    else:
        more = ("", None, None)
    shares = (
        cover.planned,
        cover.scored,
        cover.failed,
        cover.share,
        bench.truncated_share,
        bench.unparsed_share,
    )
    return [
        bench.name,
        bench.samples,
        bench.repeats,
        *metric,
        bench.model,
        *more,
        *shares,
        bench.status,
        bench.run_id,
    ]


def safe_cell(value: object) -> object:
    """A value as a cell that no spreadsheet takes for a formula; it skips blanks in front of one, and so do we."""
    if isinstance(value, int | float) or value is None:
        return value
    text = str(value)
    if text.startswith(("\t", "\r")) or text.lstrip().startswith(_FORMULA_STARTS):
        return f"'{text}"
    return text


def render_json(report: EvalReport) -> str:
    document = {
        "model": next((model for model in report.models if model), ""),
        "models": list(report.models),
        "n_benchmarks": len(report.benchmarks),
        "benchmarks": (benchmarks := [_benchmark(bench) for bench in report.benchmarks]),
        # The same by name, as far as the headline goes; of several runs of one benchmark the last.
        "by_name": {
            bench["benchmark"]: {key: bench[key] for key in _BY_NAME} for bench in benchmarks
        },
        "unfinished": [
            {"benchmark": one.name, "reason": one.reason, "cause": one.cause}
            for one in report.unfinished
        ],
    }
    return orjson.dumps(document, option=orjson.OPT_INDENT_2, default=str).decode() + "\n"


def _benchmark(bench: BenchmarkReport) -> JsonDict:
    head = {key: getattr(bench.headline, name, None) for key, name in _HEADLINE.items()}
    rest = {name: getattr(bench, name) for name in FIELDS["json"]}
    rest["validity"] = {"status": bench.status, "reasons": list(bench.reasons)}
    scores: list[Score] = []
    for score in (bench.headline, *bench.others, *bench.scorers):
        if score is not None:
            scores.append(score)
    rest["scores"] = {score.name: _score(score) for score in scores}
    details = {} if bench.details is None else {"details": bench.details}
    return {"benchmark": bench.name, **head, **rest, **details}


def _score(score: Score) -> JsonDict:
    mapping: dict[str, Any] = {}
    for key, value in dataclasses.asdict(score).items():
        if value is not None and key != "name":
            mapping[key] = value
    return mapping
