"""The report of a gate as JSON, as types.

The types cost nothing at run time: import them under ``TYPE_CHECKING``.
"""

from typing import TypedDict

from nemo_evaluator.decisions.compare.comparison_document import ComparisonDocument


class RemedyEntry(TypedDict):
    """What would settle an open benchmark."""

    problems_needed: int | None
    repeats_needed: int | None
    words: str


class GateEntry(TypedDict):
    """One benchmark under the policy; see ``BenchmarkGate``."""

    benchmark: str
    tier: str
    status: str
    metric: str | None
    direction: str
    max_drop_threshold: float
    max_relative_drop_threshold: float | None
    baseline_score: float | None
    candidate_score: float | None
    delta: float | None
    relative_drop_pct: float | None
    delta_ci_lower: float | None
    delta_ci_upper: float | None
    ci_method: str | None
    delta_worst_case: float | None
    delta_best_case: float | None
    in_points: bool
    n_paired: int
    p_pass: float | None
    p_breach: float | None
    p_breach_adjusted: float | None
    absolute_breached: bool
    relative_breached: bool
    reasons: list[str]
    remedy: RemedyEntry | None
    regression_report: ComparisonDocument | None


class GateDocument(TypedDict):
    """The decision of a gate and the evidence behind it."""

    report_version: int
    verdict_reasons: list[str]
    verdict: str
    benchmarks: list[GateEntry]
    missing: list[str]
    warnings: list[str]
    baseline: str
    candidate: str
    confidence: float
    correction: str
    sequential: bool
