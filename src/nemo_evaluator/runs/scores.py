"""The typed parts of a bundle that reports show. Values that an older bundle lacks are None."""

import re
from typing import Any, Final

from nemo_evaluator.core.json_coerce import as_dict, as_list, as_number, as_whole
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.core.values import dataclass, field

# Entries of ``scores`` that are not scores.
NOT_SCORES: Final = frozenset({"summary", "breakdowns", "runtime", "failures"})
_TIMING: Final = re.compile(r"gen_seconds|latency|duration|tokens|time_ms|_time$|_ms$|_time_")


@dataclass(frozen=True, slots=True)
class Score:
    """One metric with its confidence interval.

    ``leads`` is true if the benchmark names it as one of its headlines.
    """

    name: str
    value: float
    ci_lower: float | None = None
    ci_upper: float | None = None
    ci_method: str | None = None
    n: int | None = None
    correct: float | None = None
    total: int | None = None
    leads: bool = False

    @property
    def has_interval(self) -> bool:
        """Whether both bounds are known; a bound of 0 counts as known."""
        return self.ci_lower is not None and self.ci_upper is not None


@dataclass(frozen=True, slots=True)
class GroupScore:
    """The mean reward of a group of rows: a category, or one value of a breakdown field."""

    name: str
    n: int
    mean_reward: float
    ci_lower: float | None = None
    ci_upper: float | None = None


@dataclass(frozen=True, slots=True)
class FailureLine:
    """How often one cause made samples fail, or how often scored answers had one flaw."""

    cause: str
    count: int
    share: float
    examples: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Coverage:
    """How much of the plan was measured; None for values that an older bundle lacks."""

    planned: int | None = None
    scored: int | None = None
    failed: int | None = None
    share: float | None = None


@dataclass(frozen=True, slots=True)
class Runtime:
    """Tokens, times and cost of a run; None for unknown values."""

    total_tokens: int | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    elapsed_seconds: float | None = None
    p50_ms: float | None = None
    queue_p50_ms: float | None = None
    p90_ms: float | None = None
    p99_ms: float | None = None
    tokens_per_second: float | None = None
    steps_per_second: float | None = None
    cost_usd: float | None = None
    total_steps: int | None = None
    finish_reasons: dict[str, int] = field(default_factory=dict)


def read_score(name: str, raw: Any, samples: int) -> Score | None:
    """Read an entry of ``scores``.

    Args:
        name: The name of the entry.
        raw: The entry: a number, or an object with a value.
        samples: The number of rows, for entries that lack it.

    Returns:
        The score, or None if the entry is not a score.
    """
    value = as_number(raw.get("value") if isinstance(raw, dict) else raw)
    if value is None or name in NOT_SCORES:
        return None
    if not isinstance(raw, dict):
        return Score(name, value)
    lower = as_number(raw.get("ci_lower"))
    upper = as_number(raw.get("ci_upper"))
    method = raw.get("ci_method")
    bootstrap_lower = as_number(raw.get("bootstrap_ci_lower"))
    if method is None and bootstrap_lower is not None:
        # Older bundles lack ci_method: their ci_lower covers only repeat noise, while the bootstrap covers problems.
        lower = bootstrap_lower
        upper = as_number(raw.get("bootstrap_ci_upper"))
        method = "bootstrap"
    total = as_whole(raw.get("total"))
    return Score(
        name=name,
        value=value,
        ci_lower=lower,
        ci_upper=upper,
        ci_method=str(method) if method else None,
        n=as_whole(raw.get("n")) or total or samples or None,
        correct=as_number(raw.get("correct")),
        total=total,
        leads=raw.get("headline") is True,
    )


def leading_scores(scores: tuple[Score, ...]) -> tuple[Score, ...]:
    """Return the scores that a benchmark names as its headlines, in place of a mean; empty for most benchmarks."""
    return tuple(score for score in scores if score.leads)


