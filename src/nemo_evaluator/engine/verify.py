"""From an answer to a verdict: the environment's own scorer and whatever ``scoring:`` adds to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from nemo_evaluator.core.errors import boundary
from nemo_evaluator.core.failures import Cause
from nemo_evaluator.core.types import SeedResult, VerifyResult
from nemo_evaluator.environments.base import EvalEnvironment

if TYPE_CHECKING:
    from nemo_evaluator.config import ScoringConfig
    from nemo_evaluator.models import Client
    from nemo_evaluator.sandbox.base import Sandbox


class Verifier:
    """Composes an environment with the metrics of its config."""

    def __init__(
        self,
        environment: EvalEnvironment,
        scoring: ScoringConfig | None = None,
        clients: Mapping[str, Client] | None = None,
    ) -> None:
        self._environment = environment
        self.fingerprint = environment.scorer_fingerprint()

    async def verify(self, response: str, seed: SeedResult, sandbox: Sandbox | None = None) -> VerifyResult:
        """The verdict. Raises a BoundaryError when the harness, not the answer, failed."""
        with boundary(Cause.SCORER):
            return await self._environment.verify_answer(response, seed, sandbox)
