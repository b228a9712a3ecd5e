"""Quantities other than the mean score that changed between two runs: lengths, latency, cost, shares, other scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from nemo_evaluator.runs.bundle import Bundle
from nemo_evaluator.runs.row_table import RowTable
from nemo_evaluator.runs.scores import Score

if TYPE_CHECKING:
    from nemo_evaluator.decisions.compare.comparison_document import DeltaEntry, ShiftEntry

# A share that moves by this much is worth a warning: it changes what the score measures.
_NOTEWORTHY: Final = 0.02
_RUNTIME: Final = ("total_tokens", "steps_per_second", "tokens_per_second")


@dataclass(frozen=True, slots=True)
class Shift:
    """One quantity on both sides.

    Attributes:
        name: The name of the quantity.
        baseline: Its value for the baseline; None when no row has it.
        candidate: Its value for the candidate; None when no row has it.
        unit: "tokens", "ms", "usd" or "share"; determines how the value is printed.
    """

    name: str
    baseline: float | None
    candidate: float | None
    unit: str

    @property
    def delta(self) -> float | None:
        """Candidate minus baseline."""
        if self.baseline is None or self.candidate is None:
            return None
        return self.candidate - self.baseline

    @property
    def relative_pct(self) -> float | None:
        """The change in percent of the baseline."""
        delta = self.delta
        if delta is None or not self.baseline:
            return None
        return 100 * delta / self.baseline

    def to_dict(self) -> ShiftEntry:
        """The JSON of the shift."""
        return {
            "name": self.name,
            "baseline": self.baseline,
            "candidate": self.candidate,
            "unit": self.unit,
            "delta": self.delta,
            "relative_pct": self.relative_pct,
        }


def shifts(baseline: RowTable, candidate: RowTable) -> list[Shift]:
    """The quantities that at least one side has.

    Args:
        baseline: The baseline's rows.
        candidate: The candidate's rows.
    """
    # Rows of older formats have only the tokens of the whole exchange; then both sides are counted that way.
    whole_exchange = not (baseline.tokens.any() and candidate.tokens.any())
    baseline_quantities = _quantities(baseline, whole_exchange=whole_exchange)
    candidate_quantities = _quantities(candidate, whole_exchange=whole_exchange)
    shifts_found: list[Shift] = []
    for name, quantity in baseline_quantities.items():
        shift = Shift(name, quantity.value, candidate_quantities[name].value, unit=quantity.unit)
        if shift.baseline is not None or shift.candidate is not None:
            shifts_found.append(shift)
    return shifts_found


def shift_warnings(changes: list[Shift]) -> list[str]:
    """Warnings about shares that changed so much that the score may measure something else."""
    warnings: list[str] = []
    for shift in changes:
        if shift.unit != "share" or shift.delta is None:
            continue
        if abs(shift.delta) >= _NOTEWORTHY:
            name = shift.name.replace("_", " ")
            warnings.append(f"{name} went from {shift.baseline:.1%} to {shift.candidate:.1%}")
    return warnings


class _Quantity(NamedTuple):
    """A value of one run and its unit."""

    value: float | None
    unit: str


def _quantities(rows: RowTable, *, whole_exchange: bool) -> dict[str, _Quantity]:
    """Tokens, latency and cost per answer, and the shares of answers with a problem."""
    scored = rows.scored
    answers = int(scored.sum())
    latency = rows.latency[scored]
    median: float | None = None
    percentile_90: float | None = None
    if answers and latency.any():
        median = float(np.median(latency))
        percentile_90 = float(np.quantile(latency, 0.9))
    if whole_exchange:
        tokens_name = "tokens_per_exchange"
        tokens = rows.total[scored]
    else:
        tokens_name = "tokens_per_answer"
        tokens = rows.tokens[scored]
    return {
        tokens_name: _Quantity(_mean(tokens), "tokens"),
        "latency_p50": _Quantity(median, "ms"),
        "latency_p90": _Quantity(percentile_90, "ms"),
        "cost_per_answer": _Quantity(_mean(rows.cost[scored]), "usd"),
        "truncated": _Quantity(_share(rows.truncated & scored, answers), "share"),
        "refusals": _Quantity(_share(rows.refusal & scored, answers), "share"),
        "unparsed": _Quantity(_share(rows.unparsed & scored, answers), "share"),
        "failed": _Quantity(_share(~scored, len(rows)), "share"),
    }


def _share(flags: np.ndarray, total: int) -> float | None:
    """The share of flags that are set; None without rows."""
    return float(flags.sum()) / total if total else None


def _mean(values: np.ndarray) -> float | None:
    """The mean; None when no row has a value."""
    if len(values) and values.any():
        return float(values.mean(dtype=np.float64))
    return None


def score_deltas(left: Bundle, right: Bundle) -> dict[str, DeltaEntry]:
    """The change of every score that both bundles have; whether intervals overlap is None without all four bounds."""
    candidate_scores = {score.name: score for score in right.scores}
    deltas: dict[str, DeltaEntry] = {}
    for baseline_score in left.scores:
        candidate_score = candidate_scores.get(baseline_score.name)
        if candidate_score is None:
            continue
        baseline_value = float(baseline_score.value)
        candidate_value = float(candidate_score.value)
        delta = candidate_value - baseline_value
        deltas[baseline_score.name] = {
            "baseline": baseline_value,
            "candidate": candidate_value,
            "delta": round(delta, 4),
            "relative_pct": round(100 * delta / baseline_value, 2) if baseline_value else 0.0,
            "ci_overlap": _overlap(baseline_score, candidate_score),
        }
    return deltas


def _overlap(left: Score, right: Score) -> bool | None:
    """Whether the intervals of two scores overlap; None without all four bounds."""
    if left.ci_lower is None or left.ci_upper is None:
        return None
    if right.ci_lower is None or right.ci_upper is None:
        return None
    return left.ci_lower <= right.ci_upper and right.ci_lower <= left.ci_upper


def runtime_deltas(left: Bundle, right: Bundle) -> dict[str, DeltaEntry]:
    """The change of tokens and speed, as far as both bundles have them."""
    deltas: dict[str, DeltaEntry] = {}
    for name in _RUNTIME:
        baseline_value = getattr(left.runtime, name)
        candidate_value = getattr(right.runtime, name)
        if baseline_value is not None and candidate_value is not None:
            deltas[name] = {
                "baseline": baseline_value,
                "candidate": candidate_value,
                "delta": round(candidate_value - baseline_value, 4),
            }
    return deltas
