"""One benchmark against its limits: the margins, the two p-values behind the decision, and the resulting status.

A limit is kept when p_pass <= alpha, exceeded when p_breach <= alpha (after the correction for many benchmarks), and
inconclusive otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from nemo_evaluator.config.gate_policy import PolicyDefaults
from nemo_evaluator.decisions.calibrate.labelled_pair import LabelledPair
from nemo_evaluator.decisions.compare.verdict import shifted
from nemo_evaluator.decisions.gate.report import BenchmarkGate, Remedy, Status
from nemo_evaluator.decisions.pairing import Pairing
from nemo_evaluator.decisions.run_noise import RunNoise
from nemo_evaluator.runs.row_table import Floats, RowTable
from nemo_evaluator.statistics import (
    PLANNED,
    Correction,
    Interval,
    Reading,
    Spending,
    adjust,
    mean_difference,
)
from nemo_evaluator.statistics.clusters import design_effect


@dataclass(frozen=True, slots=True)
class Limit:
    """One limit and the evidence about it.

    Attributes:
        name: The setting of the policy: ``max_drop`` or ``max_relative_drop``.
        margin: How far the mean gain lies above the limit; positive is good.
        p_pass: One-sided p-value of "the limit is not kept".
        p_breach: One-sided p-value of "the limit is not exceeded".
        ruler: How the margin was measured.
        relative: The share of the baseline that a relative limit allows to be lost.
    """

    name: str
    margin: Interval
    p_pass: float
    p_breach: float
    ruler: Ruler
    relative: float = 0.0


@dataclass(frozen=True, slots=True)
class Measured:
    """The difference of one benchmark, the margins to its limits, and notes about them."""

    delta: Interval
    limits: list[Limit]
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Ruler:
    """How the margin to a limit is measured: the mean of ``gain`` against ``-allowed``.

    Attributes:
        name: The setting of the policy.
        gain: The gain of each problem; negative when the candidate is worse.
        allowed: The allowed mean loss.
        pairing: The paired problems.
        confidence: Confidence level of the margin's interval.
        spending: How the error is divided.
        share: The share of the baseline's rewards that is part of ``gain``, for a relative limit.
        contrast: Each gain plus the allowed loss of its own problem, for a relative limit; its spread counts as well.
    """

    name: str
    gain: Floats
    allowed: float
    pairing: Pairing
    confidence: float
    spending: Spending = PLANNED
    share: float = 0.0
    contrast: Floats | None = None

    @property
    def sd(self) -> float:
        """Standard deviation of one problem's margin."""
        gain_sd = float(self.gain.std(ddof=1))
        if self.contrast is None:
            return gain_sd
        return max(gain_sd, float(self.contrast.std(ddof=1)))

    @property
    def design_effect(self) -> float:
        """How many problems are worth one independent problem."""
        return design_effect(self.gain, self.pairing.clusters)

    @property
    def reach(self) -> float:
        """The largest possible size of a single gain."""
        return (1 + self.share) * self.pairing.scale

    def limit(self) -> Limit:
        """The margin, with the evidence that the limit is kept and that it is exceeded."""
        fixed: Reading = self.pairing.mean_difference(self.gain)
        if self.contrast is not None:
            contrast = mean_difference(
                self.contrast, scale=2 * self.reach, clusters=self.pairing.clusters
            )
            fixed = _WeakerReading(fixed, contrast, self.allowed)
        reach = self.reach if self.pairing.bounded else math.inf
        evidence = self.spending.reading(
            self.gain, fixed, reach=reach, clustered=self.pairing.clusters is not None
        )
        interval = evidence.interval(self.confidence)
        gain = replace(interval, value=float(self.gain.mean()), n=len(self.gain))
        return Limit(
            name=self.name,
            margin=shifted(gain, self.allowed),
            p_pass=evidence.p_above(-self.allowed),
            p_breach=evidence.p_below(-self.allowed),
            ruler=self,
        )


@dataclass(frozen=True, slots=True)
class _WeakerReading:
    """The weaker evidence of two readings of one mean; values of ``other`` are larger by ``shift``."""

    first: Reading
    other: Reading
    shift: float

    def interval(self, confidence: float = 0.95) -> Interval:
        """The union of both intervals."""
        first_interval = self.first.interval(confidence)
        other_interval = shifted(self.other.interval(confidence), -self.shift)
        if (
            first_interval.lower is None
            or first_interval.upper is None
            or other_interval.lower is None
            or other_interval.upper is None
        ):
            return replace(first_interval, lower=None, upper=None)
        lower = min(first_interval.lower, other_interval.lower)
        upper = max(first_interval.upper, other_interval.upper)
        return replace(first_interval, lower=lower, upper=upper)

    def p_above(self, bound: float) -> float:
        """The larger of the two p-values."""
        return max(self.first.p_above(bound), self.other.p_above(bound + self.shift))

    def p_below(self, bound: float) -> float:
        """The larger of the two p-values."""
        return max(self.first.p_below(bound), self.other.p_below(bound + self.shift))


