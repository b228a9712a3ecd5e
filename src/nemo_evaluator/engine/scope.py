"""The scope of model calls: every call of a step carries its session, its budgets and its traffic log."""

from collections.abc import Callable

from nemo_evaluator.core.types import JsonDict, Step
from nemo_evaluator.core.values import dataclass, replace
from nemo_evaluator.models.budget import Budget
from nemo_evaluator.models.health import Health
from nemo_evaluator.models.types import CallScope, call_scope


@dataclass(frozen=True, slots=True)
class StepLimits:
    """Limits of one step; at a limit, the answer so far is verified."""

    tokens: int | None = None
    turns: int | None = None
    seconds: float | None = None
    usd: float | None = None


@dataclass(frozen=True, slots=True)
class Scopes:
    """Creates the scope of each step of a benchmark."""

    benchmark: str
    budgets: tuple[Budget, ...] = ()
    limits: StepLimits | None = None
    traffic: Callable[[JsonDict], None] | None = None
    interrupted: Callable[[], bool] | None = None
    health: Health | None = None
    keep_turn: Callable[[Step, JsonDict], object] | None = None

    def enter(self, step: Step, session: str) -> CallScope:
        """Set the scope for the model calls of the running task.

        Args:
            step: The step on whose behalf models are called.
            session: The name of its session.
        """
        budgets = self.budgets
        if self.limits is not None:
            minutes = self.limits.seconds / 60 if self.limits.seconds else None
            step_budget = Budget(
                f"step {step.problem_idx}.{step.repeat}",
                usd=self.limits.usd,
                tokens=self.limits.tokens,
                requests=self.limits.turns,
                minutes=minutes,
                step=True,
            )
            budgets = (*budgets, step_budget)
        # A further attempt of the same step continues the turn count.
        turns: dict[str, int] = {}
        previous = call_scope.get()
        if (
            previous is not None
            and previous.problem_idx == step.problem_idx
            and previous.repeat == step.repeat
        ):
            turns = previous.turns
        scope = CallScope(
            session,
            self.benchmark,
            step.problem_idx,
            repeat=step.repeat,
            budgets=budgets,
            traffic=self.traffic,
            interrupted=self.interrupted,
            health=self.health,
            turns=turns,
            keep_turn=self.keep_turn,
        )
        call_scope.set(scope)
        return scope

    def leave(self) -> None:
        """Reset the scope of the running task, which continues with other steps."""
        call_scope.set(None)

    def enter_verify(self) -> None:
        """Set the scope for judges, which spend the budgets of the benchmark and the run, but not of the step.

        They use the same seed for all repeats.
        """
        scope = call_scope.get()
        if scope is not None and (self.limits is not None or scope.repeat):
            call_scope.set(replace(scope, budgets=self.budgets, vary_seed=False))
