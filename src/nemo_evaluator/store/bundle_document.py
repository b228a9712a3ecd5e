"""The bundle (``eval-*.json``) as types, as this version writes it.

The types cost nothing at run time: import them under ``TYPE_CHECKING``. A bundle that was read from a file can come
from any version or tool; ``runs.bundle.Bundle`` reads those.
"""

from typing import NotRequired, TypedDict

from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.store.journal_record import JudgeCheck
from nemo_evaluator.store.result_row import ResultRow


class ScoreEntry(TypedDict):
    """A score with its interval.

    ``correct`` and ``total`` are those of an additional scorer; the bootstrap bounds are those of ``pass@1``.
    """

    value: float | None
    ci_lower: float | None
    ci_upper: float | None
    ci_method: str
    n: int
    bootstrap_ci_lower: NotRequired[float | None]
    bootstrap_ci_upper: NotRequired[float | None]
    correct: NotRequired[int]
    total: NotRequired[int]


class ValueEntry(TypedDict):
    """A score that a benchmark or a metric computes over all rows.

    ``headline`` is true if it represents the benchmark in place of the mean reward.
    """

    value: float
    headline: NotRequired[bool]


class GroupEntry(TypedDict):
    """The mean reward of a group of rows; ``n`` counts rows."""

    mean_reward: float | None
    ci_lower: float | None
    ci_upper: float | None
    ci_method: str
    n: int


class BreakdownEntry(GroupEntry):
    """The mean reward of the rows with one value of a field."""

    group: str


class SummaryEntry(TypedDict):
    """The distribution of the rewards of all scored rows; ``n`` counts them."""

    mean: float | None
    std: float | None
    min: float | None
    max: float | None
    median: float | None
    n: int


class Percentiles(TypedDict):
    """Percentiles of a time in milliseconds."""

    p50: float
    p90: float
    p99: float


class RuntimeEntry(TypedDict):
    """Tokens, times and retries of a run; also ``runtime_stats.json``."""

    total_steps: int
    total_tokens: int
    total_prompt_tokens: int
    total_completion_tokens: int
    total_reasoning_tokens: int
    elapsed_seconds: float
    latency_percentiles_ms: Percentiles
    queue_percentiles_ms: Percentiles
    tokens_per_second: float
    steps_per_second: float
    model_errors: int
    total_retries: int
    finish_reason_counts: dict[str, int]
    cost: NotRequired[float]


class Exemplar(TypedDict):
    """A row as an example of a failure."""

    problem_idx: int
    repeat: int
    error: str


class FailureCategory(TypedDict):
    """How often rows failed in one way, or scored rows had one flaw."""

    count: int
    percentage: float
    exemplars: list[Exemplar]


class FailureAnalysis(TypedDict):
    """The failures by category, the most frequent first; also ``failure_analysis.json``."""

    total_steps: int
    total_failures: int
    failure_rate: float
    categories: dict[str, FailureCategory]


class CoverageEntry(TypedDict):
    """How much of the plan was measured."""

    planned: int
    scored: int
    failed: int
    share: float


class BoundsEntry(TypedDict):
    """The headline if every missing row counted as 0, or as 1."""

    lower: float
    upper: float
    missing: int


class TamperEntry(TypedDict):
    """The rows that tampered with their own judging, and the score that counts them as 0."""

    rows: int
    judged: int
    score: float


class ValidityEntry(TypedDict):
    """The status of the run, and the reasons for it."""

    status: str
    reasons: list[str]


class RuleSettings(TypedDict):
    """The settings of a stop rule."""

    interval_width: float | None
    min_problems: int
    decided_against: NotRequired[str]
    max_drop: NotRequired[float]


class RuleInterval(TypedDict):
    """An interval that a stop rule has seen."""

    value: float | None
    ci_lower: float | None
    ci_upper: float | None
    ci_method: str


class RuleDifference(RuleInterval):
    """The difference to the baseline of a stop rule."""

    paired: int


class RuleSummary(TypedDict):
    """What a stop rule saw and decided."""

    rule: RuleSettings
    confidence: float
    spent_on_looking: float
    stopped: bool
    reason: str | None
    problems: int
    failed_answers: int
    score: NotRequired[RuleInterval]
    difference: NotRequired[RuleDifference]
    decision: NotRequired[str | None]
    note: NotRequired[str]
    last_look: NotRequired[bool]


class UnusedAnswers(TypedDict):
    """Answers beyond the problem at which a stop rule ended the run."""

    answers: int
    tokens: int
    cost_usd: float


class RuleEntry(TypedDict, total=False):
    """A ``RuleSummary``, and what the run adds; only ``note`` if an earlier session had the rule."""

    rule: RuleSettings
    confidence: float
    spent_on_looking: float
    stopped: bool
    reason: str | None
    problems: int
    failed_answers: int
    score: RuleInterval
    difference: RuleDifference
    decision: str | None
    note: str
    last_look: bool
    moved_from: list[int]
    planned: int
    saved_share: float
    unused: UnusedAnswers


class StoppedEntry(TypedDict, total=False):
    """Why and how a run ended early, what its stop rule did, and the same of each shard of a merged run."""

    kind: str
    reason: str | None
    cause: str
    rule: RuleEntry
    shards: dict[str, JsonDict]


class ShuffleEntry(TypedDict):
    """How problems were selected and ordered."""

    seed: int | None
    applied: bool
    ds_full_size: int
    ds_effective_size: int
    selection: NotRequired[str]


class ShardEntry(TypedDict):
    """The part of a plan that a shard ran."""

    idx: int
    total: int
    range: list[int]


class PlanEntry(TypedDict):
    """The plan, in the config of a bundle."""

    shuffle_seed: int | None
    shuffle: ShuffleEntry
    only: NotRequired[list[int]]
    shard: NotRequired[ShardEntry]
    shard_range: NotRequired[list[int]]


class ClustersEntry(TypedDict):
    """How many scored problems belong to how many clusters, and the size of the largest one."""

    problems: int
    clusters: int
    largest: int


class BenchmarkEntry(TypedDict):
    """The part of a bundle with the scores.

    ``scores`` has a ``ScoreEntry`` by metric, what a benchmark computes over all rows, and ``summary``,
    ``breakdowns``, ``runtime`` and ``failures``.
    """

    name: str
    samples: int
    repeats: int
    coverage: CoverageEntry
    truncated_share: float
    unparsed_share: float
    notes: list[str]
    bounds: BoundsEntry | None
    scores: JsonDict
    categories: dict[str, GroupEntry]
    clusters: NotRequired[ClustersEntry]
    tamper: NotRequired[TamperEntry]
    canaries: NotRequired[dict[str, JudgeCheck]]
    fallback: NotRequired[dict[str, int]]
    scored_by: NotRequired[dict[str, int]]
    calibration: NotRequired[JsonDict]


class BundleDocument(TypedDict):
    """The summary of one finished benchmark; ``config`` has the settings of the run and of its user."""

    run_id: str
    config_hash: str
    sdk_version: str
    timestamp: str
    validity: ValidityEntry
    config: JsonDict
    benchmark: BenchmarkEntry
    n_results: int
    stopped: NotRequired[StoppedEntry]
    scores_not_merged: NotRequired[list[str]]
    checksums: NotRequired[str]


class EvaluatedBundle(BundleDocument):
    """A bundle as ``run_evaluation`` returns it, with its rows and the folder of its files."""

    _results: list[ResultRow]
    _artifacts: str
