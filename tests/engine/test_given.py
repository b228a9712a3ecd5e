"""What solvers and scorers hand over, whatever it is: a row, valid files, on the first run and on --resume."""

from __future__ import annotations

import asyncio
import sys
from typing import Any, cast

import orjson
import pytest

from nemo_evaluator.core.errors import SolverError, boundary
from nemo_evaluator.core.failures import Cause
from nemo_evaluator.core.types import ModelResponse, SolveResult, VerifyResult
from nemo_evaluator.engine.api import run_evaluation


class Halt(BaseException):
    """Neither an Exception nor an exit."""


CIRCLE: dict = {}
CIRCLE["self"] = CIRCLE
DEEP = orjson.loads(b"[" * 500 + b"]" * 500)
ODD = {
    "big": 2**80,
    "broken": "\ud800",
    "deep": DEEP,
    "circle": CIRCLE,
    (1, 2): {3},
    "nan": float("nan"),
    "f": print,
}
ODD |= {
    "scorer:x": {"reward": "much"},
    "scorer:y": {"reward": True},
    "category": ["\ud800"],
    "method": 2**70,
}


async def test_any_details_are_kept(sums, scripted, tmp_path):
    async def verify(response, expected, sandbox=None, **metadata):
        return VerifyResult(1, DEEP, dict(ODD), {"x": "\udfff", "y": 2**65})

    sums.verify = verify
    for resume in (False, True):
        bundle = await run_evaluation(sums, scripted, step_log_dir=tmp_path, resume=resume)
        assert bundle["benchmark"]["coverage"]["scored"] == 10
        for file in tmp_path.rglob("*.json*"):
            for line in (
                file.read_bytes().split(b"\n") if file.suffix == ".jsonl" else [file.read_bytes()]
            ):
                assert not line or orjson.loads(line) is not None
    row = bundle["_results"][0]
    assert (row["reward"], row["scoring_details"]["big"], row["scoring_details"]["broken"]) == (
        1,
        str(2**80),
        "\ufffd",
    )


@pytest.mark.parametrize(
    "reward", [None, "1", float("nan"), float("inf"), 10**400, [1], {"reward": 1}, 1j]
)
async def test_a_reward_that_is_no_number_fails_its_row(sums, scripted, tmp_path, reward):
    async def verify(response, expected, sandbox=None, **metadata):
        return VerifyResult(reward if expected == "4" else 1.0)

    sums.verify = verify
    bundle = await run_evaluation(sums, scripted, step_log_dir=tmp_path, min_coverage=0.5)
    failed = [row for row in bundle["_results"] if row["status"] == "failed"]
    assert [(row["problem_idx"], row["failure"]["cause"]) for row in failed] == [(2, "scorer")]
    assert "finite number" in failed[0]["failure"]["message"]


@pytest.mark.parametrize("given", [None, 1.0, {"reward": 1}, VerifyResult(1.0, None, [1])])
async def test_a_verdict_that_is_none_fails_its_row(sums, scripted, tmp_path, given):
    async def verify(response, expected, sandbox=None, **metadata):
        return given

    sums.verify = verify
    bundle = await run_evaluation(sums, scripted, step_log_dir=tmp_path)
    assert {row["failure"]["cause"] for row in bundle["_results"]} == {"scorer"}


@pytest.mark.parametrize(
    "leave", [sys.exit, lambda: sys.exit("bye"), lambda: (_ for _ in ()).throw(Halt("\ud800"))]
)
async def test_leaving_from_a_scorer_fails_its_row(sums, scripted, tmp_path, leave):
    sums.on_verify = lambda response: leave() if response == "4" else None
    for resume in (False, True):
        bundle = await run_evaluation(
            sums, scripted, step_log_dir=tmp_path, resume=resume, min_coverage=0.5
        )
        failed = [
            row["failure"]["cause"] for row in bundle["_results"] if row["status"] == "failed"
        ]
        assert failed == ["scorer"]


async def test_leaving_from_a_solver_fails_its_row(sums, scripted, tmp_path):
    honest = scripted.answer
    scripted.answer = lambda prompt: sys.exit(3) if " 2 " in prompt else honest(prompt)
    bundle = await run_evaluation(
        sums, scripted, step_log_dir=tmp_path, skip_failed=True, max_system_retries=1
    )
    assert [row["failure"]["cause"] for row in bundle["_results"] if row["status"] == "failed"] == [
        "solver"
    ]
    with pytest.raises(SolverError, match="SystemExit"):
        await run_evaluation(sums, scripted, step_log_dir=tmp_path / "b", max_system_retries=1)


@pytest.mark.parametrize("error", [asyncio.CancelledError, KeyboardInterrupt, GeneratorExit])
def test_cancellation_and_interrupts_pass(error):
    with pytest.raises(error), boundary(Cause.SCORER):
        raise error


async def test_any_answer_of_a_solver_is_kept(sums, scripted, tmp_path):
    reply = ModelResponse(
        content=["x"],
        model=DEEP,
        finish_reason={"a": 1},
        prompt_tokens="5",
        completion_tokens=-3,
        total_tokens=2**80,
    )
    reply.latency_ms, reply.cost_usd = "long", float("inf")
    scripted.answer = lambda prompt: SolveResult(
        "\ud800", model_response=reply, trajectory=cast(Any, [{"deep": DEEP}])
    )
    for resume in (False, True):
        bundle = await run_evaluation(sums, scripted, step_log_dir=tmp_path, resume=resume)
        assert bundle["benchmark"]["coverage"]["scored"] == 10
    assert bundle["_results"][0]["finish_reason"] == ""
    scripted.answer = lambda prompt: SolveResult(response=None)
    assert (await run_evaluation(sums, scripted))["_results"][0]["model_response"] == ""
