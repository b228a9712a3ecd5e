"""``trajectories_report.json`` as types.

The types cost nothing at run time: import them under ``TYPE_CHECKING``.
"""

from typing import NotRequired, TypedDict

from nemo_evaluator.core.types import JsonDict


class MissingField(TypedDict):
    """A field that some mappings lack, and how often it is empty."""

    field: str
    presence: str
    empty: NotRequired[int]


class ExampleGroup(TypedDict):
    """Rows as examples of one kind, and how many more there are."""

    examples: list[JsonDict]
    omitted_examples: int


class QualityEntry(TypedDict):
    """How many problems have turns without token counts, or with counts of zero."""

    clean_problems: int
    dirty_problems: int
    fully_zero_problems: int
    problems_with_zero_token_turns: int
    problems_with_missed_metrics: int
    total_zero_token_turns: int
    total_missed_metrics: int


class EnrichmentEntry(TypedDict):
    """What recorded traffic added to the trajectories."""

    trials_spliced_1_to_1: int
    trials_with_unmatched_calls_stashed: int
    trials_with_no_wire_data: int
    steps_backfilled: dict[str, int]
    rows_reclassified_from_wire_failure: int
    quality: QualityEntry
    per_step_sum_after_enrichment: int
    step_field_coverage_after_enrichment_missing: list[MissingField]


class FieldCoverage(TypedDict):
    """The fields that rows and their turns lack."""

    per_trial_missing: list[MissingField]
    per_agent_step_missing: list[MissingField]


class TrajectoriesEntry(TypedDict):
    """The counts of rows, rewards, failures and missing fields."""

    problems: int
    repeats: int | dict[str, int]
    mean_reward: float | None
    reported_mean: float | None
    failures_by_category: dict[str, int]
    problems_with_empty_final_response: int
    failure_examples: list[JsonDict]
    timeout_examples: list[JsonDict]
    no_agent_step_examples: list[JsonDict]
    quality: QualityEntry
    field_coverage: FieldCoverage


class TokensEntry(TypedDict):
    """The tokens by turns, by trajectories and by recorded calls, and whether they agree."""

    per_step_sum: int
    final_metrics_total: int
    wire_total: int
    wire_total_for_trajectory_comparison: int
    wire_total_all_sessions: int
    wire_total_earlier_retry_sessions: int
    problems_with_missing_final_metrics_tokens: int
    problems_with_per_step_vs_final_metrics_mismatch: int
    problems_with_wire_vs_final_metrics_mismatch: int
    all_sources_match: bool | None


class TrajectoryEntry(TypedDict):
    """One benchmark; the names in ``wire_calls`` come from ``fields.json``."""

    bench: str
    trajectories: TrajectoriesEntry
    tokens_stats: TokensEntry
    wire_calls: JsonDict
    enrichment: NotRequired[EnrichmentEntry]
