"""Reports of an agent at work: finished turns, and the answer that it would give if it had to end now.

A run that is killed at turn 40 is visible up to turn 40. One whose time is up there is verified as it is.
"""

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Protocol, TypeAlias

from nemo_evaluator.core.types import JsonDict, SolveResult

# Called with the reason why the agent was stopped; returns None while it has no answer.
PartialAnswer: TypeAlias = Callable[[str], SolveResult | None]


class TurnListener(Protocol):
    """The receiver of reports: the code that runs the agent.

    Attributes:
        partial: Makes an answer of what the agent has, should it be stopped.
    """

    partial: PartialAnswer | None

    def record(self, turn: JsonDict) -> None:
        """Keep a finished turn."""


# The attempt that the current task works on.
at_work: ContextVar[Any] = ContextVar("at_work", default=None)


def record_turn(turn: JsonDict) -> None:
    """Add a finished turn to the run's journal; does nothing outside of a run."""
    listener: TurnListener | None = at_work.get()
    if listener is not None:
        listener.record(turn)


def offer_answer(partial: PartialAnswer) -> None:
    """Register how to make an answer of the current state, should the solver be stopped from outside."""
    listener: TurnListener | None = at_work.get()
    if listener is not None:
        listener.partial = partial
