"""What a report says: bundles, with what only their rows can tell, drawn by every renderer."""

from dataclasses import dataclass, field

from nemo_evaluator.decisions.stop_words import rule_words
from nemo_evaluator.runs.bundle import Bundle
from nemo_evaluator.runs.unfinished import Unfinished


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
    # Calls of tools with what came back, and what judges said, by their names.
    calls: tuple[str, ...] = ()
    judges: tuple[tuple[str, str], ...] = ()


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


@dataclass(frozen=True)
class BenchmarkReport(Bundle):
    """One benchmark of one model; ``details`` where its rows were read."""

    details: RowDetails | None = None

    @property
    def stop_rule(self) -> str:
        """What its stop rule did, in words; empty without one."""
        return rule_words(self.stopped)


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
