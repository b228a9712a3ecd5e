"""Bundle against bundle, number by number: for orientation only, the verdict does not read them."""

from __future__ import annotations

from typing import Final

from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.runs.bundle import Bundle
from nemo_evaluator.runs.scores import Score

_RUNTIME: Final = ("total_tokens", "steps_per_second", "tokens_per_second")


def score_deltas(left: Bundle, right: Bundle) -> dict[str, JsonDict]:
    """Every metric that both bundles have."""
    theirs = {score.name: score for score in right.scores}
    return {one.name: _delta(one, theirs[one.name]) for one in left.scores if one.name in theirs}


def _delta(one: Score, two: Score) -> JsonDict:
    before, after = float(one.value), float(two.value)
    return {
        "baseline": before,
        "candidate": after,
        "delta": round(after - before, 4),
        "relative_pct": round(100 * (after - before) / before, 2) if before else 0.0,
        "ci_overlap": _overlap(one, two),
    }


def _overlap(one: Score, two: Score) -> bool | None:
    """Whether the intervals touch; unknown without all four bounds."""
    bounds = one.ci_lower, one.ci_upper, two.ci_lower, two.ci_upper
    known = [bound for bound in bounds if bound is not None]
    return known[0] <= known[3] and known[2] <= known[1] if len(known) == 4 else None


def runtime_deltas(left: Bundle, right: Bundle) -> dict[str, JsonDict]:
    """Tokens and throughput."""
    pairs = {name: (getattr(left.runtime, name), getattr(right.runtime, name)) for name in _RUNTIME}
    return {
        name: {"baseline": one, "candidate": two, "delta": round(two - one, 4)}
        for name, (one, two) in pairs.items()
        if one is not None and two is not None
    }
