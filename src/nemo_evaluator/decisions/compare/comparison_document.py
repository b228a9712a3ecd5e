"""The report of a comparison as JSON, as types: what ``nel compare --output`` writes and the viewer reads.

The types cost nothing at run time: import them under ``TYPE_CHECKING``.
"""

from typing import Any, NotRequired, TypeAlias, TypedDict

from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.decisions.missing_range import MissingRange
from nemo_evaluator.store.bundle_document import ScoreEntry


class RunEntry(TypedDict):
    """One side of a comparison."""

    run_id: str
    config: JsonDict
    path: str
    score: ScoreEntry
    problems: int
    rows: int
    failed_rows: int
    invalid: list[str]
    corrected: NotRequired[ScoreEntry]


class PairingEntry(TypedDict):
    """How many problems paired, and how many did not."""

    by: str
    paired: int
    only_baseline: int
    only_candidate: int
    unscored_baseline: int
    unscored_candidate: int
    share: float
    clusters: NotRequired[int]


class DeltaEntry(TypedDict):
    """A quantity of both bundles; ``ci_overlap`` is None without all four bounds."""

    baseline: float
    candidate: float
    delta: float
    relative_pct: NotRequired[float]
    ci_overlap: NotRequired[bool | None]


class CategoryDelta(TypedDict):
    """The difference within one category."""

    baseline: float
    candidate: float
    delta: float
    ci_lower: float | None
    ci_upper: float | None
    n: int


class ShiftEntry(TypedDict):
    """A quantity other than the score on both sides."""

    name: str
    baseline: float | None
    candidate: float | None
    unit: str
    delta: float | None
    relative_pct: float | None


class SettingEntry(TypedDict):
    """A setting that differs between the runs."""

    kind: str
    what: str
    baseline: Any
    candidate: Any


class SignificanceEntry(TypedDict):
    """The significance test, in which a loss is positive."""

    p_value: float
    significant: bool
    method: str
    n_discordant: int
    effect_size: float | None
    ci_lower: float | None
    ci_upper: float | None
    hypothesis: str
    alternative: str
    n_positive: NotRequired[int]
    n_negative: NotRequired[int]
    n_ties: NotRequired[int]
    observed_mean_diff: NotRequired[float | None]
    n_permutations: NotRequired[int]


class FlipEntry(TypedDict):
    """A problem that is right in one run and wrong in the other."""

    problem_idx: int
    repeat: int
    expected_answer: str
    baseline_reward: float
    candidate_reward: float
    category: str | None
    baseline_response: str
    candidate_response: str
    baseline_answer: str | None
    candidate_answer: str | None
    prompt: str
    scoring_details: JsonDict
    candidate_scoring_details: JsonDict
    candidate_problem_idx: int
    candidate_repeat: int


class FlipCounts(TypedDict):
    """How many problems flipped, in all and by category."""

    n_paired: int
    n_regressions: int
    n_improvements: int
    n_stable_correct: int
    n_stable_wrong: int
    regression_rate: float
    improvement_rate: float
    category_breakdown: dict[str, dict[str, int]] | None
    n_omitted: int


class FlipDocument(TypedDict):
    """The problems that flipped."""

    contingency: dict[str, int]
    regressions: list[FlipEntry]
    improvements: list[FlipEntry]
    summary: FlipCounts


class ComparisonDocument(TypedDict):
    """One candidate against one baseline on one benchmark; one of the three tests is present."""

    report_version: int
    benchmark: str
    baseline: RunEntry
    candidate: RunEntry
    verdict: str
    relation: str
    verdict_reasons: list[str]
    threshold: float
    direction: str
    confidence: float
    difference: ScoreEntry
    raw_difference: NotRequired[ScoreEntry]
    pairing: PairingEntry
    detectable_drop: float | None
    problems_needed: int | None
    problems_available: int | None
    score_deltas: dict[str, DeltaEntry]
    runtime_deltas: dict[str, DeltaEntry]
    shifts: list[ShiftEntry]
    config_differences: list[SettingEntry]
    missing_data: MissingRange
    test_used: str
    test_reason: str
    mcnemar: NotRequired[SignificanceEntry]
    sign_test: NotRequired[SignificanceEntry]
    permutation_test: NotRequired[SignificanceEntry]
    warnings: NotRequired[list[str]]
    category_deltas: NotRequired[dict[str, CategoryDelta]]
    flip_report: NotRequired[FlipDocument]


#: The comparisons of one candidate: the report itself, or a report by benchmark.
CandidateDocument: TypeAlias = ComparisonDocument | dict[str, ComparisonDocument]
