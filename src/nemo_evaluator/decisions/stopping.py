"""The stop rule of a benchmark, from its config and the run it is compared with."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from nemo_evaluator.config.budgets import StopWhen
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.decisions.bundles import Run, discover_bundles
from nemo_evaluator.decisions.rows import iter_rewards
from nemo_evaluator.metrics import Baseline, StopRule


def stop_rule(config: StopWhen, *, benchmark: str, repeats: int) -> StopRule:
    """The rule that ``stop_when`` asks for; raises UsageError when its baseline cannot be used."""
    baseline = None
    if config.decided_against is not None:
        path = Path(config.decided_against)
        rewards = baseline_rewards(_baseline_run(path, benchmark))
        baseline = Baseline(rewards, config.max_drop, name=config.decided_against)
    return StopRule(
        interval_width=config.interval_width,
        baseline=baseline,
        confidence=config.confidence,
        min_problems=config.min_problems,
        repeats=repeats,
    )


def baseline_rewards(run: Run) -> dict[str, float]:
    """The mean reward of each problem of a run, by problem hash."""
    sums: dict[str, list[float]] = {}
    for problem, reward in iter_rewards(run.results):
        sums.setdefault(problem, []).append(reward)
    if not sums:
        raise UsageError(
            f"{run.results} has no scored rows with a problem_hash", hint="give a finished run of this version"
        )
    return {problem: float(np.mean(rewards)) for problem, rewards in sums.items()}


def _baseline_run(path: Path, benchmark: str) -> Run:
    runs = discover_bundles(path)
    if benchmark in runs:
        return runs[benchmark]
    if len(runs) == 1:
        return next(iter(runs.values()))
    raise UsageError(
        f"stop_when.decided_against: {path} has no run of {benchmark!r}",
        hint=f"it has: {', '.join(runs) or 'none'}",
    )
