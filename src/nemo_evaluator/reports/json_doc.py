"""The report as JSON: ``{model, benchmarks, n_benchmarks}``, each benchmark with everything the model holds."""

import dataclasses
from typing import Final

import orjson

from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.reports._fields import FIELDS
from nemo_evaluator.reports.model import BenchmarkReport, EvalReport
from nemo_evaluator.runs.scores import Score

_HEADLINE: Final = {"metric": "name", "score": "value", "ci_lower": "ci_lower", "ci_upper": "ci_upper", "n": "n"}
_BY_NAME: Final = (*_HEADLINE, "samples", "repeats")


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
    head = {key: getattr(bench.headline, name, None) for key, name in _HEADLINE.items()}
    rest = {name: getattr(bench, name) for name in FIELDS["json"]}
    rest["validity"] = {"status": bench.status, "reasons": list(bench.reasons)}
    scores = [score for score in (bench.headline, *bench.others, *bench.scorers) if score is not None]
    rest["scores"] = {score.name: _score(score) for score in scores}
    details = {} if bench.details is None else {"details": bench.details}
    return {"benchmark": bench.name, **head, **rest, **details}


def _score(score: Score) -> JsonDict:
    return {key: value for key, value in dataclasses.asdict(score).items() if value is not None and key != "name"}
