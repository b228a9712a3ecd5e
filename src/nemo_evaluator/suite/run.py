"""Runs a whole config: starts services, runs the benchmarks, writes reports and exports, stops services."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack

from nemo_evaluator.config import EvalConfig
from nemo_evaluator.core.errors import NelError
from nemo_evaluator.core.storage import storage_error
from nemo_evaluator.datasets.settings import use_datasets
from nemo_evaluator.decisions.stop_words import rule_words
from nemo_evaluator.engine.evaluation import Finished, evaluate
from nemo_evaluator.engine.halt import Halt, HaltKind
from nemo_evaluator.engine.job import Evaluation
from nemo_evaluator.engine.plan import ReusePlan
from nemo_evaluator.engine.progress import Progress
from nemo_evaluator.engine.tally import Tally
from nemo_evaluator.services import start_services
from nemo_evaluator.services.base import all_or_first_error
from nemo_evaluator.store.checkpoint import Checkpoint
from nemo_evaluator.store.layout import TaskPaths
from nemo_evaluator.suite.build import Builder
from nemo_evaluator.suite.export import run_exports
from nemo_evaluator.suite.interrupts import Interrupts
from nemo_evaluator.suite.reporting import report_suite
from nemo_evaluator.suite.results import BenchmarkResult, Say, SuiteOptions, SuiteResult


async def run_suite(config: EvalConfig, options: SuiteOptions) -> SuiteResult:
    """Run every benchmark of a config. A benchmark that fails does not stop the others.

    The pool of ``options`` is closed at the end.
    """
    use_datasets(config.datasets)
    result = SuiteResult(strict_export=config.output.strict_export)
    keys = [bench.key for bench in config.benchmarks]
    checkpoint = Checkpoint(options.output_dir, keep=options.resume)
    checkpoint.planned(keys)
    interrupts = Interrupts(options.say)
    try:
        with interrupts.handled():
            try:
                await _run_benchmarks(config, options, result, checkpoint, interrupts=interrupts)
            except asyncio.CancelledError:
                if not interrupts.asked:
                    raise
            result.interrupted = interrupts.asked
        result.benchmarks.sort(key=lambda benchmark: keys.index(benchmark.key))
        if any(benchmark.bundle is not None for benchmark in result.benchmarks):
            result.reports = report_suite(result, config, options, checkpoint=checkpoint)
            result.export_errors = run_exports(
                config.output, options.output_dir, options.say, shard=options.shard
            )
    finally:
        if options.pool is not None:
            await options.pool.close()
    return result


async def _run_benchmarks(
    config: EvalConfig,
    options: SuiteOptions,
    result: SuiteResult,
    checkpoint: Checkpoint,
    *,
    interrupts: Interrupts,
) -> None:
    """Start the services and run the benchmarks, as many in parallel as the config says."""
    async with start_services(config, options.output_dir, say=options.say) as running:
        builder = Builder(config, running, options.run_id, detach=options.detach_batch)
        keys = iter(builder.keys)

        async def run_some(keys: Iterator[str]) -> None:
            for key in keys:
                if interrupts.asked:
                    return
                progress = _CheckpointedProgress(options.progress(), checkpoint, key)
                benchmark = await run_one(
                    key, builder, options, interrupts=interrupts, progress=progress
                )
                result.benchmarks.append(benchmark)
                _note_end(checkpoint, benchmark, options.say)

        # All workers share one iterator, so each benchmark runs once.
        await all_or_first_error([run_some(keys) for _ in range(config.suite.parallel_benchmarks)])


async def run_one(
    key: str,
    builder: Builder,
    options: SuiteOptions,
    interrupts: Interrupts,
    progress: Progress,
    prepare: Callable[[Evaluation], None] = lambda job: None,
) -> BenchmarkResult:
    """Run one benchmark of a suite.

    Args:
        key: The benchmark.
        builder: Builds its evaluation.
        options: How the suite is run.
        interrupts: Stops it on a signal.
        progress: Displays its progress.
        prepare: Changes the evaluation before it starts.

    Returns:
        Its result, which includes the error if it failed.
    """
    result = BenchmarkResult(key)
    halt = Halt()
    interrupts.running.append(halt)
    try:
        async with AsyncExitStack() as stack:
            job = await builder.build(
                key, options.output_dir, stack, resume=options.resume, shard=options.shard
            )
            result.task_dir = job.task_dir
            job.halt = halt
            job.progress = progress
            job.say = options.say
            job.fresh = options.fresh
            pool = None
            if options.pool is not None:
                job.workers = options.pool.workers
                pool = options.pool.of(key, builder.running)
            prepare(job)
            finished = await evaluate(job, pool)
        _take_finished(result, finished)
    except (NelError, OSError) as error:
        result.error = error if isinstance(error, NelError) else storage_error(error)
        result.stopped = halt.kind
    finally:
        interrupts.running.remove(halt)
    return result


class _CheckpointedProgress:
    """Progress of one benchmark that also records its start in the checkpoint, for `nel eval status`."""

    def __init__(self, shown: Progress, checkpoint: Checkpoint, key: str) -> None:
        self._shown = shown
        self._checkpoint = checkpoint
        self._key = key
        self.finished = shown.finished

    def started(self, name: str, tally: Tally, reuse: ReusePlan | None, todo: int) -> None:
        """Record the start, and display it."""
        self._checkpoint.started(self._key, planned=tally.planned, done=tally.done)
        self._shown.started(name, tally, reuse, todo)


def _take_finished(result: BenchmarkResult, finished: Finished) -> None:
    """Store the outcome of a finished benchmark in its result; raise an error that is not a NelError."""
    result.bundle = finished.bundle
    result.kept = finished.kept
    if not finished.kept:
        # Imported here, because this loads all of the statistics, which a run without work does not need.
        from nemo_evaluator.decisions.check.check_run import settle_status  # noqa: PLC0415

        result.bundle = settle_status(finished.task, finished.bundle, finished.written)
    halt = finished.halt
    result.stopped = halt.kind
    result.stop_reason = halt.reason
    hint = getattr(halt.error, "hint", None)
    if hint:
        result.stop_reason += f"\n  fix: {hint}"
    if halt.kind is HaltKind.ERROR:
        if halt.error is not None and not isinstance(halt.error, NelError):
            raise halt.error
        result.error = halt.error or NelError(halt.reason)


def failed_line(key: str, error: NelError) -> str:
    """Return the message for a benchmark that failed, with the fix below it.

    Args:
        key: The benchmark.
        error: Why it failed.
    """
    line = f"{key}: failed: {error.message}"
    if error.hint:
        line += f"\n  fix: {error.hint}"
    return line


def _note_end(checkpoint: Checkpoint, result: BenchmarkResult, say: Say) -> None:
    """Print how a benchmark ended if it did not just succeed, and record it in the checkpoint."""
    key = result.key
    if result.error is not None:
        say(failed_line(key, result.error))
        checkpoint.failed(key, result.error.message, getattr(result.error, "cause", None))
        return
    if result.stopped in (HaltKind.INTERRUPT, HaltKind.BUDGET, HaltKind.DETACHED):
        say(f"{key}: stopped: {result.stop_reason}")
        checkpoint.failed(key, f"stopped: {result.stop_reason}")
        return
    if result.task_dir is None:
        return
    if result.bundle is not None:
        rule_text = rule_words(result.bundle.get("stopped"))
        if rule_text:
            say(f"{key}: stop rule: {rule_text}")
    bundles = TaskPaths(result.task_dir).bundles()
    result_path = bundles[-1] if bundles else result.task_dir
    checkpoint.completed(key, result_path)
