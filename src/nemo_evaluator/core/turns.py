"""Turns of an agent, handed over as they happen, so that a run killed at turn 40 is visible up to turn 40."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar

from nemo_evaluator.core.types import JsonDict

_recorder: ContextVar[Callable[[JsonDict], None] | None] = ContextVar("turn_recorder", default=None)


def record_turn(turn: JsonDict) -> None:
    """Hand a finished turn to whoever keeps the run's journal; without one, nothing happens."""
    recorder = _recorder.get()
    if recorder is not None:
        recorder(turn)


def set_turn_recorder(recorder: Callable[[JsonDict], None]) -> None:
    """Say where the turns of the current task go."""
    _recorder.set(recorder)
