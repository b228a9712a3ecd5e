"""Build the stop rule that the engine applies from ``stop_when``, with the baseline it compares against."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

from nemo_evaluator.config import BenchmarkConfig, EvalConfig
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.decisions.match import discover_bundles
from nemo_evaluator.engine.plan import Shard
from nemo_evaluator.environments.clusters import ClusterKey, Independent
from nemo_evaluator.runs.bundle import Bundle

if TYPE_CHECKING:
    from nemo_evaluator.statistics.stop_rule import Baseline, StopRule


def check_baselines(config: EvalConfig, shard: Shard | None) -> None:
    """Check the stop rules of a configuration before any service is started.

    Args:
        config: The configuration.
        shard: The shard that is run; None for a whole run.

    Raises:
        UsageError: A stop rule is combined with shards, or its baseline has no finished run.
    """
    for bench in config.benchmarks:
        if bench.stop_when is None:
            continue
        if shard is not None:
            explanation = "stop_when is not for shards: each sees a part of the problems and decides on that alone"
            raise UsageError(
                f"{bench.key}: {explanation}",
                hint="run the benchmark in one piece, or remove stop_when",
            )
        if bench.stop_when.decided_against is not None:
            _runs(bench.key, bench.stop_when.decided_against)


def build_stop_rule(
    bench: BenchmarkConfig, name: str, task_dir: Path, *, cluster: ClusterKey = None
) -> StopRule | None:
    """Build the stop rule of a benchmark.

    Args:
        bench: The benchmark's configuration.
        name: The benchmark's name in bundles.
        task_dir: The folder of this run, which cannot be its own baseline.
        cluster: What the benchmark declares about clusters of problems.

    Returns:
        The rule; None without ``stop_when``.

    Raises:
        UsageError: The baseline cannot be used, or problems belong to clusters.
    """
    settings = bench.stop_when
    if settings is None:
        return None
    if cluster is not None and not isinstance(cluster, Independent):
        raise UsageError(
            f"{bench.key}: stop_when needs independent problems, and those of {name} belong to clusters",
            hint="remove stop_when; max_problems makes a run shorter",
        )
    if settings.decided_against is None:
        baseline: Baseline | None = None
    else:
        baseline = _baseline(bench, name, task_dir)
    from nemo_evaluator.statistics.stop_rule import StopRule  # noqa: PLC0415 - the statistics, where a rule needs them

    return StopRule(
        interval_width=settings.interval_width,
        baseline=baseline,
        confidence=settings.confidence,
        min_problems=settings.min_problems,
        min_coverage=bench.min_coverage,
    )


def _baseline(bench: BenchmarkConfig, name: str, task_dir: Path) -> Baseline:
    """The baseline of a stop rule: the mean reward of each problem.

    Raises:
        UsageError: The baseline has no such benchmark, is this run itself, is INVALID, or has no rewards to compare.
    """
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
        explanation = f"is INVALID, so nothing can be decided against it: {run.invalid[0]}"
        hint = "complete it with `nel eval run --resume`, or take another baseline"
        raise UsageError(f"{bench.key}: the baseline {folder} {explanation}", hint=hint)
    rewards = _rewards(run)
    if not rewards:
        explanation = "has no scored row with a problem_hash to compare with"
        hint = f"run it again with this version of nel; its rows are in {run.results}"
        raise UsageError(f"{bench.key}: the baseline {folder} {explanation}", hint=hint)
    from nemo_evaluator.statistics.stop_rule import Baseline  # noqa: PLC0415

    return Baseline(rewards, bench.stop_when.max_drop, folder)


def _runs(key: str, folder: str) -> dict[str, Bundle]:
    """The runs of a baseline's folder by benchmark name.

    Raises:
        UsageError: The folder cannot be used or has no finished run.
    """
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
