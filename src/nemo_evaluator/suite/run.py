"""Run a whole config: services up, benchmarks, reports, exports, services down."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Final, Protocol

from nemo_evaluator.config import EvalConfig, OutputConfig
from nemo_evaluator.core.errors import (
    EXIT_BUDGET,
    EXIT_DETACHED,
    EXIT_FAILED,
    EXIT_INTERRUPTED,
    EXIT_INVALID,
    EXIT_OK,
    NelError,
)
from nemo_evaluator.core.storage import storage_error
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.core.values import dataclass, field
from nemo_evaluator.datasets.settings import use_datasets
from nemo_evaluator.decisions.stop_words import rule_words
from nemo_evaluator.engine.evaluation import Finished, evaluate
from nemo_evaluator.engine.halt import Halt, HaltKind
from nemo_evaluator.engine.job import Evaluation
from nemo_evaluator.engine.plan import ReusePlan, Shard
from nemo_evaluator.engine.pool import WorkerPool
from nemo_evaluator.engine.progress import Progress, SilentProgress
from nemo_evaluator.engine.tally import Tally
from nemo_evaluator.reports.names import SUFFIXES
from nemo_evaluator.runs.bundle import INVALID
from nemo_evaluator.runs.find import find_bundles
from nemo_evaluator.services import RunningService, start_services
from nemo_evaluator.services.base import all_or_first_error
from nemo_evaluator.store.checkpoint import Checkpoint
from nemo_evaluator.store.layout import TaskPaths
from nemo_evaluator.suite.build import Builder
from nemo_evaluator.suite.export import run_exports

Say = Callable[[str], None]


class SuitePool(Protocol):
    """Processes elsewhere that run the steps of a suite's benchmarks."""

    workers: int

    def of(self, key: str, running: Mapping[str, RunningService]) -> WorkerPool:
        """The pool of one benchmark."""

    async def close(self) -> None:
        """End those processes."""


_DRAIN: Final = 10.0
# The last is what srun hands on to the program it runs, and what schedulers warn with.
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)


class Interrupts:
    """Turns signals into a halt of the running benchmarks, or a cancellation where none runs."""

    def __init__(self, say: Say) -> None:
        self._say = say
        self._count = 0
        self._task: asyncio.Task[object] | None = None
        self.running: list[Halt] = []

    @property
    def asked(self) -> bool:
        """True once a signal came."""
        return self._count > 0

    @contextmanager
    def handled(self) -> Iterator[None]:
        """Listen for signals for the length of the block."""
        loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        for number in _SIGNALS:
            loop.add_signal_handler(number, self._on_signal)
        try:
            yield
        finally:
            for number in _SIGNALS:
                loop.remove_signal_handler(number)

    def _on_signal(self) -> None:
        self._count += 1
        if not self.running:
            if self._task is not None:
                self._task.cancel()
        elif self._count == 1:
            grace = f"requests in flight get {_DRAIN:.0f} s to finish"
            self._say(f"stopping: nothing new is sent, {grace}; press Ctrl-C again to quit now")
            for halt in self.running:
                halt.set(HaltKind.INTERRUPT, "interrupted", drain=_DRAIN)
        else:
            for halt in self.running:
                halt.hurry()
        if self._count > 2:
            sys.stderr.flush()
            os._exit(EXIT_INTERRUPTED)


@dataclass(slots=True)
class SuiteOptions:
    """How to run a config, as opposed to what to run."""

    output_dir: Path
    run_id: str
    resume: bool = False
    fresh: bool = False
    #: Leave once every step waits for a batch.
    detach_batch: bool = False
    shard: Shard | None = None
    #: Files of an earlier session that are still what it wrote.
    untouched: frozenset[Path] = frozenset()
    pool: SuitePool | None = None
    #: Makes the progress of one benchmark.
    progress: Callable[[], Progress] = SilentProgress
    say: Say = print


