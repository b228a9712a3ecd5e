"""Finds every problem that would stop a run, before anything is started or written.

``nel config check``, ``nel eval run`` and ``--dry-run`` report the same list.
"""

import asyncio

from nemo_evaluator.config import EvalConfig, LoadedConfig, OutputConfig
from nemo_evaluator.core.errors import Problem
from nemo_evaluator.datasets.settings import use_datasets
from nemo_evaluator.decisions.stop_rule import check_baselines
from nemo_evaluator.engine.plan import Shard
from nemo_evaluator.exporters import get_exporter
from nemo_evaluator.preflight.endpoints import missing_prices, ping
from nemo_evaluator.preflight.names import unknown_names, unsupported_kinds
from nemo_evaluator.preflight.obstacle import Obstacle, obstacles_of
from nemo_evaluator.preflight.opening import open_benchmark
from nemo_evaluator.preflight.site_checks import check_site, disk_cautions, registry_cautions


def find_problems(
    loaded: LoadedConfig,
    shard: Shard | None = None,
    *,
    file_only: bool = False,
    pinging: bool = False,
) -> list[Problem]:
    """Find every problem of a config.

    For local runs, datasets are opened, one problem of each benchmark is loaded, and sandboxes are tested. On a cluster
    the run does that itself, where these exist. Cautions, which do not prevent a run, are added to the warnings.

    Args:
        loaded: The config.
        shard: The part of the run that will be executed.
        file_only: Check only the file itself: kinds that are not supported yet, and unknown names.
        pinging: Also send every endpoint one short question.

    Returns:
        The problems, each with its path, line, message and fix.
    """
    config = loaded.config
    problems: list[Problem] = []
    for obstacle in (*unsupported_kinds(config), *unknown_names(config)):
        problems.append(loaded.document.problem(*obstacle))
    if file_only:
        return problems
    _add_cautions(loaded)
    wrong_paths = {problem.path for problem in problems}
    obstacles = asyncio.run(_obstacles(config, wrong_paths, shard, pinging=pinging))
    unique_obstacles = dict.fromkeys(obstacles)
    return problems + [loaded.document.problem(*obstacle) for obstacle in unique_obstacles]


def _add_cautions(loaded: LoadedConfig) -> None:
    """Add cautions to the config's warnings, without duplicates."""
    for caution in (*disk_cautions(loaded.config), *registry_cautions(loaded.config)):
        if caution not in loaded.warnings:
            loaded.warnings.append(caution)


async def _obstacles(
    config: EvalConfig, wrong_paths: set[str], shard: Shard | None, *, pinging: bool
) -> list[Obstacle]:
    """Find what is wrong outside the file: exporters, prices, baselines, this machine, endpoints, benchmarks.

    Benchmarks that ``wrong_paths`` already contains are not opened.
    """
    obstacles: list[Obstacle] = []
    obstacles += obstacles_of(("output", "export"), _check_exports, config.output)
    obstacles += missing_prices(config)
    obstacles += obstacles_of(("benchmarks",), check_baselines, config, shard)
    obstacles += check_site(config)
    if pinging:
        async for obstacle in ping(config):
            obstacles.append(obstacle)
    if config.cluster.type != "local":
        return obstacles
    use_datasets(config.datasets)
    for index, bench in enumerate(config.benchmarks):
        shown_path = f"benchmarks[{index}]"
        if any(path.startswith(shown_path) for path in wrong_paths):
            continue
        async for obstacle in open_benchmark(bench, ("benchmarks", index)):
            obstacles.append(obstacle)
    return obstacles


def _check_exports(output: OutputConfig) -> None:
    """Raise NelError for an exporter that is unknown, has wrong settings or is not installed."""
    for name, settings in output.exporters.items():
        get_exporter(name, **settings)
