"""``riddle://N``: N riddles."""

from __future__ import annotations

from typing import Any

from nemo_evaluator.core.kinds import Kind
from nemo_evaluator.core.types import SeedResult, VerifyResult
from nemo_evaluator.environments.base import EvalEnvironment


class Riddles(EvalEnvironment):
    """What is N?"""

    name = "riddles"

    def __init__(self, size: int, hard: bool) -> None:
        self._dataset, self._hard = list(range(size)), hard

    async def seed(self, idx: int) -> SeedResult:
        """One riddle."""
        return SeedResult(
            prompt=f"{'hard ' if self._hard else ''}riddle {idx}", expected_answer="quiet"
        )

    async def verify(
        self, response: str, expected: str, sandbox: Any = None, **metadata: Any
    ) -> VerifyResult:
        """Right when equal."""
        return VerifyResult(reward=float(response == expected))


def open_riddles(uri: str, *, num_examples: int | None = None, hard: bool = False) -> Riddles:
    """The environment of a URI."""
    return Riddles(int(uri.partition("://")[2]), hard)


KIND = Kind(build=open_riddles)
