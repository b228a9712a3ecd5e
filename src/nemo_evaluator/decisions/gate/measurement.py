"""One benchmark that was measured, on its way to a status: what failed rows could hide, and the correction for many."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from nemo_evaluator.decisions.gate.report import BenchmarkGate, Remedy, Status
from nemo_evaluator.decisions.gate.thresholds import Limit, Measured
from nemo_evaluator.decisions.pairing import Pairing
from nemo_evaluator.metrics import Correction, adjust
from nemo_evaluator.runs.row_table import RowTable


@dataclass(slots=True)
class Measurement:
    """A benchmark that was measured and waits for its status."""

    entry: BenchmarkGate
    measured: Measured
    pairing: Pairing
    # What keeps a good result from being proof.
    doubts: list[str] = field(default_factory=list)
    rows: tuple[RowTable, RowTable] | None = None
    # Whether people's labels, not the judge alone, say how far the sides are apart.
    labelled: bool = False
    # The same with every missing row counted against the candidate, and in its favour.
    worst: Measured | None = None
    best: Measured | None = None

    @property
    def p_pass(self) -> float:
        """The evidence that every limit is kept, however the missing rows would have scored."""
        return max(limit.p_pass for one in (self.measured, self.worst) if one for limit in one.limits)

    def p_breach(self, limit: Limit) -> float:
        """The evidence that a limit is exceeded, however the missing rows would have scored."""
        same = [other for other in self.best.limits if other.name == limit.name] if self.best else []
        return max(other.p_breach for other in (limit, *same))

    def unproved(self, alpha: float) -> list[Limit]:
        """The limits that are not surely kept."""
        return [limit for limit in self.measured.limits if not limit.holds(alpha)]

    def note_missing(self, lost: tuple[int, int], alpha: float) -> None:
        """What rows that failed could hide: a limit that is kept, or exceeded, only if they are left out."""
        assert self.worst is not None and self.best is not None
        entry = self.entry
        entry.delta_worst_case, entry.delta_best_case = (round(x.delta.value, 6) for x in (self.worst, self.best))
        where = f"rows that failed ({lost[0]:,} in the baseline, {lost[1]:,} in the candidate)"
        score = "score them: `nel eval run --resume`"
        if not self.unproved(alpha) and self.p_pass > alpha:
            worst = f"counted against the candidate, the difference is {self.worst.delta.value:+.4f}"
            self.doubts.insert(0, f"{where} could hide more than the limit: {worst}; {score}")
            entry.remedy = Remedy(None, None, f"no failed rows: {score}")
        elif any(limit.p_breach <= alpha < self.p_breach(limit) for limit in self.measured.limits):
            best = f"counted in the candidate's favour, the difference is {self.best.delta.value:+.4f}"
            self.doubts.insert(0, f"{where} could make up for the drop: {best}; {score}")


def settle(found: Sequence[Measurement], *, correction: Correction, alpha: float) -> None:
    """Give every measured benchmark its status; the correction for their number works within each tier."""
    for tier in ("critical", "supporting", "advisory"):
        family = [one for one in found if one.entry.tier == tier]
        # Two limits on one benchmark are two chances to breach.
        p_values = [min(1.0, min(map(one.p_breach, one.measured.limits)) * len(one.measured.limits)) for one in family]
        for one, adjusted in zip(family, adjust(p_values, correction), strict=True):
            _status(one, adjusted, alpha)


def _status(one: Measurement, p_breach: float, alpha: float) -> None:
    entry, limits = one.entry, one.measured.limits
    entry.p_pass = one.p_pass
    entry.p_breach = min(map(one.p_breach, limits))
    entry.p_breach_adjusted = p_breach
    if p_breach <= alpha:
        entry.status = Status.BREACH
        broken = [limit for limit in limits if one.p_breach(limit) <= alpha]
        entry.absolute_breached = any(limit.name == "max_drop" for limit in broken)
        entry.relative_breached = any(limit.name == "max_relative_drop" for limit in broken)
        entry.reasons += [f"{limit.name} is exceeded beyond doubt, by {-limit.margin.value:.4f}" for limit in broken]
        return
    open_limits = one.unproved(alpha)
    entry.reasons += [f"{limit.name} is inconclusive at this confidence" for limit in open_limits]
    entry.reasons += one.doubts
    entry.status = Status.INSUFFICIENT if open_limits or one.doubts else Status.PASS