def measure(
    pairing: Pairing, limits: PolicyDefaults, *, confidence: float, spending: Spending = PLANNED
) -> Measured:
    """Measure the difference and its margins to the limits of the policy.

    Args:
        pairing: The paired problems.
        limits: The benchmark's limits.
        confidence: Confidence level.
        spending: How the error is divided between looks and the planned end.
    """
    baseline_rewards = pairing.baseline.rewards
    candidate_rewards = pairing.candidate.rewards
    better = 1.0 if limits.direction == "higher_is_better" else -1.0
    absolute = Ruler(
        name="max_drop",
        gain=better * (candidate_rewards - baseline_rewards),
        allowed=limits.max_drop,
        pairing=pairing,
        confidence=confidence,
        spending=spending,
    )
    margins = [absolute.limit()]
    notes: list[str] = []
    if spending.looking and not pairing.bounded:
        notes.append("rewards beyond [0, 1]: no interval holds under repeated looking")
    relative = limits.max_relative_drop
    guard_below = limits.relative_guard_below
    baseline_score = float(baseline_rewards.mean())
    relative_applies = relative is not None and (
        guard_below is None or baseline_score < guard_below
    )
    if relative is not None and relative_applies:
        if baseline_score == 0.0 and better > 0:
            notes.append(
                "max_relative_drop does not apply to a baseline score of 0; only max_drop decides"
            )
        else:
            allowed_losses = relative * np.copysign(1.0, baseline_score) * baseline_rewards
            limit = _relative_ruler(absolute, allowed_losses, relative).limit()
            margins.append(replace(limit, relative=relative))
    delta = pairing.reading(pairing.differences, spending).interval(confidence)
    return Measured(delta, margins, notes)


def _relative_ruler(absolute: Ruler, allowed_losses: Floats, share: float) -> Ruler:
    """The ruler of a relative limit: the mean of gain + allowed loss must not be negative.

    Nothing is divided by the baseline, so the rule works for a baseline near zero.
    """
    ruler = replace(absolute, name="max_relative_drop")
    contrast = ruler.gain + allowed_losses
    if not ruler.pairing.bounded:
        return replace(ruler, gain=contrast, allowed=0.0, share=share)
    # Flips are few, and the next one moves the margin by a whole point however small the allowed losses are. A
    # confidence sequence of the sums allows for that. The usual interval does not: it tests the flips against the mean
    # allowed loss and also, where the baseline's own spread makes the margin less certain than the flips do, the sums.
    if ruler.spending.looking:
        looking_only = replace(ruler.spending, last=0.0)
        return replace(ruler, gain=contrast, allowed=0.0, share=share, spending=looking_only)
    return replace(ruler, allowed=float(allowed_losses.mean()), contrast=contrast)


def corrected(
    measured: Measured, labelled: LabelledPair, better: float, confidence: float, moved: float
) -> Measured:
    """Measure the same limits on the scores that human labels correct.

    Args:
        measured: The uncorrected measurement.
        labelled: Both runs with their labels.
        better: 1 when a higher reward is better, else -1.
        confidence: Confidence level.
        moved: How much the imagined missing rows change the difference.
    """
    limits: list[Limit] = []
    for limit in measured.limits:
        baseline_score = float(limit.ruler.pairing.baseline.rewards.mean())
        if limit.name == "max_relative_drop":
            share = 1 - better * limit.relative * math.copysign(1.0, baseline_score)
            allowed = 0.0
        else:
            share = 1.0
            allowed = limit.ruler.allowed
        difference = labelled.difference(better, share)
        shift = allowed + better * moved
        gain = replace(difference.interval(confidence), n=limit.margin.n)
        corrected_limit = replace(
            limit,
            margin=shifted(gain, shift),
            p_pass=difference.p_above(-shift),
            p_breach=difference.p_below(-shift),
        )
        limits.append(corrected_limit)
    delta = shifted(labelled.difference().interval(confidence), moved)
    return replace(measured, delta=delta, limits=limits)


