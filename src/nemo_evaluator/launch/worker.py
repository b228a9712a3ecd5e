"""The run itself, in this process: what every executor starts, wherever that is."""

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

from nemo_evaluator.config import SNAPSHOT, EvalConfig, write_snapshot
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
# Files of a run, besides its reports, that are not to change when it has ended.
_KEPT: Final = (SNAPSHOT, "checkpoint.json", "trajectories_report.json")


def work(job: Job) -> int:
    """Run to the end while holding the folder; returns the exit code, which is noted with the run."""
    with folder_lock(
        job.folder, run_id=job.run.run_id, say=partial(print, file=sys.stderr, flush=True)
    ):
        job.refuse_unfinished()
        remove_requests(job.folder, but=lambda run_id: run_id == job.run.run_id or _lives(run_id))
        run = _noted(job)
        run.save()
        code: int | None = None
        try:
            code = _run(job)
            return code
        except NelError as error:
            code = error.exit_code
            raise
        except Exception:
            # Not killed: it came to an end of its own, if a bad one.
            code = EXIT_FAILED
            raise
        finally:
            if code is not None:
                # Whoever started it may have noted its handle meanwhile.
                now = refreshed(run)
                replace(run, details=now.details | run.details | {"exit_code": code}).save()


def _noted(job: Job) -> RunMeta:
    """The run as it is listed from now on: with the handle that its executor has noted, and without an earlier end."""
    old = load_run(job.folder)
    if old is not None and old.run_id == job.run.run_id:
        details = old.details
    else:
        details = {}
    details = details | job.run.details | {"pid": os.getpid(), "host": socket.gethostname()}
    details.pop("exit_code", None)
    return replace(job.run, details=details)


def note_refusal(folder: Path, code: int) -> None:
    """Note the end of a run that this process was to continue and could not: it was not killed."""
    run = run_in(folder)
    if run is None or not task_folders(folder):
        return
    is_ours = (
        run.details.get("pid") == os.getpid() and run.details.get("host") == socket.gethostname()
    )
    if is_ours and "exit_code" not in run.details:
        replace(run, details=run.details | {"exit_code": code}).save()


def _lives(run_id: str) -> bool:
    """Whether a run that was to write here may still want its request. Its folder is here, so it is asked for here."""
    run = load_run(registry_dir() / run_id)
    try:
        return (
            run is not None
            and status_of(replace(run, details=run.details | {"hostname": None})).alive
        )
    except TransportError:
        return True


def _run(job: Job) -> int:
    request = job.request
    loaded = job.loaded
    folder = job.folder
    if request.verbose:
        handler = logging.StreamHandler()
        handler.setFormatter(CleanFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
        logging.basicConfig(level=logging.DEBUG, handlers=[handler])
    config = loaded.config
    os.environ.update(getattr(config.cluster, "container_env", {}))
    if request.resume:
        intact = untouched(folder)
    else:
        intact = frozenset[Path]()
    # The files that it speaks of change from here on; it is written again at the end.
    (folder / SUMS).unlink(missing_ok=True)
    write_snapshot(loaded, folder, run_id=job.run.run_id, command=["nel", *request.command])
    pid_file = folder / PID_FILE
    write_atomic(pid_file, f"{os.getpid()}\n")
    console = Console(
        folder,
        as_json=request.as_json,
        quiet=request.no_progress,
        interval=config.output.progress_interval,
        append=request.resume or request.background,
    )
    options = SuiteOptions(
        output_dir=folder,
        run_id=job.run.run_id,
        resume=request.resume,
        fresh=request.fresh,
        detach_batch=request.detach_batch,
        shard=shard_of(request),
        untouched=intact,
        pool=executor_of(job.run.executor).pool(job),
        progress=partial(console.progress, together=config.suite.parallel_benchmarks > 1),
        say=console.say,
    )
    # Objects made so far live for the whole run: the collector need not look at them again.
    gc.freeze()
    gc.set_threshold(200_000, 20, 100)
    try:
        result: SuiteResult = uvloop.run(_run_suite(config, options))
        _tell(console, result, folder)
        record_sums(folder, [*result.reports, *(folder / name for name in _KEPT)])
    finally:
        pid_file.unlink(missing_ok=True)
        console.close()
    return result.exit_code


async def _run_suite(config: EvalConfig, options: SuiteOptions) -> SuiteResult:
    try:
        return await run_suite(config, options)
    finally:
        if options.pool is not None:
            await options.pool.close()


def _tell(console: Console, result: SuiteResult, folder: Path) -> None:
    if console.as_json:
        print(scrub_json(dumps(summary_json(result, folder))).decode(), flush=True)
    else:
        text = harmless(scrub(summary_text(result, folder, width=terminal_width())))
        print(
            coloured(text) if sys.stdout.isatty() and not os.environ.get("NO_COLOR") else text,
            flush=True,
        )
