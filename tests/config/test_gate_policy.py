"""Gate policies: defaults, inheritance, refusals."""

from __future__ import annotations

import pytest

from nemo_evaluator.config import GatePolicy, default_policy, load_gate_policy
from nemo_evaluator.core.errors import ConfigError

TEXT = """
version: 1
defaults: {max_drop: 0.02, tier: critical, max_relative_drop: 0.1, min_coverage: 0.9}
benchmarks:
  gsm8k: {max_drop: 0.05}
  mmlu: {tier: advisory, metric: anything}
  ppl: {direction: lower_is_better, metric: mean_reward, max_truncated: 0.1, min_paired: 50}
correction: bh
sequential: true
"""


def test_a_policy_is_read_and_resolved(write) -> None:
    policy = load_gate_policy(write(policy=TEXT))
    assert policy.required() == ["gsm8k", "ppl"]
    gsm8k = policy.resolve("gsm8k")
    assert (gsm8k.max_drop, gsm8k.tier, gsm8k.max_relative_drop, gsm8k.min_coverage) == (
        0.05,
        "critical",
        0.1,
        0.9,
    )
    assert policy.resolve("ppl").direction == "lower_is_better"
    assert policy.resolve("ppl").min_paired == 50
    assert policy.resolve("not listed") == policy.defaults
    assert (policy.correction, policy.sequential) == ("bh", True)


def test_the_default_policy() -> None:
    policy = default_policy()
    assert policy == GatePolicy()
    assert (policy.defaults.tier, policy.defaults.max_drop, policy.correction) == (
        "supporting",
        0.015,
        "holm",
    )
    assert policy.required() == []


@pytest.mark.parametrize(
    ("old", "new", "path", "hint"),
    [
        ("version: 1", "version: 2", "version", "choices"),
        ("max_drop: 0.02", "max_drop: -1", "defaults.max_drop", "at least 0"),
        ("max_drop: 0.05", "max_dorp: 0.05", "benchmarks.gsm8k.max_dorp", "'max_drop'"),
        ("tier: critical", "tier: critcal", "defaults.tier", "'critical'"),
        ("correction: bh", "correction: bonferroni", "correction", "holm"),
        ("metric: mean_reward", "metric: exact_match", "benchmarks.ppl.metric", "pass@1"),
        ("sequential: true", "seqential: true", "seqential", "'sequential'"),
        (TEXT, "- a\n", "(whole file)", ""),
    ],
)
def test_wrong_policies(write, old: str, new: str, path: str, hint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_gate_policy(write(policy=TEXT.replace(old, new)))
    assert caught.value.problems[0].path == path
    assert hint in (caught.value.problems[0].hint or "")
    assert caught.value.problems[0].line is not None
