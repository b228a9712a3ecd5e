"""Merge the shards of a run of ``nel eval run``: with the scores over all rows, and reports and config beside them."""

import asyncio
import os
import re
import shutil
from contextlib import AsyncExitStack, chdir
from dataclasses import asdict, replace
from pathlib import Path
from typing import Final

from nemo_evaluator.config import SNAPSHOT, BenchmarkConfig, EvalConfig, load_config
from nemo_evaluator.core.errors import NelError, UsageError
from nemo_evaluator.core.files import safe_name, write_json
from nemo_evaluator.core.types import JsonDict
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

_VARIABLE: Final = re.compile(r"\$\{(\w+)\}")


def merge_run(root: Path, *, repeats: int | None = None, say: Say = print) -> SuiteResult:
    """Merge the shards under ``root``, then report and export as their config says. Raises as ``merge_shards`` does.

    ``repeats`` is what the caller believes the shards to have: another number is refused.
    """
    folder = root.resolve()
    for name, shards in find_shards(folder).items():
        actual = shards[0].config["repeats"]
        if repeats is not None and actual != repeats:
            message = f"{name} was run with {counted(actual, 'repeat')}, not {repeats}"
            raise UsageError(message, hint="leave --repeats out")
    merged = SuiteResult()
    with folder_lock(folder, say=say):
        sums = _Sums(folder, say)
        for bundle in merge_shards(folder, sums):
            for path in folder.glob(f"*/{bundle['run_id']}.json"):
                settled = settle_status(TaskPaths(path.parent), bundle)
                merged.benchmarks.append(BenchmarkResult(bundle["benchmark"]["name"], settled))
        sums.describe_run()
        if sums.config is not None:
            output = sums.config.output
            merged.reports = write_all_reports(output, folder)
            merged.export_errors = run_exports(output, folder, say)
            merged.strict_export = output.strict_export
    return merged


class _Sums:
    """Computes scores that are not means of rows (a benchmark's summary, agreement of judges) by the run's config."""

    def __init__(self, root: Path, say: Say) -> None:
        self._root = root
        self._say = say
        self.snapshot = min(root.glob(f"shard_*/{SNAPSHOT}"), default=None)
        self.config: EvalConfig | None = None
        self.run: RunMeta | None = None
        # Relative paths in the config mean what they meant then.
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
        """List the folder as a run, unless it is already one that was not made by a merge."""
        if self.snapshot is None or self.run is None:
            return
        present = load_run(self._root)
        if present is not None and not present.details.get("merged"):
            return
        shutil.copyfile(self.snapshot, self._root / SNAPSHOT)
        details = {key: value for key, value in self.run.details.items() if key != "shard"}
        details |= places(self._root, cwd=self._cwd) | {"merged": True}
        whole = replace(self.run, output_dir=str(self._root), details=details)
        write_json(self._root / RUN_FILE, asdict(whole))

    def __call__(self, shard: Path, results: Path) -> JsonDict:
        """The further scores of one benchmark; none, and a line that says why, when its scorers cannot be had."""
        benches = self.config.benchmarks if self.config is not None else []
        bench = next((bench for bench in benches if safe_name(bench.key) == shard.name), None)
        if bench is None or self.config is None:
            return {}
        try:
            with chdir(self._cwd):
                return asyncio.run(_aggregate(self.config, bench, results))
        except NelError as error:
            self._say(f"{bench.key}: aggregate scores skipped: {error.message}")
            return {}


async def _aggregate(config: EvalConfig, bench: BenchmarkConfig, results: Path) -> JsonDict:
    use_datasets(config.datasets)
    idle = {name: not_started(name, one) for name, one in config.services.items()}
    async with AsyncExitStack() as stack:
        environment = get_environment(bench.name, num_fewshot=bench.fewshot, params=bench.params)
        stack.push_async_callback(environment.close)
        clients = Clients(config.services, idle, bench.max_concurrent, stack=stack)
        return Verifier(environment, bench.scoring, clients, allow_fallback=True).aggregate(results)


def _environment(snapshot: Path) -> dict[str, str]:
    """The environment, with something for what the config needs and is not set here: summing up takes no key."""
    named = _VARIABLE.findall(snapshot.read_text(encoding="utf-8"))
    return dict.fromkeys(named, "unset") | dict(os.environ)
