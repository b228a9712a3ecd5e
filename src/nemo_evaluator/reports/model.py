"""What a report says: one typed model, filled from bundles, drawn by every renderer."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.decisions.unfinished import Unfinished

VALID = "VALID"
INVALID = "INVALID"
UNCHECKED = "UNCHECKED"


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
class Group:
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
    finish_reasons: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Histogram:
    """Counts between edges; one more edge than counts."""

    edges: tuple[float, ...]
    counts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Example:
    """One row worth a look."""

    kind: str
    problem_idx: int
    repeat: int
    prompt: str
    response: str
    expected: str
    extracted: str | None
    note: str


@dataclass(frozen=True, slots=True)
class RowDetails:
    """What only the rows can tell: shapes of distributions, and a few rows to look at."""

    rows: int = 0
    latency_ms: Histogram | None = None
    completion_tokens: Histogram | None = None
    examples: tuple[Example, ...] = ()
    # Lines of results.jsonl that hold no row.
    unreadable: int = 0
    # Rows by what became of them, failed ones by their cause; together all rows.
    outcomes: dict[str, int] = field(default_factory=dict)
    causes: dict[str, int] = field(default_factory=dict)
    # Whether every reward is 0 or 1, so that rows are right or wrong.
    binary: bool = True


@dataclass(frozen=True, slots=True)
class BenchmarkReport:
    """One benchmark of one model."""

    name: str
    model: str
    run_id: str
    path: Path
    timestamp: str
    sdk_version: str
    config_hash: str
    samples: int
    repeats: int
    n_results: int
    status: str
    reasons: tuple[str, ...]
    coverage: Coverage
    truncated_share: float | None
    unparsed_share: float | None
    headline: Score | None
    scorers: tuple[Score, ...]
    others: tuple[Score, ...]
    categories: tuple[Group, ...]
    breakdowns: dict[str, tuple[Group, ...]]
    failures: tuple[FailureLine, ...]
    flaws: tuple[FailureLine, ...]
    runtime: Runtime
    config: JsonDict
    details: RowDetails | None = None
    # What its stop rule did, in words; empty without one.
    stop_rule: str = ""
    # What must be said wherever the score is shown.
    notes: tuple[str, ...] = ()

    @property
    def invalid(self) -> bool:
        """True when the score must not be used."""
        return self.status == INVALID


@dataclass(frozen=True, slots=True)
class EvalReport:
    """All benchmarks that were found, in the order of their names and models, and those that did not finish."""

    benchmarks: tuple[BenchmarkReport, ...]
    unfinished: tuple[Unfinished, ...] = ()

    @property
    def models(self) -> tuple[str, ...]:
        """The models, each once."""
        return tuple(dict.fromkeys(bench.model for bench in self.benchmarks))

    @property
    def title(self) -> str:
        """The heading: names the model when there is only one."""
        models = [model for model in self.models if model]
        return f"Evaluation Report: {models[0]}" if len(models) == 1 else "Evaluation Report"
