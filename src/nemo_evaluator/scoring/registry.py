"""Scorers by name: the built-in ones, those of installed packages, and how to run any of them."""

import asyncio
import inspect
from collections.abc import Callable
from typing import Any, Final

from nemo_evaluator.config.groups import SCORERS
from nemo_evaluator.scoring.types import SCORER_LOOP, Score, ScorerInput

_BUILT_IN: Final = {
    **{"answer_line": "line", "code_sandbox": "code", "json_schema": "json", "math": "symbolic"},
    **dict.fromkeys(("exact_match", "f1", "fuzzy_match", "needs_judge"), "text"),
    **{"mcq_extract": "choice", "multichoice_regex": "choice", "numeric_match": "number"},
}

# A file of this room that declares ``KIND`` is a scorer of the file's name; these share files.
for _name, _module in _BUILT_IN.items():
    SCORERS.add(_name, f"nemo_evaluator.scoring.{_module}:{_name}")


def get_scorer(name: str) -> Callable[..., Any]:
    """Return the scorer called ``name``; it may be async (see ``run_scorer``)."""
    scorer: Callable[..., Any] = SCORERS.get(name).builder()
    return scorer


def list_scorers() -> list[str]:
    """Return the names of all scorers, sorted."""
    return SCORERS.names()


async def run_scorer(scorer: Callable[..., Any], sample: ScorerInput) -> Score:
    """Run a scorer, async or not.

    A plain function runs in a thread, unless ``versioned`` marks it as quick (``inline``).

    Returns:
        Its score; a bare value becomes ``{"correct": value}``.
    """
    if inspect.iscoroutinefunction(scorer):
        result: Any = await scorer(sample)
    elif getattr(scorer, "inline", False):
        result = scorer(sample)
    else:
        SCORER_LOOP.set(asyncio.get_running_loop())
        result = await asyncio.to_thread(scorer, sample)
    if inspect.isawaitable(result):
        result = await result
    if isinstance(result, dict):
        return result
    return {"correct": result}


def reward_of(score: Score) -> float:
    """Return the reward of a score: ``correct``, or else ``reward``.

    Raises:
        KeyError: It has neither.
    """
    value = score["correct"] if "correct" in score else score["reward"]
    return float(value)
