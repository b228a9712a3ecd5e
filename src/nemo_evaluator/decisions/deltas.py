"""Bundle against bundle, number by number: for orientation only, the verdict does not read them."""

from __future__ import annotations

from typing import Any, Final

from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.decisions.bundles import Run

_RUNTIME: Final = ("total_tokens", "steps_per_second", "tokens_per_second")
_NOT_SCORES: Final = ("summary", "breakdowns", "runtime", "failures")


def score_deltas(left: Run, right: Run) -> dict[str, JsonDict]:
    """Every metric that both bundles have."""
    one, two = left.benchmark.get("scores") or {}, right.benchmark.get("scores") or {}
    return {
        name: _delta(one[name], two[name])
        for name in one
        if name in two and name not in _NOT_SCORES and _is_score(one[name]) and _is_score(two[name])
    }


def _is_score(entry: Any) -> bool:
    value = entry.get("value") if isinstance(entry, dict) else None
    return isinstance(value, int | float) and not isinstance(value, bool)


def _delta(one: JsonDict, two: JsonDict) -> JsonDict:
    before, after = float(one["value"]), float(two["value"])
    return {
        "baseline": before,
        "candidate": after,
        "delta": round(after - before, 4),
        "relative_pct": round(100 * (after - before) / before, 2) if before else 0.0,
        "ci_overlap": _overlap(one, two),
    }


def _overlap(one: JsonDict, two: JsonDict) -> bool | None:
    """Whether the intervals touch; unknown without all four bounds."""
    bounds = [entry.get(key) for entry in (one, two) for key in ("ci_lower", "ci_upper")]
    known = [float(bound) for bound in bounds if bound is not None]
    return known[0] <= known[3] and known[2] <= known[1] if len(known) == 4 else None


def runtime_deltas(left: Run, right: Run) -> dict[str, JsonDict]:
    """Tokens and throughput."""
    one, two = (((run.benchmark.get("scores") or {}).get("runtime") or {}) for run in (left, right))
    return {
        name: {"baseline": one[name], "candidate": two[name], "delta": round(two[name] - one[name], 4)}
        for name in _RUNTIME
        if isinstance(one.get(name), int | float) and isinstance(two.get(name), int | float)
    }