@dataclass(slots=True)
class BenchmarkResult:
    """What became of one benchmark of the suite."""

    key: str
    bundle: JsonDict | None = None
    error: NelError | None = None
    stopped: HaltKind | None = None
    stop_reason: str = ""
    task_dir: Path | None = None
    # Nothing was to be done: its files are those of an earlier session.
    kept: bool = False

    @property
    def exit_code(self) -> int:
        """What this benchmark alone would exit with."""
        if self.stopped is HaltKind.INTERRUPT:
            return EXIT_INTERRUPTED
        if self.error is not None or self.bundle is None:
            return EXIT_FAILED
        if self.stopped in (HaltKind.BUDGET, HaltKind.DETACHED):
            return EXIT_BUDGET if self.stopped is HaltKind.BUDGET else EXIT_DETACHED
        if self.bundle["validity"]["status"] == INVALID:
            return EXIT_INVALID
        return EXIT_OK


@dataclass(slots=True)
class SuiteResult:
    """What became of a suite."""

    benchmarks: list[BenchmarkResult] = field(default_factory=list)
    interrupted: bool = False
    reports: list[Path] = field(default_factory=list)
    export_errors: list[str] = field(default_factory=list)
    strict_export: bool = False

    @property
    def exit_code(self) -> int:
        """130 interrupted, 2 a benchmark (or a strict export) failed, 4 budget spent, 5 detached, 3 INVALID, else 0."""
        if self.interrupted:
            return EXIT_INTERRUPTED
        codes = {result.exit_code for result in self.benchmarks}
        if self.export_errors and self.strict_export:
            codes.add(EXIT_FAILED)
        return next(
            (
                code
                for code in (EXIT_FAILED, EXIT_BUDGET, EXIT_DETACHED, EXIT_INVALID)
                if code in codes
            ),
            EXIT_OK,
        )


async def run_suite(config: EvalConfig, options: SuiteOptions) -> SuiteResult:
    """Run every benchmark; one that fails does not keep the others from running."""
    use_datasets(config.datasets)
    result = SuiteResult(strict_export=config.output.strict_export)
    checkpoint = Checkpoint(options.output_dir, keep=options.resume)
    checkpoint.planned(bench.key for bench in config.benchmarks)
    interrupts = Interrupts(options.say)
    with interrupts.handled():
        try:
            async with start_services(config, options.output_dir, say=options.say) as running:
                builder = Builder(config, running, options.run_id, detach=options.detach_batch)
                keys = iter(builder.keys)

                async def run_some() -> None:
                    for key in keys:
                        if interrupts.asked:
                            return
                        noted = _Noted(options.progress(), checkpoint, key)
                        one = await run_one(
                            key, builder, options, interrupts=interrupts, progress=noted
                        )
                        result.benchmarks.append(one)
                        _note(checkpoint, one, options.say)

                await all_or_first_error(
                    [run_some() for _ in range(config.suite.parallel_benchmarks)]
                )
        except asyncio.CancelledError:
            if not interrupts.asked:
                raise
        result.interrupted = interrupts.asked
    order = [bench.key for bench in config.benchmarks]
    result.benchmarks.sort(key=lambda one: order.index(one.key))
    if any(one.bundle is not None for one in result.benchmarks):
        _report(result, config, options, checkpoint=checkpoint)
        result.export_errors = run_exports(
            config.output, options.output_dir, options.say, shard=options.shard
        )
    return result


def _report(
    result: SuiteResult, config: EvalConfig, options: SuiteOptions, checkpoint: Checkpoint
) -> None:
    """Write the reports, unless they stand as they were written and all that they are made of with them."""
    folder = options.output_dir
    made_of = [str(path.relative_to(folder)) for path in find_bundles(folder)]
    wanted = {fmt: folder / f"report.{SUFFIXES[fmt]}" for fmt in config.output.report}
    if config.output.enriched:
        more = [folder / "trajectories_report.json"]
    else:
        more = []
    files = [*wanted.values(), *filter(Path.is_file, more)]
    if (
        all(one.kept for one in result.benchmarks)
        and checkpoint.reported_of == made_of
        and options.untouched.issuperset(files)
        and all(path.stat().st_mtime_ns >= _last_change(result) for path in files)
    ):
        result.reports = list(wanted.values())
        return
    result.reports = write_all_reports(config.output, folder)
    checkpoint.reported(made_of)


