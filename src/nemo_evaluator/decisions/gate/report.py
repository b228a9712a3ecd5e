"""The report of a gate: the decision and the evidence behind it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from nemo_evaluator.core.types import ReportMapping
from nemo_evaluator.decisions.compare.report import REPORT_VERSION, RegressionReport
from nemo_evaluator.decisions.compare.verdict import Verdict

if TYPE_CHECKING:
    from nemo_evaluator.decisions.gate.gate_document import GateDocument, GateEntry, RemedyEntry


class GateVerdict(StrEnum):
    """The decision of a gate."""

    GO = "GO"
    NO_GO = "NO-GO"
    INCONCLUSIVE = "INCONCLUSIVE"

    @property
    def exit_code(self) -> int:
        """The exit code under ``--strict``."""
        exit_codes = {GateVerdict.GO: 0, GateVerdict.NO_GO: 1, GateVerdict.INCONCLUSIVE: 2}
        return exit_codes[self]


class Status(StrEnum):
    """The outcome of one benchmark."""

    PASS = "PASS"
    BREACH = "BREACH"
    INSUFFICIENT = "INSUFFICIENT_EVIDENCE"
    INVALID = "INVALID"
    MISSING = "MISSING"


@dataclass(frozen=True, slots=True)
class Remedy:
    """What would settle an open benchmark, estimated from the data so far.

    Attributes:
        problems_needed: How many problems would settle it; None when problems cannot.
        repeats_needed: How many repeats would settle it; None when repeats cannot.
        words: The same as a sentence.
    """

    problems_needed: int | None
    repeats_needed: int | None
    words: str

    def to_dict(self) -> RemedyEntry:
        """The JSON of the remedy."""
        return {
            "problems_needed": self.problems_needed,
            "repeats_needed": self.repeats_needed,
            "words": self.words,
        }


@dataclass(slots=True)
class BenchmarkGate:
    """One benchmark under the policy.

    Attributes:
        benchmark: Its name.
        tier: "critical", "supporting" or "advisory".
        status: The outcome.
        metric: The metric that is compared; None as long as the policy leaves it open.
        direction: Whether a higher reward is better.
        max_drop_threshold: The largest acceptable drop.
        max_relative_drop_threshold: The largest acceptable drop as a share of the baseline; None without such a limit.
        baseline_score: The baseline's mean reward on the paired problems.
        candidate_score: The candidate's mean reward on the paired problems.
        delta: Candidate minus baseline.
        relative_drop_pct: ``delta`` in percent of the baseline; negative for a drop.
        delta_ci_lower: The lower bound of ``delta``.
        delta_ci_upper: The upper bound of ``delta``.
        ci_method: How the bounds were computed.
        delta_worst_case: ``delta`` with every failed row counted against the candidate; None when none failed.
        delta_best_case: ``delta`` with every failed row counted in the candidate's favour; None when none failed.
        in_points: Whether all rewards are in [0, 1], so that a hundredth is a percentage point.
        n_paired: Number of paired problems.
        p_pass: The p-value of "some limit is not kept".
        p_breach: The smallest of its limits' p-values of "the limit is not exceeded".
        p_breach_adjusted: ``p_breach`` after the correction for several limits and benchmarks.
        absolute_breached: Whether ``max_drop_threshold`` is proved to be exceeded.
        relative_breached: Whether ``max_relative_drop_threshold`` is proved to be exceeded.
        reasons: The reasons of the status.
        remedy: What would settle an open benchmark.
        regression: The full comparison, if requested.
    """

    benchmark: str
    tier: str
    status: Status
    metric: str | None
    direction: str
    max_drop_threshold: float
    max_relative_drop_threshold: float | None
    baseline_score: float | None = None
    candidate_score: float | None = None
    delta: float | None = None
    relative_drop_pct: float | None = None
    delta_ci_lower: float | None = None
    delta_ci_upper: float | None = None
    ci_method: str | None = None
    delta_worst_case: float | None = None
    delta_best_case: float | None = None
    in_points: bool = True
    n_paired: int = 0
    p_pass: float | None = None
    p_breach: float | None = None
    p_breach_adjusted: float | None = None
    absolute_breached: bool = False
    relative_breached: bool = False
    reasons: list[str] = field(default_factory=list)
    remedy: Remedy | None = None
    regression: RegressionReport | None = None

    @property
    def word(self) -> str:
        """The status as the verdict that `nel compare` would print; files keep the status itself."""
        if self.status is Status.BREACH:
            return str(Verdict.BLOCK)
        if self.status is not Status.INSUFFICIENT:
            return str(self.status)
        warned = self.regression is not None and self.regression.verdict is Verdict.WARN
        return str(Verdict.WARN if warned else Verdict.INCONCLUSIVE)

    def to_dict(self) -> GateEntry:
        """The JSON of the entry."""
        return {
            "benchmark": self.benchmark,
            "tier": self.tier,
            "status": str(self.status),
            "metric": self.metric,
            "direction": self.direction,
            "max_drop_threshold": self.max_drop_threshold,
            "max_relative_drop_threshold": self.max_relative_drop_threshold,
            "baseline_score": self.baseline_score,
            "candidate_score": self.candidate_score,
            "delta": self.delta,
            "relative_drop_pct": self.relative_drop_pct,
            "delta_ci_lower": self.delta_ci_lower,
            "delta_ci_upper": self.delta_ci_upper,
            "ci_method": self.ci_method,
            "delta_worst_case": self.delta_worst_case,
            "delta_best_case": self.delta_best_case,
            "in_points": self.in_points,
            "n_paired": self.n_paired,
            "p_pass": self.p_pass,
            "p_breach": self.p_breach,
            "p_breach_adjusted": self.p_breach_adjusted,
            "absolute_breached": self.absolute_breached,
            "relative_breached": self.relative_breached,
            "reasons": self.reasons,
            "remedy": None if self.remedy is None else self.remedy.to_dict(),
            "regression_report": None if self.regression is None else self.regression.to_dict(),
        }


@dataclass(slots=True)
class GateReport(ReportMapping):
    """The decision and the evidence behind it.

    Attributes:
        verdict: The decision.
        reasons: Its reasons.
        benchmarks: The entry of each benchmark.
        missing: Benchmarks that the policy requires and a side does not have.
        warnings: Warnings, each with the name of its benchmark where it is about one.
        baseline: The baseline's path.
        candidate: The candidate's path.
        confidence: Confidence level of the intervals.
        correction: The correction for several benchmarks.
        sequential: Whether the intervals allow for repeated looks.
    """

    verdict: GateVerdict
    reasons: list[str]
    benchmarks: list[BenchmarkGate]
    missing: list[str]
    warnings: list[str]
    baseline: str
    candidate: str
    confidence: float
    correction: str
    sequential: bool

    def to_dict(self) -> GateDocument:
        """The JSON of the report."""
        return {
            "report_version": REPORT_VERSION,
            "verdict_reasons": self.reasons,
            "verdict": str(self.verdict),
            "benchmarks": [entry.to_dict() for entry in self.benchmarks],
            "missing": self.missing,
            "warnings": self.warnings,
            "baseline": self.baseline,
            "candidate": self.candidate,
            "confidence": self.confidence,
            "correction": self.correction,
            "sequential": self.sequential,
        }
