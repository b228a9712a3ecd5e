"""What changed besides the score: length, time, cost, truncation, refusals, unreadable answers, failures."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np

from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.runs.row_table import RowTable

# A share that moves by this much is worth a warning: it changes what the score measures.
_NOTEWORTHY = 0.02


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
