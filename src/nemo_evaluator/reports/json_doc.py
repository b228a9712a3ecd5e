"""The report as JSON: ``{model, benchmarks, n_benchmarks}``, each benchmark with everything the model holds."""

from __future__ import annotations

import dataclasses
from typing import Any, Final

import orjson

from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.reports.model import BenchmarkReport, EvalReport
from nemo_evaluator.runs.scores import Score

_FIELDS: Final = (
    "model",
    "run_id",
    "path",
    "timestamp",
    "sdk_version",
    "config_hash",
    "samples",
    "repeats",
    "n_results",
    "coverage",
    "truncated_share",
    "unparsed_share",
    "categories",
    "breakdowns",
    "failures",
    "flaws",
    "runtime",
    "config",
    "stop_rule",
    "notes",
)

_BY_NAME: Final = ("metric", "score", "ci_lower", "ci_upper", "n", "samples", "repeats")


def render_json(report: EvalReport) -> str:
    """The whole report, indented."""
    document = {
        "model": next((model for model in report.models if model), ""),
        "models": list(report.models),
        "n_benchmarks": len(report.benchmarks),
        "benchmarks": (benchmarks := [_benchmark(bench) for bench in report.benchmarks]),
        # The same by name, as far as the headline goes; of several runs of one benchmark the last.
        "by_name": {bench["benchmark"]: {key: bench[key] for key in _BY_NAME} for bench in benchmarks},
        "unfinished": [{"benchmark": one.name, "reason": one.reason, "cause": one.cause} for one in report.unfinished],
    }
    return orjson.dumps(document, option=orjson.OPT_INDENT_2, default=str).decode() + "\n"


def _benchmark(bench: BenchmarkReport) -> JsonDict:
    head: JsonDict = {
        "benchmark": bench.name,
        "metric": None if bench.headline is None else bench.headline.name,
        "score": None if bench.headline is None else bench.headline.value,
        "ci_lower": None if bench.headline is None else bench.headline.ci_lower,
        "ci_upper": None if bench.headline is None else bench.headline.ci_upper,
        "n": None if bench.headline is None else bench.headline.n,
    }
    rest = {name: _value(getattr(bench, name)) for name in _FIELDS}
    rest["validity"] = {"status": bench.status, "reasons": list(bench.reasons)}
    rest["scores"] = {score.name: _score(score) for score in _all_scores(bench)}
    details = {} if bench.details is None else {"details": _plain(bench.details)}
    return {**head, **rest, **details}


def _value(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_value(one) for one in value]
    if isinstance(value, dict):
        return {key: _value(one) for key, one in value.items()}
    return _plain(value) if dataclasses.is_dataclass(value) else value


def _all_scores(bench: BenchmarkReport) -> list[Score]:
    return [*([bench.headline] if bench.headline else []), *bench.others, *bench.scorers]


def _score(score: Score) -> JsonDict:
    return {key: value for key, value in _plain(score).items() if value is not None and key != "name"}


def _plain(value: Any) -> JsonDict:
    plain: JsonDict = dataclasses.asdict(value)
    return plain