@dataclass(slots=True)
class Measurement:
    """A measured benchmark that has no status yet.

    Attributes:
        entry: Its entry in the report.
        measured: The difference and its margins.
        pairing: The paired problems.
        doubts: Reasons that keep a good result from being proof.
        rows: The rows of both runs.
        labelled: Whether human labels correct the difference.
        worst: The measurement with every missing row counted against the candidate.
        best: The measurement with every missing row counted in the candidate's favour.
        noise: The run-to-run noise of the difference; None if it is not known.
    """

    entry: BenchmarkGate
    measured: Measured
    pairing: Pairing
    doubts: list[str] = field(default_factory=list)
    rows: tuple[RowTable, RowTable] | None = None
    labelled: bool = False
    worst: Measured | None = None
    best: Measured | None = None
    noise: RunNoise | None = None

    @property
    def p_pass(self) -> float:
        """The p-value of "some limit is not kept", however the missing rows would have scored."""
        limits = list(self.measured.limits)
        if self.worst is not None:
            limits += self.worst.limits
        return max(limit.p_pass for limit in limits)

    def p_breach(self, limit: Limit) -> float:
        """The p-value of "``limit`` is not exceeded", however the missing rows would have scored.

        It is 1 for a difference that noise alone explains.
        """
        if self.noise is not None and self.noise.covers(self.measured.delta.value):
            return 1.0
        p_values = [limit.p_breach]
        if self.best is not None:
            p_values += [
                best_limit.p_breach
                for best_limit in self.best.limits
                if best_limit.name == limit.name
            ]
        return max(p_values)

    @property
    def smallest_p_breach(self) -> float:
        """The smallest ``p_breach`` of its limits."""
        return min(self.p_breach(limit) for limit in self.measured.limits)

    def unproved(self, alpha: float) -> list[Limit]:
        """The limits that are not proved to be kept."""
        return [limit for limit in self.measured.limits if limit.p_pass > alpha]

    def note_noise(self) -> None:
        """Add a doubt if the difference is inside the noise, and a limit is not kept with the noise against it."""
        delta = self.measured.delta.value
        if self.noise is None or not self.noise.covers(delta):
            return
        if any(limit.margin.value < self.noise.bound for limit in self.measured.limits):
            self.doubts.append(
                f"the difference of {delta:+.4f} is inside the noise: {self.noise.words}"
            )

    def note_missing(self, lost: tuple[int, int], alpha: float) -> None:
        """Add a doubt if a limit is kept, or exceeded, only as long as failed rows are left out.

        Args:
            lost: Number of failed rows of baseline and candidate.
            alpha: The level of each test.
        """
        assert self.worst is not None and self.best is not None
        worst_delta = self.worst.delta.value
        best_delta = self.best.delta.value
        self.entry.delta_worst_case = round(worst_delta, 6)
        self.entry.delta_best_case = round(best_delta, 6)
        failed_rows = (
            f"rows that failed ({lost[0]:,} in the baseline, {lost[1]:,} in the candidate)"
        )
        rescore_hint = "score them: `nel eval run --resume`"
        kept_without_failed = not self.unproved(alpha)
        exceeded_only_without_failed = any(
            limit.p_breach <= alpha < self.p_breach(limit) for limit in self.measured.limits
        )
        if kept_without_failed and self.p_pass > alpha:
            worst_words = f"counted against the candidate, the difference is {worst_delta:+.4f}"
            doubt = f"{failed_rows} could hide more than the limit: {worst_words}; {rescore_hint}"
            self.doubts.insert(0, doubt)
            self.entry.remedy = Remedy(None, None, f"no failed rows: {rescore_hint}")
        elif exceeded_only_without_failed:
            best_words = f"counted in the candidate's favour, the difference is {best_delta:+.4f}"
            self.doubts.insert(
                0, f"{failed_rows} could make up for the drop: {best_words}; {rescore_hint}"
            )


def settle(measurements: Sequence[Measurement], *, correction: Correction, alpha: float) -> None:
    """Give every measured benchmark its status.

    Args:
        measurements: The measured benchmarks.
        correction: The correction for their number, applied within each tier.
        alpha: The level of each test.
    """
    for tier in ("critical", "supporting", "advisory"):
        family = [benchmark for benchmark in measurements if benchmark.entry.tier == tier]
        p_values: list[float] = []
        for benchmark in family:
            # Two limits on one benchmark are two chances to breach (Bonferroni).
            limits = len(benchmark.measured.limits)
            p_values.append(min(1.0, benchmark.smallest_p_breach * limits))
        adjusted_p_values = adjust(p_values, correction)
        for benchmark, p_breach in zip(family, adjusted_p_values, strict=True):
            _set_status(benchmark, p_breach, alpha)


def _set_status(benchmark: Measurement, p_breach: float, alpha: float) -> None:
    """BREACH when a limit is proved to be exceeded, PASS when all are proved to be kept and nothing raises a doubt."""
    entry = benchmark.entry
    entry.p_pass = benchmark.p_pass
    entry.p_breach = benchmark.smallest_p_breach
    entry.p_breach_adjusted = p_breach
    if p_breach <= alpha:
        entry.status = Status.BREACH
        for limit in benchmark.measured.limits:
            if benchmark.p_breach(limit) > alpha:
                continue
            if limit.name == "max_drop":
                entry.absolute_breached = True
            else:
                entry.relative_breached = True
            entry.reasons.append(f"{limit.name} is exceeded by {-limit.margin.value:.4f}")
        return
    unproved = benchmark.unproved(alpha)
    for limit in unproved:
        entry.reasons.append(f"{limit.name} is inconclusive at this confidence")
    entry.reasons += benchmark.doubts
    if unproved or benchmark.doubts:
        entry.status = Status.INSUFFICIENT
    else:
        entry.status = Status.PASS
