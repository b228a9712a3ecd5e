"""From ``stop_when`` to the rule that the engine asks, with the baseline it is to be decided against."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

from nemo_evaluator.config import BenchmarkConfig, EvalConfig
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.decisions.match import discover_bundles
from nemo_evaluator.engine.plan import Shard
from nemo_evaluator.runs.bundle import Bundle

if TYPE_CHECKING:
    from nemo_evaluator.statistics.stop_rule import Baseline, StopRule


def check_baselines(config: EvalConfig, shard: Shard | None) -> None:
    """Raise UsageError for a rule that cannot work, before any service is started for it."""
    for bench in config.benchmarks:
        if bench.stop_when is None:
            continue
        if shard is not None:
            why = "stop_when is not for shards: each sees a part of the problems and decides on that alone"
            raise UsageError(
                f"{bench.key}: {why}", hint="run the benchmark in one piece, or remove stop_when"
            )
        if bench.stop_when.decided_against is not None:
            _runs(bench.key, bench.stop_when.decided_against)


def build_stop_rule(bench: BenchmarkConfig, name: str, task_dir: Path) -> StopRule | None:
    """The rule of a benchmark, or None. Raises UsageError when its baseline is none."""
    when = bench.stop_when
    if when is None:
        return None
    if when.decided_against is None:
        baseline: Baseline | None = None
    else:
        baseline = _baseline(bench, name, task_dir)
    from nemo_evaluator.statistics.stop_rule import StopRule  # noqa: PLC0415 - the statistics, where a rule needs them

    return StopRule(
        interval_width=when.interval_width,
        baseline=baseline,
        confidence=when.confidence,
        min_problems=when.min_problems,
        min_coverage=bench.min_coverage,
    )


def _baseline(bench: BenchmarkConfig, name: str, task_dir: Path) -> Baseline:
    assert bench.stop_when is not None
    folder = str(bench.stop_when.decided_against)
    runs = _runs(bench.key, folder)
    run = runs.get(bench.key) or runs.get(name)
    if run is None:
        hint = f"it has: {', '.join(sorted(runs))}"
        raise UsageError(f"the baseline {folder} has no benchmark {bench.key!r}", hint=hint)
    if run.path.parent.resolve() == task_dir.resolve():
        hint = "write this run elsewhere: -O output.dir=FOLDER"
        raise UsageError(
            f"{bench.key}: the baseline {folder} is the folder of this run itself", hint=hint
        )
    if run.invalid:
        why = f"is INVALID, so nothing can be decided against it: {run.invalid[0]}"
        hint = "complete it with `nel eval run --resume`, or take another baseline"
        raise UsageError(f"{bench.key}: the baseline {folder} {why}", hint=hint)
    rewards = _rewards(run)
    if not rewards:
        why = "has no scored row with a problem_hash to compare with"
        hint = f"run it again with this version of nel; its rows are in {run.results}"
        raise UsageError(f"{bench.key}: the baseline {folder} {why}", hint=hint)
    from nemo_evaluator.statistics.stop_rule import Baseline  # noqa: PLC0415

    return Baseline(rewards, bench.stop_when.max_drop, folder)


def _runs(key: str, folder: str) -> dict[str, Bundle]:
    hint = "stop_when.decided_against is the folder of a finished run"
    try:
        runs = discover_bundles(folder)
    except UsageError as error:
        raise UsageError(
            f"{key}: no baseline to decide against: {error.message}", hint=error.hint or hint
        ) from error
    if not runs:
        raise UsageError(f"{key}: the baseline {folder} has no finished benchmark", hint=hint)
    return runs


def _rewards(run: Bundle) -> dict[str, float]:
    """The mean reward of every problem, by problem hash."""
    sums: dict[str, list[float]] = defaultdict(list)
    for row in run.rows():
        if row.reward is not None and row.problem_hash:
            sums[row.problem_hash].append(float(row.reward))
    return {problem: sum(rewards) / len(rewards) for problem, rewards in sums.items()}
