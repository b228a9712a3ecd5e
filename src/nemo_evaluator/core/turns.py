"""What an agent hands over while it works: finished turns, and what its answer would be if it had to end now. A run
killed at turn 40 is visible up to turn 40, and one whose time is up there is verified as it stands."""

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Protocol, TypeAlias

from nemo_evaluator.core.types import JsonDict, SolveResult

# Called with the reason for which the agent was ended; None while there is nothing to give.
PartialAnswer: TypeAlias = Callable[[str], SolveResult | None]


class TurnListener(Protocol):
    """Whoever runs the agent."""

    partial: PartialAnswer | None

    def record(self, turn: JsonDict) -> None:
        """Keep a finished turn."""


# The attempt on whose behalf the current task works.
at_work: ContextVar[Any] = ContextVar("at_work", default=None)


def record_turn(turn: JsonDict) -> None:
    """Hand a finished turn to whoever keeps the run's journal; without one, nothing happens."""
    listener: TurnListener | None = at_work.get()
    if listener is not None:
        listener.record(turn)


def offer_answer(partial: PartialAnswer) -> None:
    """Say how to make an answer out of what is there, should the solver be ended from outside."""
    listener: TurnListener | None = at_work.get()
    if listener is not None:
        listener.partial = partial
