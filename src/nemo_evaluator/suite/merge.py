"""Merges the shards of a run, recomputes scores over all rows, and writes reports and config."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
from contextlib import AsyncExitStack, chdir
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from nemo_evaluator.config import SNAPSHOT, BenchmarkConfig, EvalConfig, load_config
from nemo_evaluator.core.errors import NelError, UsageError
from nemo_evaluator.core.files import safe_name, write_json
from nemo_evaluator.core.wording import counted
from nemo_evaluator.datasets.settings import use_datasets
from nemo_evaluator.decisions.check.check_run import settle_status
from nemo_evaluator.engine.merge import merge_shards
from nemo_evaluator.engine.shards import find_shards
from nemo_evaluator.engine.verify import Verifier
from nemo_evaluator.environments.registry import get_environment
from nemo_evaluator.store.layout import TaskPaths
from nemo_evaluator.store.lock import folder_lock
from nemo_evaluator.store.run_registry import FILE as RUN_FILE
from nemo_evaluator.store.run_registry import RunMeta, load_run, places, run_in
from nemo_evaluator.suite.clients import Clients, not_started
from nemo_evaluator.suite.export import run_exports
from nemo_evaluator.suite.reporting import write_all_reports
from nemo_evaluator.suite.results import BenchmarkResult, Say, SuiteResult

if TYPE_CHECKING:
    from nemo_evaluator.store.bundle_document import ValueEntry

_VARIABLE: Final = re.compile(r"\$\{(\w+)\}")


def merge_run(root: Path, *, repeats: int | None = None, say: Say = print) -> SuiteResult:
    """Merge the shards under ``root``, then report and export as their config says.

    Args:
        root: The folder of the run.
        repeats: The number of repeats that the caller expects; another number is refused.
        say: Receives messages for the user.

    Raises:
        UsageError: If ``repeats`` does not match. ``merge_shards`` raises further errors.
    """
    folder = root.resolve()
    if repeats is not None:
        _check_repeats(folder, repeats)
    merged_result = SuiteResult()
    with folder_lock(folder, say=say):
        aggregator = _Sums(folder, say)
        for bundle in merge_shards(folder, aggregator):
            for path in folder.glob(f"*/{bundle['run_id']}.json"):
                settled_bundle = settle_status(TaskPaths(path.parent), bundle)
                benchmark = BenchmarkResult(bundle["benchmark"]["name"], settled_bundle)
                merged_result.benchmarks.append(benchmark)
        aggregator.describe_run()
        if aggregator.config is not None:
            output = aggregator.config.output
            merged_result.reports = write_all_reports(output, folder)
            merged_result.export_errors = run_exports(output, folder, say)
            merged_result.strict_export = output.strict_export
    return merged_result


def _check_repeats(folder: Path, repeats: int) -> None:
    """Raise UsageError if a benchmark was run with another number of repeats."""
    for name, shards in find_shards(folder).items():
        actual_repeats = shards[0].config["repeats"]
        if actual_repeats != repeats:
            message = f"{name} was run with {counted(actual_repeats, 'repeat')}, not {repeats}"
            raise UsageError(message, hint="leave --repeats out")


class _Sums:
    """Computes the scores that need all rows, such as a benchmark's summary or the agreement of judges."""

    def __init__(self, root: Path, say: Say) -> None:
        """Load the config of the shards; aggregate scores are skipped if that fails."""
        self._root = root
        self._say = say
        self.snapshot = min(root.glob(f"shard_*/{SNAPSHOT}"), default=None)
        self.config: EvalConfig | None = None
        self.run: RunMeta | None = None
        # The working directory of the run, for relative paths in the config.
        self._cwd = Path()
        if self.snapshot is None:
            return
        config_dir = None
        self.run = run_in(self.snapshot.parent)
        if self.run is not None:
            self._cwd = self.run.place("cwd") or Path()
            config_dir = self.run.place("config_dir")
        try:
            environment = _environment(self.snapshot)
            loaded = load_config(self.snapshot, environment=environment, folder=config_dir)
            self.config = loaded.config
        except NelError as error:
            self._say(f"the config of the shards cannot be read: {error.message}")

    def describe_run(self) -> None:
        """Write the run file and the config of the merged run, unless the folder holds a run that is not a merge."""
        if self.snapshot is None or self.run is None:
            return
        present_run = load_run(self._root)
        if present_run is not None and not present_run.details.get("merged"):
            return
        shutil.copyfile(self.snapshot, self._root / SNAPSHOT)
        details = {key: value for key, value in self.run.details.items() if key != "shard"}
        details |= places(self._root, cwd=self._cwd) | {"merged": True}
        merged_run = replace(self.run, output_dir=str(self._root), details=details)
        write_json(self._root / RUN_FILE, asdict(merged_run))

    def __call__(self, shard: Path, results: Path) -> dict[str, ValueEntry]:
        """Return the aggregate scores of one benchmark; empty after a message if its scorers cannot be created."""
        if self.config is None:
            return {}
        for bench in self.config.benchmarks:
            if safe_name(bench.key) == shard.name:
                return self._scores(self.config, bench, results)
        return {}

    def _scores(
        self, config: EvalConfig, bench: BenchmarkConfig, results: Path
    ) -> dict[str, ValueEntry]:
        try:
            with chdir(self._cwd):
                return asyncio.run(_aggregate(config, bench, results))
        except NelError as error:
            self._say(f"{bench.key}: aggregate scores skipped: {error.message}")
            return {}


async def _aggregate(
    config: EvalConfig, bench: BenchmarkConfig, results: Path
) -> dict[str, ValueEntry]:
    """Compute the aggregate scores of a benchmark without starting its services."""
    use_datasets(config.datasets)
    idle_services = {name: not_started(name, service) for name, service in config.services.items()}
    async with AsyncExitStack() as stack:
        environment = get_environment(bench.name, num_fewshot=bench.fewshot, params=bench.params)
        stack.push_async_callback(environment.close)
        clients = Clients(config.services, idle_services, bench.max_concurrent, stack=stack)
        verifier = Verifier(environment, bench.scoring, clients, allow_fallback=True)
        return verifier.aggregate(results)


def _environment(snapshot: Path) -> dict[str, str]:
    """Return the environment, with a dummy value for unset variables of the config: merging needs no API key."""
    names = _VARIABLE.findall(snapshot.read_text(encoding="utf-8"))
    return dict.fromkeys(names, "unset") | dict(os.environ)
