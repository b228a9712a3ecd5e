from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from plain_sandbox import PlainSandbox

from nemo_evaluator.config import DockerSandbox, LocalSandbox
from nemo_evaluator.core.errors import SandboxError
from nemo_evaluator.core.files import iter_jsonl
from nemo_evaluator.core.registry import load_object
from nemo_evaluator.core.types import SeedResult
from nemo_evaluator.sandbox.manager import SandboxManager
from nemo_evaluator.scoring import (
    Score,
    ScorerInput,
    code_sandbox,
    code_sandbox_async,
    extract_code,
)

humaneval = load_object("nemo_evaluator.benchmarks.humaneval:prepare")
mbpp = load_object("nemo_evaluator.benchmarks.mbpp:prepare")
STUB = 'def add(a, b):\n    """Add."""\n'
TEST = "def check(candidate):\n    assert candidate(1, 2) == 3\n"
META = {"_prompt": STUB, "_test": TEST, "_entry_point": "add"}


@pytest.mark.parametrize(
    "response",
    [
        "```python\ndef add(a, b):\n    return a + b\n```",
        "Sure!\n```\ndef add(a, b):\n    return a + b\n```\nExample:\n```python\nprint(add(1, 2))\n```",
        "    return a + b",
        "return a + b",
        "```python\nif a:\n    pass\nreturn a + b\n```",
        "```python\nresult = a + b\nreturn result",
        "<think>```python\ndef add(a, b): return 0\n```</think>```python\ndef add(a, b): return a + b\n```",
    ],
)
async def test_right_code(response: str) -> None:
    sandbox = PlainSandbox()
    assert (await code_sandbox(ScorerInput(response, "add", META, sandbox=sandbox)))[
        "correct"
    ] is True


@pytest.mark.parametrize(
    "response",
    [
        "def add(a, b):\n    return a - b",
        "import sys\ndef add(a, b):\n    return 0\nsys.exit(0)",
        "def add(a, b):\n    import os\n    os._exit(0)",
        "def add(a, b) return",
    ],
)
async def test_wrong_code_is_wrong_and_an_early_exit_is_no_pass(response: str) -> None:
    score = await code_sandbox_async(ScorerInput(response, "add", META), PlainSandbox())
    assert score["correct"] is False


async def test_a_deadline_is_said() -> None:
    sample = ScorerInput("def add(a, b):\n    while True: pass", "add", META)
    score = await code_sandbox_async(sample, PlainSandbox(), timeout=0.5)
    assert score["correct"] is False
    assert score["verdict"] == "timeout"


async def test_without_a_sandbox_nothing_is_measured() -> None:
    with pytest.raises(SandboxError, match="needs a sandbox"):
        await code_sandbox(ScorerInput("return a + b", "add", META))


def test_extract_code_prefers_the_block_that_defines_the_function() -> None:
    text = "```python\ndef f(): pass\n```\n```bash\nls\n```\n```python\nf()\n```"
    assert extract_code(text, "f") == "def f(): pass"
    assert extract_code(text) == "f()"


VERDICTS = {
    "passed": "def add(a, b):\n    return a + b",
    "wrong": "def add(a, b):\n    return a - b",
    "compile_error": "def add(a, b) return",
    "timeout": "def add(a, b):\n    while True: pass",
    "out_of_memory": "def add(a, b):\n    x = b''\n    while True: x += bytes(2**24)",
    "crash": "def add(a, b):\n    import os; os.abort()",
}


@pytest.fixture(
    params=[
        pytest.param("local", marks=pytest.mark.needs("bwrap")),
        pytest.param("docker", marks=pytest.mark.needs("docker")),
    ]
)
async def manager(request: pytest.FixtureRequest) -> AsyncIterator[SandboxManager]:
    """A manager of real sandboxes."""
    made: SandboxManager
    if request.param == "local":
        made = SandboxManager(LocalSandbox(type="local", memory="256m"), "test")
    else:
        image = "nel-test/python:bookworm"
        made = SandboxManager(
            DockerSandbox(type="docker", memory="256m", image=image, network="none"), "test"
        )
    yield made
    await made.close()


async def _score(manager: SandboxManager, sample: ScorerInput, timeout: float = 30.0) -> Score:
    async with manager.session(SeedResult("p", "a")) as session:
        return await code_sandbox_async(sample, await session.for_verify(), timeout)


async def test_each_end_is_called_by_its_name(manager: SandboxManager) -> None:
    scores = {
        name: await _score(manager, ScorerInput(code, "add", META), 5)
        for name, code in VERDICTS.items()
    }
    assert {name: score["verdict"] for name, score in scores.items()} == {
        name: name for name in VERDICTS
    }
    assert [name for name, score in scores.items() if score["correct"]] == ["passed"]
    crashed = await _score(
        manager, ScorerInput("def add(a, b):\n    raise SystemExit(127)", "add", META)
    )
    assert crashed["verdict"] == "crash"


@pytest.mark.needs("mirror")
async def test_canonical_solutions_pass(manager: SandboxManager, mirror_dir: Path) -> None:
    sample = (
        slice(None) if "local" in type(manager.config).__name__.lower() else slice(None, None, 10)
    )
    samples = [
        ScorerInput(row["prompt"] + row["canonical_solution"], "", humaneval(row))
        for row in iter_jsonl(mirror_dir / "humaneval" / "test.jsonl")
    ][sample]
    tasks = [
        ScorerInput(row["code"].replace("\r\n", "\n"), "", mbpp(row))
        for row in iter_jsonl(mirror_dir / "mbpp" / "test.jsonl")
    ][sample]
    right = await asyncio.gather(*(_score(manager, one, 60) for one in samples))
    assert [score["verdict"] for score in right] == ["passed"] * len(samples)
    done = await asyncio.gather(*(_score(manager, one, 60) for one in tasks))
    assert sum(score["correct"] for score in done) >= len(tasks) - 1
