"""A small environment and a solver that does what it is told."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from nemo_evaluator.core.types import ModelResponse, SeedResult, SolveResult, VerifyResult
from nemo_evaluator.environments.base import EvalEnvironment


class Sums(EvalEnvironment):
    """How much is n + n?"""

    name = "sums"

    def __init__(self, size: int = 10) -> None:
        self.size = size
        self.version = "1"
        self.prompt = "How much is {0} + {0}?"
        self.verified = 0
        self.broken_seeds: set[int] = set()
        self.on_verify: Callable[[str], None] | None = None

    async def dataset_size(self) -> int:
        return self.size

    async def seed(self, idx: int) -> SeedResult:
        if idx in self.broken_seeds:
            raise ValueError(f"row {idx} is broken")
        category = "odd" if idx % 2 else "even"
        return SeedResult(self.prompt.format(idx), str(2 * idx), {"category": category})

    async def verify(
        self, response: str, expected: str, sandbox: Any = None, **metadata: Any
    ) -> VerifyResult:
        self.verified += 1
        if self.on_verify is not None:
            self.on_verify(response)
        details = {"method": "sums", "category": metadata["category"]}
        return VerifyResult(float(response == expected), response, details)

    def scorer_fingerprint(self) -> str:
        return f"sums-{self.version}"


@dataclass
class Scripted:
    """Answers by a function of the prompt; counts what it was asked."""

    answer: Callable[[str], Any] = lambda prompt: str(2 * int(prompt.split()[-1].rstrip("?")))
    settings: dict[str, Any] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    async def solve(self, task: SeedResult) -> SolveResult:
        self.asked.append(task.prompt)
        said = self.answer(task.prompt)
        if isinstance(said, BaseException):
            raise said
        if isinstance(said, SolveResult):
            return said
        reply = ModelResponse(
            content=said,
            model="m",
            finish_reason="stop",
            prompt_tokens=7,
            completion_tokens=1,
            total_tokens=8,
        )
        return SolveResult(response=said, model_response=reply)

    def describe(self) -> dict[str, Any]:
        return self.settings


@pytest.fixture
def sums() -> Sums:
    return Sums()


@pytest.fixture
def scripted() -> Scripted:
    return Scripted()
