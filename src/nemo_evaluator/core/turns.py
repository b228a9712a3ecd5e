"""What an agent hands over while it works: finished turns, and what its answer would be if it had to end now. A run
killed at turn 40 is visible up to turn 40, and one whose time is up there is verified as it stands."""

from collections.abc import Callable
from contextvars import ContextVar
from typing import TypeAlias

from nemo_evaluator.core.types import JsonDict, SolveResult
from nemo_evaluator.core.values import dataclass

# Called with the reason for which the agent was ended; None while there is nothing to give.
PartialAnswer: TypeAlias = Callable[[str], SolveResult | None]


@dataclass(slots=True)
class Listener:
    """Whoever runs the agent."""

    record: Callable[[JsonDict], object]
    partial: PartialAnswer | None = None


_listener: ContextVar[Listener | None] = ContextVar("turn_listener", default=None)


def record_turn(turn: JsonDict) -> None:
    """Hand a finished turn to whoever keeps the run's journal; without one, nothing happens."""
    listener = _listener.get()
    if listener is not None:
        listener.record(turn)


def offer_answer(partial: PartialAnswer) -> None:
    """Say how to make an answer out of what is there, should the solver be ended from outside."""
    listener = _listener.get()
    if listener is not None:
        listener.partial = partial


def end_turns() -> None:
    """Say that the current task has turned to something else: what it still hands over goes nowhere."""
    _listener.set(None)


def listen(record: Callable[[JsonDict], object]) -> Listener:
    """Say where the turns of the current task go."""
    listener = Listener(record)
    _listener.set(listener)
    return listener
