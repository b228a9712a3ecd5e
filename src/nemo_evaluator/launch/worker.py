"""Run a job in this process; every executor starts this, on whatever machine."""

import gc
import logging
import os
import socket
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

import uvloop

from nemo_evaluator.config import SNAPSHOT, write_snapshot
from nemo_evaluator.core.errors import EXIT_FAILED, NelError, TransportError
from nemo_evaluator.core.files import dumps, scrub_json, write_atomic
from nemo_evaluator.core.logs import CleanFormatter
from nemo_evaluator.core.secrets import scrub
from nemo_evaluator.core.terminal import coloured, harmless, terminal_width
from nemo_evaluator.executors.base import Job, executor_of, status_of
from nemo_evaluator.executors.request import remove_requests
from nemo_evaluator.launch.job import shard_of
from nemo_evaluator.runs.find import task_folders
from nemo_evaluator.store.lock import folder_lock
from nemo_evaluator.store.run_registry import RunMeta, load_run, refreshed, registry_dir, run_in
from nemo_evaluator.store.sums import FILE as SUMS
from nemo_evaluator.store.sums import record_sums, untouched
from nemo_evaluator.suite.console import Console
from nemo_evaluator.suite.results import SuiteOptions, SuiteResult
from nemo_evaluator.suite.run import run_suite
from nemo_evaluator.suite.summary import summary_json, summary_text

PID_FILE: Final = "nel.pid"
# Files besides the reports that must not change after the run.
_UNCHANGING: Final = (SNAPSHOT, "checkpoint.json", "trajectories_report.json")
# Collect garbage rarely: most objects live as long as the run.
_GC_THRESHOLDS: Final = (200_000, 20, 100)


def work(job: Job) -> int:
    """Run a job to its end, with its folder locked, and store the exit code in the registry.

    Returns:
        The exit code.

    Raises:
        NelError: If the run fails.
    """
    say = partial(print, file=sys.stderr, flush=True)
    with folder_lock(job.folder, run_id=job.run.run_id, say=say):
        job.refuse_unfinished()
        remove_requests(
            job.folder, but=lambda run_id: run_id == job.run.run_id or _is_alive(run_id)
        )
        run = _listed_run(job)
        run.save()
        exit_code: int | None = None
        try:
            exit_code = _run_job(job)
            return exit_code
        except NelError as error:
            exit_code = error.exit_code
            raise
        except Exception:
            # The run failed by itself, so it must not count as killed.
            exit_code = EXIT_FAILED
            raise
        finally:
            if exit_code is not None:
                _note_exit_code(run, exit_code)


def note_refusal(folder: Path, exit_code: int) -> None:
    """Record that this process could not continue a run, so that the run does not count as killed.

    Args:
        folder: The folder of the run.
        exit_code: The exit code of this process.
    """
    run = run_in(folder)
    if run is None or not task_folders(folder):
        return
    same_process = run.details.get("pid") == os.getpid()
    same_host = run.details.get("host") == socket.gethostname()
    if same_process and same_host and "exit_code" not in run.details:
        replace(run, details=run.details | {"exit_code": exit_code}).save()


def _listed_run(job: Job) -> RunMeta:
    """Build the run's registry entry: it keeps details that the executor stored, without an earlier exit code."""
    earlier_run = load_run(job.folder)
    is_same_run = earlier_run is not None and earlier_run.run_id == job.run.run_id
    details = dict(earlier_run.details) if earlier_run is not None and is_same_run else {}
    details |= job.run.details
    details |= {"pid": os.getpid(), "host": socket.gethostname()}
    details.pop("exit_code", None)
    return replace(job.run, details=details)


def _note_exit_code(run: RunMeta, exit_code: int) -> None:
    """Store the exit code of a run in the registry."""
    # The process that started the run may have stored its handle meanwhile.
    details = refreshed(run).details | run.details
    replace(run, details=details | {"exit_code": exit_code}).save()


def _is_alive(run_id: str) -> bool:
    """Return whether another run that was to write here may still need its request.

    The folder is on this machine, so the run is looked up on this machine.
    """
    run = load_run(registry_dir() / run_id)
    if run is None:
        return False
    local_run = replace(run, details=run.details | {"hostname": None})
    try:
        return status_of(local_run).alive
    except TransportError:
        return True


def _run_job(job: Job) -> int:
    """Run the suite of a job; its folder gets the process id at the start, and checksums at the end."""
    request = job.request
    config = job.loaded.config
    folder = job.folder
    if request.verbose:
        _log_to_stderr()
    os.environ.update(getattr(config.cluster, "container_env", {}))
    untouched_files = untouched(folder) if request.resume else frozenset[Path]()
    # The listed files change from here on; the checksums are written again at the end.
    (folder / SUMS).unlink(missing_ok=True)
    write_snapshot(job.loaded, folder, run_id=job.run.run_id, command=["nel", *request.command])
    pid_file = folder / PID_FILE
    write_atomic(pid_file, f"{os.getpid()}\n")
    console = Console(
        folder,
        as_json=request.as_json,
        quiet=request.no_progress,
        interval=config.output.progress_interval,
        append=request.resume or request.background,
    )
    options = _suite_options(job, console, untouched_files)
    # Objects created so far live for the whole run, so the collector may skip them.
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLDS)
    try:
        result: SuiteResult = uvloop.run(run_suite(config, options))
        _print_result(console, result, folder)
        unchanging = [folder / name for name in _UNCHANGING]
        record_sums(folder, [*result.reports, *unchanging])
    finally:
        pid_file.unlink(missing_ok=True)
        console.close()
    return result.exit_code


def _suite_options(job: Job, console: Console, untouched_files: frozenset[Path]) -> SuiteOptions:
    """Build the options of the suite from the request.

    Args:
        job: The job.
        console: Prints progress and messages.
        untouched_files: Files of an earlier run that nobody has changed.
    """
    request = job.request
    runs_together = job.loaded.config.suite.parallel_benchmarks > 1
    return SuiteOptions(
        output_dir=job.folder,
        run_id=job.run.run_id,
        resume=request.resume,
        fresh=request.fresh,
        detach_batch=request.detach_batch,
        shard=shard_of(request),
        untouched=untouched_files,
        pool=executor_of(job.run.executor).pool(job),
        progress=partial(console.progress, together=runs_together),
        say=console.say,
    )


def _log_to_stderr() -> None:
    """Send debug logs to stderr (``--verbose``)."""
    handler = logging.StreamHandler()
    handler.setFormatter(CleanFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=logging.DEBUG, handlers=[handler])


def _print_result(console: Console, result: SuiteResult, folder: Path) -> None:
    """Print the summary: as text, or as JSON with ``--json``."""
    if console.as_json:
        document = dumps(summary_json(result, folder))
        print(scrub_json(document).decode(), flush=True)
        return
    text = harmless(scrub(summary_text(result, folder, width=terminal_width())))
    wants_colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    print(coloured(text) if wants_colour else text, flush=True)
