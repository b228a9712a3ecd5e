"""Bundles on disk → the report model. Fields that an older bundle lacks become None, never a made-up number."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import orjson

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.failures import Cause
from nemo_evaluator.core.files import read_json
from nemo_evaluator.core.shapes import as_dict, as_list, as_number, as_whole
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.decisions.stopping import rule_words
from nemo_evaluator.decisions.unfinished import find_unfinished
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
from nemo_evaluator.store.sums import verified

_NOT_SCORES: Final = frozenset({"summary", "breakdowns", "runtime", "failures"})
# Categories of the failure analysis whose rows were scored.
_FLAWS: Final = frozenset({"refusal", "format_error", Cause.CONTEXT_EXCEEDED, Cause.BUDGET})
_TIMING: Final = re.compile(r"gen_seconds|latency|duration|tokens|time_ms|_time$|_ms$|_time_")


def load_report(paths: Path | str | Iterable[Path | str], *, rows: bool = False) -> EvalReport:
    """The report on everything under ``paths``; ``rows`` also reads results.jsonl for distributions and examples.

    Raises UsageError when there is nothing to report on, or a bundle cannot be read.
    """
    given = [Path(paths)] if isinstance(paths, str | Path) else [Path(path) for path in paths]
    unfinished = {one.folder: one for path in given for one in find_unfinished(path)}
    try:
        found = find_bundles(given)
    except UsageError as error:
        if not unfinished:
            raise
        reasons = "; ".join(f"{one.name}: {one.reason}" for one in unfinished.values())
        raise UsageError(f"no benchmark has finished: {reasons}", hint="`nel eval status` says more") from error
    benchmarks = [load_bundle(path, rows=rows) for path in found]
    in_order = sorted(benchmarks, key=lambda bench: (bench.name, bench.model, str(bench.path)))
    return EvalReport(tuple(in_order), tuple(unfinished.values()))


def load_bundle(path: Path, *, rows: bool = False) -> BenchmarkReport:
    """One bundle file as a benchmark report. Raises UsageError when the file is not a bundle."""
    try:
        document = read_json(verified(path))
    except orjson.JSONDecodeError as error:
        raise UsageError(f"{path} is not JSON: {error}", hint="was it cut off? run again with --resume") from error
    if not isinstance(document, dict) or not isinstance(document.get("benchmark"), dict):
        raise UsageError(f"{path} is not a bundle", hint="a bundle is the eval-*.json file in a task folder")
    bench, config = document["benchmark"], as_dict(document.get("config"))
    scores = as_dict(bench.get("scores"))
    samples = int(as_number(bench.get("samples")) or 0)
    metrics = [score for name, raw in scores.items() if (score := _score(name, raw, samples)) is not None]
    headline = _headline(metrics)
    if headline is not None and bench.get("fallback"):
        at = metrics.index(headline)
        metrics[at] = headline = replace(headline, name=f"{headline.name} (fallback)")
    analysed = _failures(as_dict(scores.get("failures")))
    validity = as_dict(document.get("validity"))
    reasons = [str(reason) for reason in as_list(validity.get("reasons"))]
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
        repeats=int(as_number(bench.get("repeats")) or 1),
        n_results=int(as_number(document.get("n_results")) or 0),
        status=status,
        reasons=tuple(reasons),
        coverage=_coverage(as_dict(bench.get("coverage"))),
        truncated_share=as_number(bench.get("truncated_share")),
        unparsed_share=as_number(bench.get("unparsed_share")),
        headline=headline,
        scorers=tuple(s for s in metrics if s.name.startswith("scorer:") and s is not headline),
        others=tuple(s for s in metrics if not s.name.startswith("scorer:") and s is not headline),
        categories=tuple(_group(name, raw) for name, raw in as_dict(bench.get("categories")).items()),
        breakdowns={
            field: tuple(_group(str(raw.get("group")), raw) for raw in groups)
            for field, found in as_dict(scores.get("breakdowns")).items()
            if (groups := [raw for raw in as_list(found) if isinstance(raw, dict)])
        },
        failures=tuple(line for line in analysed if line.cause not in _FLAWS),
        flaws=tuple(line for line in analysed if line.cause in _FLAWS),
        runtime=_runtime(as_dict(scores.get("runtime"))),
        config=config,
        details=read_details(path.parent / "results.jsonl") if rows else None,
        stop_rule=rule_words(as_dict(document.get("stopped"))),
        notes=tuple(map(str, as_list(bench.get("notes")))),
    )


def _score(name: str, raw: Any, samples: int) -> Score | None:
    if name in _NOT_SCORES:
        return None
    value = as_number(raw.get("value") if isinstance(raw, dict) else raw)
    if value is None:
        return None
    if not isinstance(raw, dict):
        return Score(name, value)
    lower, upper, method = as_number(raw.get("ci_lower")), as_number(raw.get("ci_upper")), raw.get("ci_method")
    if method is None and as_number(raw.get("bootstrap_ci_lower")) is not None:
        # Bundles from before ci_method: ci_lower covered only the noise of repeats; the bootstrap covers problems.
        lower, upper, method = (
            as_number(raw["bootstrap_ci_lower"]),
            as_number(raw.get("bootstrap_ci_upper")),
            "bootstrap",
        )
    n = as_number(raw.get("n")) or as_number(raw.get("total"))
    total = as_number(raw.get("total"))
    return Score(
        name=name,
        value=value,
        ci_lower=lower,
        ci_upper=upper,
        ci_method=str(method) if method else None,
        n=int(n) if n is not None else (samples or None),
        correct=as_number(raw.get("correct")),
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
    planned, scored, failed = (as_whole(raw.get(key)) for key in ("planned", "scored", "failed"))
    share = as_number(raw.get("share"))
    if share is None and planned and scored is not None:
        share = scored / planned
    return Coverage(planned, scored, failed, share)


def _group(name: str, raw: Any) -> Group:
    fields = as_dict(raw)
    return Group(
        name=str(name),
        n=as_whole(fields.get("n")) or 0,
        mean_reward=as_number(fields.get("mean_reward")) or 0.0,
        ci_lower=as_number(fields.get("ci_lower")),
        ci_upper=as_number(fields.get("ci_upper")),
    )


def _failures(raw: JsonDict) -> tuple[FailureLine, ...]:
    lines = []
    for cause, entry in as_dict(raw.get("categories")).items():
        fields = as_dict(entry)
        texts = [str(as_dict(example).get("error") or "") for example in as_list(fields.get("exemplars"))]
        share = as_number(fields.get("percentage")) or 0.0
        lines.append(FailureLine(str(cause), as_whole(fields.get("count")) or 0, share, tuple(filter(None, texts))))
    return tuple(sorted(lines, key=lambda line: (-line.count, line.cause)))


def _runtime(raw: JsonDict) -> Runtime:
    percentiles, cost = as_dict(raw.get("latency_percentiles_ms")), raw.get("cost")
    return Runtime(
        total_tokens=as_whole(raw.get("total_tokens")),
        prompt_tokens=as_whole(raw.get("total_prompt_tokens")),
        completion_tokens=as_whole(raw.get("total_completion_tokens")),
        elapsed_seconds=as_number(raw.get("elapsed_seconds")),
        p50_ms=as_number(percentiles.get("p50")),
        queue_p50_ms=as_number(as_dict(raw.get("queue_percentiles_ms")).get("p50")),
        p90_ms=as_number(percentiles.get("p90")),
        p99_ms=as_number(percentiles.get("p99")),
        tokens_per_second=as_number(raw.get("tokens_per_second")),
        steps_per_second=as_number(raw.get("steps_per_second")),
        cost_usd=as_number(raw.get("cost_usd", as_dict(cost).get("total_usd") if isinstance(cost, dict) else cost)),
        finish_reasons={str(k): as_whole(v) or 0 for k, v in as_dict(raw.get("finish_reason_counts")).items()},
    )
