"""The policy of ``nel gate``: how much each benchmark may drop before a release is stopped."""

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, ValidationError

from nemo_evaluator.config._document import Document, prune_nulls
from nemo_evaluator.config._explain import explain
from nemo_evaluator.config._yaml import read_document
from nemo_evaluator.config.fields import Confidence, Int, Model, NonNegative, Positive, Share
from nemo_evaluator.core.errors import ConfigError

Tier = Literal["critical", "supporting", "advisory"]
Direction = Literal["higher_is_better", "lower_is_better"]
Correction = Literal["holm", "bh", "none"]
GATED_METRICS = ("mean_reward", "pass@1")


class PolicyDefaults(Model):
    """The thresholds of every benchmark, and those in which one differs; a null takes the default."""

    tier: Tier = Field(
        "supporting", description="`critical` and `supporting` decide; `advisory` only informs."
    )
    max_drop: NonNegative = Field(0.015, description="Largest acceptable drop, in score units.")
    max_relative_drop: NonNegative | None = Field(
        None, description="Largest acceptable drop as a share of it."
    )
    relative_guard_below: Share | None = Field(
        None, description="Apply the relative limit only below this baseline."
    )
    metric: str | None = Field(None, description="Metric to compare; null: the headline.")
    direction: Direction = Field("higher_is_better", description="Which way is better.")
    min_coverage: Share = Field(0.95, description="Least share of scored steps, on both sides.")
    max_truncated: Share | None = Field(
        None, description="Largest share of truncated answers of the candidate."
    )
    max_unanswered: Share = Field(
        0.05,
        description="Largest share of empty or content-filtered answers, on either side; 1 allows any.",
    )
    min_paired: Positive = Field(10, description="Fewest paired problems for a decision.")


class GatePolicy(Model):
    """A whole policy."""

    version: Literal[1] = Field(1, description="Version of the format.")
    defaults: PolicyDefaults = Field(
        default_factory=PolicyDefaults, description="Thresholds of all benchmarks."
    )
    benchmarks: dict[str, Annotated[PolicyDefaults, BeforeValidator(prune_nulls)]] = Field(
        default_factory=dict, description="Thresholds by benchmark."
    )
    correction: Correction = Field("holm", description="Correction for testing several benchmarks.")
    confidence: Confidence = Field(0.95, description="Confidence of intervals.")
    sequential: bool = Field(
        False, description="Use intervals that stay valid when looked at again and again."
    )
    seed: Int = Field(42, description="Seed of resampling.")

    def resolve(self, benchmark: str) -> PolicyDefaults:
        """The thresholds of a benchmark, defaults filled in."""
        thresholds = self.benchmarks.get(benchmark)
        return self.defaults.model_copy(
            update=thresholds.model_dump(exclude_unset=True) if thresholds else {}
        )

    def required(self) -> list[str]:
        """The listed benchmarks that decide."""
        return [name for name in self.benchmarks if self.resolve(name).tier != "advisory"]


def default_policy() -> GatePolicy:
    """Return the policy that is used if none is given."""
    return GatePolicy()


def load_gate_policy(path: str | Path) -> GatePolicy:
    """Read a policy from a YAML file.

    Raises:
        ConfigError: With every problem found.
    """
    source = Path(path)
    document = read_document(source)
    if not isinstance(document.value, dict):
        hint = "write version: 1, and what may be lost under defaults: and benchmarks:"
        raise document.error((), "a policy is a mapping", hint, source=source)
    policy = parse_gate_policy(document.value, document)
    problems = [
        document.problem(
            ("benchmarks", name, "metric"),
            f"{metric!r} cannot be gated",
            f"use {' or '.join(GATED_METRICS)}, or make the tier advisory",
        )
        for name in policy.required()
        if (metric := policy.resolve(name).metric) is not None and metric not in GATED_METRICS
    ]
    if problems:
        raise ConfigError(problems, source=str(source))
    return policy


def parse_gate_policy(data: Any, document: Document | None = None) -> GatePolicy:
    """Validate a policy given as plain data.

    Args:
        data: The policy.
        document: The same with line numbers, for messages.

    Raises:
        ConfigError: With every problem found.
    """
    document = document or Document(data)
    try:
        return GatePolicy.model_validate(data)
    except ValidationError as error:
        source = document.mark(())
        raise ConfigError(
            explain(error, document, GatePolicy), source=source.source if source else None
        ) from None
