"""What changed besides the mean: length, time, cost, truncation, refusals, unreadable answers, failures; and bundle
against bundle, number by number, for orientation only: the verdict does not read them."""

from dataclasses import asdict, dataclass
from typing import Final

import numpy as np

from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.runs.bundle import Bundle
from nemo_evaluator.runs.row_table import RowTable
from nemo_evaluator.runs.scores import Score

# A share that moves by this much is worth a warning: it changes what the score measures.
_NOTEWORTHY: Final = 0.02
_RUNTIME: Final = ("total_tokens", "steps_per_second", "tokens_per_second")


@dataclass(frozen=True, slots=True)
class Shift:
    """One quantity on both sides; ``unit`` is how to print it."""

    name: str
    baseline: float | None
    candidate: float | None
    unit: str

    @property
    def delta(self) -> float | None:
        """Candidate minus baseline."""
        return None if self.baseline is None or self.candidate is None else self.candidate - self.baseline

    @property
    def relative_pct(self) -> float | None:
        """The change in percent of the baseline."""
        delta = self.delta
        return None if delta is None or not self.baseline else 100 * delta / self.baseline

    def to_dict(self) -> JsonDict:
        """The shift as JSON."""
        return asdict(self) | {"delta": self.delta, "relative_pct": self.relative_pct}


def shifts(baseline: RowTable, candidate: RowTable) -> list[Shift]:
    """All quantities that both sides know."""
    # Rows of older formats know the tokens of the whole exchange only; then both sides are counted that way.
    whole = not (baseline.tokens.any() and candidate.tokens.any())
    left, right = _facts(baseline, whole), _facts(candidate, whole)
    found = [Shift(name, value, right[name][0], unit) for name, (value, unit) in left.items()]
    return [shift for shift in found if shift.baseline is not None or shift.candidate is not None]


def shift_warnings(found: list[Shift]) -> list[str]:
    """Shares that moved so much that the score may mean something else."""
    return [
        f"{shift.name.replace('_', ' ')} went from {shift.baseline:.1%} to {shift.candidate:.1%}"
        for shift in found
        if shift.unit == "share" and shift.delta is not None and abs(shift.delta) >= _NOTEWORTHY
    ]


def _facts(rows: RowTable, whole: bool) -> dict[str, tuple[float | None, str]]:
    n = len(rows)
    scored = rows.scored
    done = int(scored.sum())
    tokens = (rows.total if whole else rows.tokens)[scored]
    latency, cost = rows.latency[scored], rows.cost[scored]

    def share(flags: np.ndarray, of: int) -> float | None:
        return float(flags.sum()) / of if of else None

    return {
        "tokens_per_exchange" if whole else "tokens_per_answer": (_mean(tokens), "tokens"),
        "latency_p50": (float(np.median(latency)) if done and latency.any() else None, "ms"),
        "latency_p90": (float(np.quantile(latency, 0.9)) if done and latency.any() else None, "ms"),
        "cost_per_answer": (_mean(cost), "usd"),
        "truncated": (share(rows.truncated & scored, done), "share"),
        "refusals": (share(rows.refusal & scored, done), "share"),
        "unparsed": (share(rows.unparsed & scored, done), "share"),
        "failed": (share(~scored, n), "share"),
    }


def _mean(values: np.ndarray) -> float | None:
    return float(values.mean(dtype=np.float64)) if len(values) and values.any() else None


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
