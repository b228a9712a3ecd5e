"""The values of lm-eval's metrics: of a row, over all rows, and their standard errors."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from typing import Any, Final
from unittest.mock import patch

from lm_eval.api.metrics import mean, stderr_for_metric

from nemo_evaluator.core.types import JsonDict

# lm-eval's samples for the standard errors of metrics without a formula, and of those that take long.
_ITERATIONS: Final = 100_000
_SLOW_ITERATIONS: Final = 100
_SLOW_METRICS: Final = ("bleu", "chrf", "chrf++", "ter")


def values_by_task(details: Iterable[JsonDict]) -> dict[str, dict[str, list[Any]]]:
    """Return the values of all rows in the order of the documents, by task, then by ``metric,filter``."""
    grouped: dict[str, dict[str, list[Any]]] = {}
    for row in sorted(details, key=lambda row: int(row["position"])):
        values_by_metric = grouped.setdefault(row["task"], {})
        for key, value in row["metrics"].items():
            values_by_metric.setdefault(key, []).append(value)
    return grouped


def is_number(key: str, value: Any) -> bool:
    """Return whether an entry of a result is a metric or its standard error; others are sizes, names and "N/A"."""
    return "," in key and isinstance(value, (int, float))


def stderr_key(key: str) -> str:
    """Return the key of the standard error of a metric."""
    metric, _, filter_name = key.rpartition(",")
    return f"{metric}_stderr,{filter_name}"


def stderr_of(metric: str, aggregate: Callable[[list[Any]], Any], values: list[Any]) -> Any:
    """Return the standard error of a metric as lm-eval computes it, or "N/A" where lm-eval has none."""
    iterations = _SLOW_ITERATIONS if metric in _SLOW_METRICS else _ITERATIONS
    estimate = stderr_for_metric(aggregate, iterations)
    if estimate is None or len(values) < 2:
        return "N/A"
    # lm-eval prints while it draws samples; without further processes the numbers are the same.
    one_process = patch.dict(os.environ, {"DISABLE_MULTIPROC": "1"})
    with one_process, redirect_stdout(StringIO()), redirect_stderr(StringIO()):
        return estimate(values)


def is_unparsed(task: Any, metric: str, filtered: Any) -> bool:
    """Return whether a filter of a metric matched nothing, so that its fallback, such as ``[invalid]``, was scored."""
    filter_name = metric.rpartition(",")[2]
    for ensemble in task._filters:
        if ensemble.name != filter_name:
            continue
        for build_filter in ensemble.filters:
            fallback = getattr(build_filter(), "fallback", None)
            if fallback is not None and filtered == fallback:
                return True
    return False


def plain(value: Any) -> Any:
    """Convert a metric's value to plain JSON types; aggregation accepts lists instead of tuples."""
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if hasattr(value, "item"):
        return value.item()
    return value


def reward_of(value: Any) -> float:
    """Return a row's value as one number.

    A pair of a log-likelihood and a length gives their quotient; any other pair gives 1 if its items are equal, else 0.
    """
    if isinstance(value, (bool, int, float)):
        return float(value)
    if isinstance(value, list) and len(value) == 2:
        first, second = value
        if isinstance(first, float) and second:
            return first / float(second)
        return float(first == second)
    return float(mean(value))