def pick_headline(scores: tuple[Score, ...]) -> Score | None:
    """Return the score that represents the benchmark, or None if there are no scores.

    A score that its benchmark names as one of its headlines comes first, then ``mean_reward`` and ``pass@1``,
    then any score that is not a timing, then those of extra scorers.
    """
    leading = leading_scores(scores)
    if leading:
        return leading[0]
    scores_by_name = {score.name: score for score in scores}
    for name in ("mean_reward", "pass@1"):
        if name in scores_by_name:
            return scores_by_name[name]
    extra_scores: list[Score] = []
    for score in scores:
        if score.name.startswith("scorer:"):
            extra_scores.append(score)
        elif not _is_timing(score.name):
            return score
    return extra_scores[0] if extra_scores else None


def _is_timing(name: str) -> bool:
    """Return whether the last part of a score's name is that of a time or of a number of tokens."""
    last_part = re.split(r"[/.]", name)[-1]
    return _TIMING.search(last_part) is not None


def read_coverage(raw: Any) -> Coverage:
    """Read ``coverage`` of a bundle."""
    fields = as_dict(raw)
    planned = as_whole(fields.get("planned"))
    scored = as_whole(fields.get("scored"))
    failed = as_whole(fields.get("failed"))
    share = as_number(fields.get("share"))
    if share is None and planned and scored is not None:
        share = scored / planned
    return Coverage(planned, scored, failed, share=share)


def read_group(name: str, raw: Any) -> GroupScore:
    """Read one entry of ``categories`` or of a breakdown."""
    fields = as_dict(raw)
    return GroupScore(
        name=str(name),
        n=as_whole(fields.get("n")) or 0,
        mean_reward=as_number(fields.get("mean_reward")) or 0.0,
        ci_lower=as_number(fields.get("ci_lower")),
        ci_upper=as_number(fields.get("ci_upper")),
    )


def read_failures(raw: JsonDict) -> tuple[FailureLine, ...]:
    """Read the failure analysis of a bundle, most frequent cause first."""
    lines: list[FailureLine] = []
    for cause, entry in as_dict(raw.get("categories")).items():
        fields = as_dict(entry)
        examples: list[str] = []
        for exemplar in as_list(fields.get("exemplars")):
            message = as_dict(exemplar).get("error")
            if message:
                examples.append(str(message))
        lines.append(
            FailureLine(
                cause=str(cause),
                count=as_whole(fields.get("count")) or 0,
                share=as_number(fields.get("percentage")) or 0.0,
                examples=tuple(examples),
            )
        )
    return tuple(sorted(lines, key=lambda line: (-line.count, line.cause)))


def read_runtime(raw: JsonDict) -> Runtime:
    """Read ``runtime`` of a bundle."""
    percentiles = as_dict(raw.get("latency_percentiles_ms"))
    finish_reasons: dict[str, int] = {}
    for reason, number in as_dict(raw.get("finish_reason_counts")).items():
        finish_reasons[str(reason)] = as_whole(number) or 0
    return Runtime(
        total_tokens=as_whole(raw.get("total_tokens")),
        prompt_tokens=as_whole(raw.get("total_prompt_tokens")),
        completion_tokens=as_whole(raw.get("total_completion_tokens")),
        elapsed_seconds=as_number(raw.get("elapsed_seconds")),
        p50_ms=as_number(percentiles.get("p50")),
        queue_p50_ms=as_number(as_dict(raw.get("queue_percentiles_ms")).get("p50")),
        p90_ms=as_number(percentiles.get("p90")),
        p99_ms=as_number(percentiles.get("p99")),
        tokens_per_second=as_number(raw.get("tokens_per_second")),
        steps_per_second=as_number(raw.get("steps_per_second")),
        cost_usd=_cost(raw),
        total_steps=as_whole(raw.get("total_steps")),
        finish_reasons=finish_reasons,
    )


def _cost(raw: JsonDict) -> float | None:
    """Return the cost, which bundles have stored in three forms."""
    if "cost_usd" in raw:
        return as_number(raw["cost_usd"])
    cost = raw.get("cost")
    if isinstance(cost, dict):
        cost = cost.get("total_usd")
    return as_number(cost)
