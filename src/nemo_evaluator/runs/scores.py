"""The parts of a bundle that reports show, each with its type. What an older bundle lacks is None, never made up."""

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
    """One metric with its interval."""

    name: str
    value: float
    ci_lower: float | None = None
    ci_upper: float | None = None
    ci_method: str | None = None
    n: int | None = None
    correct: float | None = None
    total: int | None = None

    @property
    def has_interval(self) -> bool:
        """True when both bounds are known; a bound of 0 is a bound."""
        return self.ci_lower is not None and self.ci_upper is not None


@dataclass(frozen=True, slots=True)
class GroupScore:
    """The mean reward of a part of the rows: a category, or one value of a breakdown field."""

    name: str
    n: int
    mean_reward: float
    ci_lower: float | None = None
    ci_upper: float | None = None


@dataclass(frozen=True, slots=True)
class FailureLine:
    """How often one cause broke a step, or one flaw was seen in an answer that was scored all the same."""

    cause: str
    count: int
    share: float
    examples: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Coverage:
    """How much of the plan was measured. None where an older bundle does not say."""

    planned: int | None = None
    scored: int | None = None
    failed: int | None = None
    share: float | None = None


@dataclass(frozen=True, slots=True)
class Runtime:
    """What the run took. None where it is not known."""

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
    """An entry of ``scores``; None when it is not a score."""
    value = as_number(raw.get("value") if isinstance(raw, dict) else raw)
    if value is None or name in NOT_SCORES:
        return None
    if not isinstance(raw, dict):
        return Score(name, value)
    lower = as_number(raw.get("ci_lower"))
    upper = as_number(raw.get("ci_upper"))
    method = raw.get("ci_method")
    if method is None and (low := as_number(raw.get("bootstrap_ci_lower"))) is not None:
        # Bundles from before ci_method: ci_lower covered only the noise of repeats; the bootstrap covers problems.
        lower = low
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
    )


def pick_headline(scores: tuple[Score, ...]) -> Score | None:
    """The score that stands for the benchmark."""
    named = {score.name: score for score in scores}
    usual = next((named[name] for name in ("mean_reward", "pass@1") if name in named), None)
    other = (
        score
        for score in scores
        if not score.name.startswith("scorer:")
        and not _TIMING.search(re.split(r"[/.]", score.name)[-1])
    )
    return (
        usual
        or next(other, None)
        or next((score for score in scores if score.name.startswith("scorer:")), None)
    )


def read_coverage(raw: Any) -> Coverage:
    """``coverage`` of a bundle."""
    fields = as_dict(raw)
    planned, scored, failed = (as_whole(fields.get(key)) for key in ("planned", "scored", "failed"))
    share = as_number(fields.get("share"))
    if share is None and planned and scored is not None:
        share = scored / planned
    return Coverage(planned, scored, failed, share=share)


def read_group(name: str, raw: Any) -> GroupScore:
    """One entry of ``categories`` or of a breakdown."""
    fields = as_dict(raw)
    return GroupScore(
        name=str(name),
        n=as_whole(fields.get("n")) or 0,
        mean_reward=as_number(fields.get("mean_reward")) or 0.0,
        ci_lower=as_number(fields.get("ci_lower")),
        ci_upper=as_number(fields.get("ci_upper")),
    )


def read_failures(raw: JsonDict) -> tuple[FailureLine, ...]:
    """The failure analysis of a bundle, most frequent first."""
    lines = []
    for cause, entry in as_dict(raw.get("categories")).items():
        fields = as_dict(entry)
        texts: list[str] = []
        for example in as_list(fields.get("exemplars")):
            texts.append(str(as_dict(example).get("error") or ""))
        share = as_number(fields.get("percentage")) or 0.0
        lines.append(
            FailureLine(
                str(cause),
                as_whole(fields.get("count")) or 0,
                share,
                examples=tuple(filter(None, texts)),
            )
        )
    return tuple(sorted(lines, key=lambda line: (-line.count, line.cause)))


def read_runtime(raw: JsonDict) -> Runtime:
    """``runtime`` of a bundle."""
    percentiles = as_dict(raw.get("latency_percentiles_ms"))
    cost = raw.get("cost")
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
        cost_usd=as_number(
            raw.get("cost_usd", as_dict(cost).get("total_usd") if isinstance(cost, dict) else cost)
        ),
        total_steps=as_whole(raw.get("total_steps")),
        finish_reasons={
            str(k): as_whole(v) or 0 for k, v in as_dict(raw.get("finish_reason_counts")).items()
        },
    )
