"""Bundles on disk → the report model. Fields that an older bundle lacks become None, never a made-up number."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import orjson

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.files import read_json
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.decisions.stopping import rule_words
from nemo_evaluator.reports.model import (
    INVALID,
    UNCHECKED,
    BenchmarkReport,
    Coverage,
    EvalReport,
    FailureLine,
    Group,
    Runtime,
    Score,
)
from nemo_evaluator.reports.rows import read_details
from nemo_evaluator.store.find import find_bundles

_NOT_SCORES: Final = frozenset({"summary", "breakdowns", "runtime", "failures"})
_TIMING: Final = re.compile(r"gen_seconds|latency|duration|tokens|time_ms|_time$|_ms$|_time_")


def load_report(paths: Path | str | Iterable[Path | str], *, rows: bool = False) -> EvalReport:
    """The report on everything under ``paths``; ``rows`` also reads results.jsonl for distributions and examples."""
    benchmarks = [load_bundle(path, rows=rows) for path in find_bundles(paths)]
    return EvalReport(tuple(sorted(benchmarks, key=lambda bench: (bench.name, bench.model, str(bench.path)))))


def load_bundle(path: Path, *, rows: bool = False) -> BenchmarkReport:
    """One bundle file as a benchmark report. Raises UsageError when the file is not a bundle."""
    try:
        document = read_json(path)
    except orjson.JSONDecodeError as error:
        raise UsageError(f"{path} is not JSON: {error}", hint="was it cut off? run again with --resume") from error
    if not isinstance(document, dict) or not isinstance(document.get("benchmark"), dict):
        raise UsageError(f"{path} is not a bundle", hint="a bundle is the eval-*.json file in a task folder")
    bench, config = document["benchmark"], _dict(document.get("config"))
    scores = _dict(bench.get("scores"))
    samples = int(_number(bench.get("samples")) or 0)
    metrics = [score for name, raw in scores.items() if (score := _score(name, raw, samples)) is not None]
    headline = _headline(metrics)
    validity = _dict(document.get("validity"))
    reasons = [str(reason) for reason in validity.get("reasons") or []]
    if document.get("error") or bench.get("error"):
        reasons.append(str(document.get("error") or bench.get("error")))
    status = str(validity.get("status") or (INVALID if reasons else UNCHECKED))
    return BenchmarkReport(
        name=str(bench.get("name") or config.get("benchmark") or path.parent.name),
        model=str(config.get("model") or ""),
        run_id=str(document.get("run_id") or path.stem),
        path=path,
        timestamp=str(document.get("timestamp") or ""),
        sdk_version=str(document.get("sdk_version") or ""),
        config_hash=str(document.get("config_hash") or ""),
        samples=samples,
        repeats=int(_number(bench.get("repeats")) or 1),
        n_results=int(_number(document.get("n_results")) or 0),
        status=status,
        reasons=tuple(reasons),
        coverage=_coverage(_dict(bench.get("coverage"))),
        truncated_share=_number(bench.get("truncated_share")),
        unparsed_share=_number(bench.get("unparsed_share")),
        headline=headline,
        scorers=tuple(s for s in metrics if s.name.startswith("scorer:") and s is not headline),
        others=tuple(s for s in metrics if not s.name.startswith("scorer:") and s is not headline),
        categories=tuple(_group(name, raw) for name, raw in _dict(bench.get("categories")).items()),
        breakdowns={
            field: tuple(_group(str(raw.get("group")), raw) for raw in groups)
            for field, groups in _dict(scores.get("breakdowns")).items()
        },
        failures=_failures(_dict(scores.get("failures"))),
        runtime=_runtime(_dict(scores.get("runtime"))),
        config=config,
        details=read_details(path.parent / "results.jsonl") if rows else None,
        stop_rule=rule_words(_dict(document.get("stopped"))),
    )


def _score(name: str, raw: Any, samples: int) -> Score | None:
    if name in _NOT_SCORES:
        return None
    value = _number(raw.get("value") if isinstance(raw, dict) else raw)
    if value is None:
        return None
    if not isinstance(raw, dict):
        return Score(name, value)
    lower, upper, method = _number(raw.get("ci_lower")), _number(raw.get("ci_upper")), raw.get("ci_method")
    if method is None and _number(raw.get("bootstrap_ci_lower")) is not None:
        # Bundles from before ci_method: ci_lower covered only the noise of repeats; the bootstrap covers problems.
        lower, upper, method = _number(raw["bootstrap_ci_lower"]), _number(raw.get("bootstrap_ci_upper")), "bootstrap"
    n = _number(raw.get("n")) or _number(raw.get("total"))
    total = _number(raw.get("total"))
    return Score(
        name=name,
        value=value,
        ci_lower=lower,
        ci_upper=upper,
        ci_method=str(method) if method else None,
        n=int(n) if n is not None else (samples or None),
        correct=_number(raw.get("correct")),
        total=int(total) if total is not None else None,
    )


def _headline(metrics: list[Score]) -> Score | None:
    named = {score.name: score for score in metrics}
    for name in ("mean_reward", "pass@1"):
        if name in named:
            return named[name]
    for score in metrics:
        if not score.name.startswith("scorer:") and not _TIMING.search(
            score.name.rsplit("/", 1)[-1].rsplit(".", 1)[-1]
        ):
            return score
    return next((score for score in metrics if score.name.startswith("scorer:")), None)


def _coverage(raw: JsonDict) -> Coverage:
    planned, scored, failed = (_whole(raw.get(key)) for key in ("planned", "scored", "failed"))
    share = _number(raw.get("share"))
    if share is None and planned and scored is not None:
        share = scored / planned
    return Coverage(planned, scored, failed, share)


def _group(name: str, raw: Any) -> Group:
    fields = _dict(raw)
    return Group(
        name=str(name),
        n=_whole(fields.get("n")) or 0,
        mean_reward=_number(fields.get("mean_reward")) or 0.0,
        ci_lower=_number(fields.get("ci_lower")),
        ci_upper=_number(fields.get("ci_upper")),
    )


def _failures(raw: JsonDict) -> tuple[FailureLine, ...]:
    lines = []
    for cause, entry in _dict(raw.get("categories")).items():
        fields = _dict(entry)
        texts = [str(_dict(example).get("error") or "") for example in fields.get("exemplars") or []]
        share = _number(fields.get("percentage")) or 0.0
        lines.append(FailureLine(str(cause), _whole(fields.get("count")) or 0, share, tuple(filter(None, texts))))
    return tuple(sorted(lines, key=lambda line: (-line.count, line.cause)))


def _runtime(raw: JsonDict) -> Runtime:
    percentiles, cost = _dict(raw.get("latency_percentiles_ms")), raw.get("cost")
    return Runtime(
        total_tokens=_whole(raw.get("total_tokens")),
        prompt_tokens=_whole(raw.get("total_prompt_tokens")),
        completion_tokens=_whole(raw.get("total_completion_tokens")),
        elapsed_seconds=_number(raw.get("elapsed_seconds")),
        p50_ms=_number(percentiles.get("p50")),
        p90_ms=_number(percentiles.get("p90")),
        p99_ms=_number(percentiles.get("p99")),
        tokens_per_second=_number(raw.get("tokens_per_second")),
        steps_per_second=_number(raw.get("steps_per_second")),
        cost_usd=_number(raw.get("cost_usd", _dict(cost).get("total_usd") if isinstance(cost, dict) else cost)),
        finish_reasons={str(k): int(v) for k, v in _dict(raw.get("finish_reason_counts")).items()},
    )


def _dict(value: Any) -> JsonDict:
    return value if isinstance(value, dict) else {}


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return value


def _whole(value: Any) -> int | None:
    number = _number(value)
    return None if number is None else int(number)
