"""Settings of a solver that a benchmark with a solver of its own would ignore are refused."""

from __future__ import annotations

from typing import Any

import pytest
from nel_support import Nel, api

BENCH = """
from nemo_evaluator.environments import EvalEnvironment, register
from nemo_evaluator.environments.base import EnvironmentFacts
from nemo_evaluator import SeedResult


@register("own_solver")
class OwnSolver(EvalEnvironment):
    dataset = [1]

    @classmethod
    def facts(cls):
        return EnvironmentFacts(batch=True)

    async def seed(self, idx): return SeedResult(prompt="one", expected_answer="1")
    async def verify(self, response, expected, sandbox=None, **metadata): raise NotImplementedError
"""


@pytest.mark.parametrize(
    "more", [{"generation": {"temperature": 1.0}}, {"system_prompt": "Be brief."}]
)
def test_what_would_have_no_effect_is_refused(more: dict[str, Any], nel: Nel) -> None:
    (nel.folder / "own.py").write_text(BENCH)
    bench = {"name": "own.py:own_solver", "solver": {"type": "simple", "service": "model", **more}}
    config = nel.config(
        "c.json", services={"model": api("http://127.0.0.1:9/v1")}, benchmarks=[bench]
    )
    said = nel("eval", "run", config, code=None)
    assert said.returncode in (1, 2)
    assert f"solver.{next(iter(more))} has no effect" in " ".join(
        (said.stdout + said.stderr).split()
    )
