"""How long an agent may work: our limit, the task's, or the larger of both, under a cap."""

from typing import Final

from nemo_evaluator.config.solver_base import TimeoutStrategy
from nemo_evaluator.core.types import SeedResult

DEFAULT_TIMEOUT: Final = 1800.0


def time_limit(task: SeedResult, ours: float | None, strategy: TimeoutStrategy, cap: float | None) -> float:
    """Seconds for the agent of a task."""
    theirs = _task_timeout(task)
    known = [limit for limit in (ours, theirs) if limit is not None]
    if strategy == "max" and known:
        chosen = max(known)
    elif strategy == "task":
        chosen = theirs or ours or DEFAULT_TIMEOUT
    else:
        chosen = ours or theirs or DEFAULT_TIMEOUT
    return min(chosen, cap) if cap is not None else chosen


def _task_timeout(task: SeedResult) -> float | None:
    for name in ("agent_timeout_sec", "agent_timeout", "max_agent_timeout_sec", "timeout"):
        value = task.metadata.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool) and value > 0:
            return float(value)
    return None
