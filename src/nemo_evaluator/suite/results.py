"""The options and results of a suite."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from nemo_evaluator.core.errors import (
    EXIT_BUDGET,
    EXIT_DETACHED,
    EXIT_FAILED,
    EXIT_INTERRUPTED,
    EXIT_INVALID,
    EXIT_OK,
    NelError,
)
from nemo_evaluator.core.values import dataclass, field
from nemo_evaluator.engine.halt import HaltKind
from nemo_evaluator.engine.plan import Shard
from nemo_evaluator.engine.pool import WorkerPool
from nemo_evaluator.engine.progress import Progress, SilentProgress
from nemo_evaluator.runs.bundle import INVALID
from nemo_evaluator.services import RunningService

if TYPE_CHECKING:
    from nemo_evaluator.store.bundle_document import BundleDocument

#: Shows a message to the user.
Say = Callable[[str], None]


class SuitePool(Protocol):
    """Remote processes that run the steps of a suite's benchmarks."""

    workers: int

    def of(self, key: str, running: Mapping[str, RunningService]) -> WorkerPool:
        """Return the pool of one benchmark."""

    async def close(self) -> None:
        """End the processes."""


@dataclass(slots=True)
class SuiteOptions:
    """How to run a config, as opposed to what to run.

    Attributes:
        output_dir: The folder of the run.
        run_id: The id of the run.
        resume: Reuse earlier answers.
        fresh: Start over; earlier answers are not reused, not even by a later resume.
        detach_batch: Stop once every step waits for a batch.
        shard: The part to run; None for all.
        untouched: Files of an earlier session that have not been modified.
        pool: Runs the steps in remote processes; None for this process.
        progress: Creates the progress display of one benchmark.
        say: Receives messages for the user.
    """

    output_dir: Path
    run_id: str
    resume: bool = False
    fresh: bool = False
    detach_batch: bool = False
    shard: Shard | None = None
    untouched: frozenset[Path] = frozenset()
    pool: SuitePool | None = None
    progress: Callable[[], Progress] = SilentProgress
    say: Say = print


@dataclass(slots=True)
class BenchmarkResult:
    """The result of one benchmark of the suite.

    Attributes:
        key: The benchmark.
        bundle: Its summary, if there is one.
        error: Why it failed, if it did.
        stopped: Why it ended early, if it did.
        stop_reason: The same, as a message.
        task_dir: Its folder, once it was started.
        kept: Whether there was nothing to do, so that the files of an earlier session were kept.
    """

    key: str
    bundle: BundleDocument | None = None
    error: NelError | None = None
    stopped: HaltKind | None = None
    stop_reason: str = ""
    task_dir: Path | None = None
    kept: bool = False

    @property
    def exit_code(self) -> int:
        """The exit code of a run with this benchmark only."""
        if self.stopped is HaltKind.INTERRUPT:
            return EXIT_INTERRUPTED
        if self.error is not None or self.bundle is None:
            return EXIT_FAILED
        if self.stopped is HaltKind.BUDGET:
            return EXIT_BUDGET
        if self.stopped is HaltKind.DETACHED:
            return EXIT_DETACHED
        if self.bundle["validity"]["status"] == INVALID:
            return EXIT_INVALID
        return EXIT_OK


@dataclass(slots=True)
class SuiteResult:
    """The result of a suite.

    Attributes:
        benchmarks: The results of the benchmarks.
        interrupted: Whether a signal ended the suite.
        reports: The paths of the reports.
        export_errors: Errors of exports, one line each.
        strict_export: Whether such an error fails the run.
    """

    benchmarks: list[BenchmarkResult] = field(default_factory=list)
    interrupted: bool = False
    reports: list[Path] = field(default_factory=list)
    export_errors: list[str] = field(default_factory=list)
    strict_export: bool = False

    @property
    def exit_code(self) -> int:
        """The exit code: 130 interrupted, 2 failed, 4 budget spent, 5 detached, 3 INVALID, otherwise 0."""
        if self.interrupted:
            return EXIT_INTERRUPTED
        codes = {result.exit_code for result in self.benchmarks}
        if self.export_errors and self.strict_export:
            codes.add(EXIT_FAILED)
        for code in (EXIT_FAILED, EXIT_BUDGET, EXIT_DETACHED, EXIT_INVALID):
            if code in codes:
                return code
        return EXIT_OK
