"""HumanEval and MBPP: published solutions pass, broken ones do not, in the default sandbox."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from nemo_evaluator.core.errors import SandboxError
from nemo_evaluator.core.types import SandboxSpec
from nemo_evaluator.datasets import open_rows
from nemo_evaluator.environments import EvalEnvironment, get_environment
from nemo_evaluator.sandbox.local import LocalSandbox

# Published solutions: 367 fails on some versions of Python, 123 takes over thirty seconds on a slow machine.
KNOWN_BAD = {123, 367}


@pytest.fixture
async def sandbox() -> AsyncIterator[LocalSandbox]:
    """One local sandbox for all programs of a test."""
    place = LocalSandbox(SandboxSpec())
    await place.start()
    yield place
    await place.stop()


async def failures(env: EvalEnvironment, answers: list[str], sandbox: LocalSandbox) -> list[int]:
    """The problems whose answer was not judged correct."""
    gate = asyncio.Semaphore(4)

    async def one(idx: int) -> bool:
        async with gate:
            verdict = await env.verify_answer(answers[idx], await env.seed(idx), sandbox)
            return verdict.reward == 1.0

    results = await asyncio.gather(*(one(idx) for idx in range(len(answers))))
    return [idx for idx, right in enumerate(results) if not right]


@pytest.mark.slow
@pytest.mark.needs("mirror", "bwrap")
async def test_humaneval_solutions(full_mirror: Path, sandbox: LocalSandbox) -> None:
    rows = open_rows("hf://openai/openai_humaneval?split=test")
    whole = [f"Sure:\n```python\n{row['prompt']}{row['canonical_solution']}\n```" for row in rows]
    assert await failures(get_environment("humaneval"), whole, sandbox) == []


@pytest.mark.needs("mirror", "bwrap")
async def test_humaneval_bodies_and_broken_ones(full_mirror: Path, sandbox: LocalSandbox) -> None:
    env = get_environment("humaneval", num_examples=12)
    rows = open_rows("hf://openai/openai_humaneval?split=test")[:12]
    assert await failures(env, [row["canonical_solution"] for row in rows], sandbox) == []
    broken = [f"```python\n{row['prompt']}    return 'wrong'\n```" for row in rows]
    assert len(await failures(env, broken, sandbox)) == 12
    cheating = ["```python\nimport sys\nsys.exit(0)\n```"] * 12
    assert len(await failures(env, cheating, sandbox)) == 12


@pytest.mark.slow
@pytest.mark.needs("mirror", "bwrap")
async def test_mbpp_solutions(full_mirror: Path, sandbox: LocalSandbox) -> None:
    rows = open_rows("hf://google-research-datasets/mbpp?config=full&split=test")
    bad = await failures(
        get_environment("mbpp"), [f"```python\n{row['code']}\n```" for row in rows], sandbox
    )
    assert {rows[idx]["task_id"] for idx in bad} <= KNOWN_BAD
    assert len(bad) <= 1


@pytest.mark.needs("mirror", "bwrap")
async def test_mbpp_sanitized_solutions(full_mirror: Path, sandbox: LocalSandbox) -> None:
    rows = open_rows("hf://google-research-datasets/mbpp?config=sanitized&split=test")
    with_imports = [idx for idx in range(len(rows)) if rows[idx]["test_imports"]]
    env = get_environment("mbpp_sanitized")
    for idx in [*with_imports[:6], 0, 1, 2, 3]:
        verdict = await env.verify_answer(
            f"```python\n{rows[idx]['code']}\n```", await env.seed(idx), sandbox
        )
        assert verdict.reward == 1.0, verdict.scoring_details


@pytest.mark.needs("mirror", "bwrap")
@pytest.mark.parametrize("name", ["humaneval", "mbpp"])
async def test_an_answer_that_is_no_program_is_a_scored_zero(
    name: str, full_mirror: Path, sandbox: LocalSandbox
) -> None:
    env = get_environment(name, num_examples=12)
    for answer in (
        "",
        " ",
        "\n\t \r\n",
        "```python\n```",
        "```python\n \n```",
        "I cannot write this program.",
        "...",
    ):
        for idx in range(12):
            verdict = await env.verify_answer(answer, await env.seed(idx), sandbox)
            assert verdict.reward == 0.0, (answer, idx)
    prompts = [str((await env.seed(idx)).prompt) for idx in range(12)]
    assert len(await failures(env, prompts, sandbox)) == 12


@pytest.mark.needs("mirror")
async def test_without_a_sandbox_nothing_is_measured(full_mirror: Path) -> None:
    env = get_environment("humaneval")
    with pytest.raises(SandboxError, match="needs a sandbox"):
        await env.verify_answer("```python\npass\n```", await env.seed(0))