def write_all_reports(output: OutputConfig, folder: Path) -> list[Path]:
    """Write the reports that a config asks for."""
    from nemo_evaluator.reports import write_reports, write_trajectories_report  # noqa: PLC0415 - needed with work only

    reports = write_reports(folder, output.report)
    if output.enriched:
        write_trajectories_report(folder)
    return reports


def _last_change(result: SuiteResult) -> int:
    """When a file beside a bundle was last changed: labels, calibrations and notes are parts of a report too."""
    places = [one.task_dir for one in result.benchmarks if one.task_dir is not None]
    inside: list[Path] = []
    for place in places:
        for path in place.iterdir():
            if path.is_file():
                inside.append(path)
    return max((path.stat().st_mtime_ns for path in inside), default=0)


class _Noted:
    """Progress of one benchmark whose start is noted in the checkpoint, for whoever asks for the status."""

    def __init__(self, shown: Progress, checkpoint: Checkpoint, key: str) -> None:
        self._shown = shown
        self._checkpoint = checkpoint
        self._key = key
        self.finished = shown.finished

    def started(self, name: str, tally: Tally, reuse: ReusePlan | None, todo: int) -> None:
        self._checkpoint.started(self._key, planned=tally.planned, done=tally.done)
        self._shown.started(name, tally, reuse, todo)


async def run_one(
    key: str,
    builder: Builder,
    options: SuiteOptions,
    interrupts: Interrupts,
    progress: Progress,
    prepare: Callable[[Evaluation], None] = lambda job: None,
) -> BenchmarkResult:
    """Run one benchmark of a suite, whatever becomes of it; ``prepare`` changes its evaluation before it begins."""
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
            if options.pool is not None:
                job.workers = options.pool.workers
            prepare(job)
            if options.pool is not None:
                pool: WorkerPool | None = options.pool.of(key, builder.running)
            else:
                pool = None
            finished = await evaluate(job, pool)
        _take(result, finished)
    except (NelError, OSError) as error:
        if isinstance(error, NelError):
            result.error = error
        else:
            result.error = storage_error(error)
        result.stopped = halt.kind
    finally:
        interrupts.running.remove(halt)
    return result


def _take(result: BenchmarkResult, finished: Finished) -> None:
    result.bundle = finished.bundle
    result.kept = finished.kept
    if not finished.kept:
        # Here, as the reports: these bring all of the statistics along, which a run without work does not need.
        from nemo_evaluator.decisions.check.check_run import settle_status  # noqa: PLC0415

        result.bundle = settle_status(finished.task, finished.bundle, finished.written)
    result.stopped = finished.halt.kind
    hint = getattr(finished.halt.error, "hint", None)
    result.stop_reason = finished.halt.reason + (f"\n  fix: {hint}" if hint else "")
    if finished.halt.kind is HaltKind.ERROR:
        error = finished.halt.error
        if error is not None and not isinstance(error, NelError):
            raise error
        result.error = error or NelError(finished.halt.reason)


def _note(checkpoint: Checkpoint, result: BenchmarkResult, say: Say) -> None:
    if result.error is not None:
        fix = f"\n  fix: {result.error.hint}" if result.error.hint else ""
        say(f"{result.key}: failed: {result.error.message}{fix}")
        checkpoint.failed(result.key, result.error.message, getattr(result.error, "cause", None))
    elif result.stopped in (HaltKind.INTERRUPT, HaltKind.BUDGET, HaltKind.DETACHED):
        say(f"{result.key}: stopped: {result.stop_reason}")
        checkpoint.failed(result.key, f"stopped: {result.stop_reason}")
    elif result.task_dir is not None:
        words = rule_words((result.bundle or {}).get("stopped"))
        if words:
            say(f"{result.key}: stop rule: {words}")
        checkpoint.completed(
            result.key, (TaskPaths(result.task_dir).bundles() or [result.task_dir])[-1]
        )
