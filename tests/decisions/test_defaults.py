"""Command, config and Python API take the same problems; where only one side set something, the gate does not pass."""

from pathlib import Path
from typing import Any

import pytest

from nemo_evaluator.config.benchmarks import BenchmarkConfig
from nemo_evaluator.config.gate_policy import GatePolicy
from nemo_evaluator.core.types import ModelResponse, SeedResult, SolveResult, VerifyResult
from nemo_evaluator.decisions import gate_runs
from nemo_evaluator.engine import run_evaluation
from nemo_evaluator.engine.plan import DEFAULT_SHUFFLE_SEED, make_plan
from nemo_evaluator.environments.base import EvalEnvironment

POLICY = GatePolicy.model_validate({"defaults": {"max_drop": 0.2}})


class Hundred(EvalEnvironment):
    """A hundred problems."""

    name = "hundred"
    dataset = range(100)

    async def seed(self, idx: int) -> SeedResult:
        return SeedResult(f"problem {idx}", str(idx))

    async def verify(
        self, response: str, expected: str, sandbox: Any = None, **metadata: Any
    ) -> VerifyResult:
        return VerifyResult(1.0, response, {})


class Same:
    """Answers every problem alike."""

    async def solve(self, task: SeedResult) -> SolveResult:
        return SolveResult("x", ModelResponse("x"))


async def test_the_python_api_takes_the_problems_of_a_config(tmp_path: Path) -> None:
    config_seed = BenchmarkConfig.model_fields["shuffle_seed"].default
    assert config_seed == DEFAULT_SHUFFLE_SEED
    bundle = await run_evaluation(Hundred(), Same(), max_problems=20, step_log_dir=tmp_path)
    plan = make_plan(100, max_problems=20, shuffle_seed=config_seed)
    assert {row["problem_idx"] for row in bundle["_results"]} == set(plan.problems)
    assert bundle["config"]["shuffle_seed"] == config_seed


@pytest.mark.parametrize(
    ("baseline", "candidate", "decides"),
    [
        ({"generation": {"temperature": 0.0}}, {"generation": {}}, False),
        ({"generation": {}}, {"generation": {"max_tokens": 64}}, False),
        ({"shuffle_seed": None}, {"shuffle_seed": 42}, False),
        ({"generation": {"temperature": 0.0}}, {"generation": {"temperature": 0.6}}, True),
        ({"generation": {"temperature": 0.0}}, {"generation": {"temperature": 0.0}}, True),
    ],
)
def test_a_setting_that_one_side_left_to_a_default_keeps_the_gate_from_passing(
    write_run: Any, baseline: dict[str, Any], candidate: dict[str, Any], decides: bool
) -> None:
    rewards = [1.0] * 240 + [0.0] * 60
    folders = [
        write_run(name, rewards, config=config)
        for name, config in (("base", baseline), ("cand", candidate))
    ]
    report = gate_runs(*folders, POLICY)
    assert str(report.verdict) == ("GO" if decides else "INCONCLUSIVE")
    (entry,) = report.benchmarks
    is_named = any("one side left it to a default" in reason for reason in entry.reasons)
    assert is_named is not decides
