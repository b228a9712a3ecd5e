"""``type: shout``: asks in capitals, after looking into the sandbox."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from nemo_evaluator.config import SolverBase
from nemo_evaluator.config.fields import ServiceName
from nemo_evaluator.core.kinds import Kind
from nemo_evaluator.core.types import SeedResult, SolveResult
from nemo_evaluator.solvers.base import SolverContext


class ShoutSettings(SolverBase):
    """Asks in capitals."""

    type: Literal["shout"] = "shout"
    service: ServiceName = Field(description="The model.")
    volume: int = Field(1, ge=1, description="How many exclamation marks.")


class Shout:
    """The solver."""

    def __init__(self, settings: ShoutSettings, context: SolverContext) -> None:
        self._client, self._marks = context.clients[settings.service], "!" * settings.volume

    async def solve(self, task: SeedResult, sandbox: Any = None) -> SolveResult:
        """One call; the prompt names the place."""
        place = await sandbox.exec("echo $HUT")
        text = f"{task.prompt.upper()}{self._marks} {place.stdout.strip()}"
        reply = await self._client.chat([{"role": "user", "content": text}])
        return SolveResult(response=reply.content)


KIND = Kind(ShoutSettings, Shout)
