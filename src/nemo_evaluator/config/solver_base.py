"""The base class of solver settings. Each kind declares its settings in its own file under ``solvers/``."""

from typing import Annotated, ClassVar, Literal, TypeAlias

from pydantic import Field

from nemo_evaluator.config.fields import Model
from nemo_evaluator.config.groups import SOLVERS
from nemo_evaluator.config.kinds import KindOf

TimeoutStrategy = Annotated[
    Literal["override", "task", "max"],
    Field(description="Whose limit counts: ours, the task's, or the larger."),
]


class SolverBase(Model):
    """What turns a problem into an answer."""

    type: str
    # Whether the solver runs the whole evaluation itself, so that it cannot be stopped between problems.
    owns_loop: ClassVar[bool] = False
    # Whether the agent runs inside the sandbox.
    in_sandbox: ClassVar[bool] = False

    @property
    def model_service(self) -> str | None:
        """The service whose model is measured; None for a solver that asks none."""
        return getattr(self, "service", None)

    def needs_sandbox(self) -> str | None:
        """Why a sandbox is needed; None when it is not."""
        if self.in_sandbox:
            return f"solver {self.type!r} needs a sandbox"
        return None


SolverConfig: TypeAlias = Annotated[SolverBase, KindOf(SOLVERS)]
