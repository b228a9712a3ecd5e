"""The local executor: run here, in the foreground or detached."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import shlex
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import uvloop

from nemo_evaluator.config import SNAPSHOT, LoadedConfig, check_runtime, write_snapshot
from nemo_evaluator.core.arguments import masked_arguments
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.files import dumps, safe_name, scrub_json, write_atomic
from nemo_evaluator.core.logs import CleanFormatter
from nemo_evaluator.core.secrets import scrub
from nemo_evaluator.core.storage import storage_error
from nemo_evaluator.core.terminal import harmless
from nemo_evaluator.executors.console import Console
from nemo_evaluator.executors.detach import RUN_ID, start_detached
from nemo_evaluator.executors.dryrun import describe_plan
from nemo_evaluator.executors.request import RunRequest, at_home, load_request, shard_dir, shard_of
from nemo_evaluator.executors.summary import summary_json, summary_text
from nemo_evaluator.runs.unfinished import unfinished_answers
from nemo_evaluator.store.layout import PREVIOUS, TaskPaths
from nemo_evaluator.store.lock import ensure_free, folder_lock
from nemo_evaluator.store.runs import RunMeta, load_run, new_run_id, places, summary_of
from nemo_evaluator.store.sums import FILE as SUMS
from nemo_evaluator.store.sums import record_sums
from nemo_evaluator.suite.names import check_names
from nemo_evaluator.suite.run import SuiteOptions, SuiteResult, run_suite

__all__ = ["RunRequest", "run_local"]

PID_FILE: Final = "nel.pid"
# Files of a run, besides its reports, that are not to change when it has ended.
_KEPT: Final = (SNAPSHOT, "checkpoint.json", "trajectories_report.json")


def run_local(request: RunRequest) -> int:
    """Do what was asked; returns the exit code."""
    if request.resume and request.fresh:
        raise UsageError("--resume and --fresh exclude each other", hint="give one of them")
    request, config_dir = at_home(request)
    loaded = load_request(request)
    check_runtime(loaded.config, document=loaded.document)
    check_names(loaded.config, document=loaded.document)
    if request.submit:
        raise UsageError("the local cluster has nothing to submit to", hint="use --background to run detached")
    shard = shard_of(request)
    output_dir = shard_dir(Path(loaded.config.output.dir), shard)
    if request.dry_run:
        print(asyncio.run(describe_plan(loaded.config, output_dir, shard, as_json=request.as_json)))
        return 0
    meta = _meta(loaded, output_dir, request, config_dir or Path())
    try:
        if request.background:
            ensure_free(output_dir)
            _refuse_unfinished(request, loaded, output_dir)
            print(start_detached(meta, output_dir, request.words or sys.argv[1:]))
            return 0
        with folder_lock(output_dir, run_id=meta.run_id, say=_to_stderr):
            _refuse_unfinished(request, loaded, output_dir)
            return _foreground(request, loaded, output_dir, meta)
    except OSError as error:
        raise storage_error(error) from error


def _refuse_unfinished(request: RunRequest, loaded: LoadedConfig, output_dir: Path) -> None:
    """An unfinished run is continued or set aside on purpose, never by the way."""
    if request.resume or request.fresh:
        return
    for bench in loaded.config.benchmarks:
        task = TaskPaths(output_dir / safe_name(bench.key))
        if answers := unfinished_answers(task):
            again = shlex.join(["nel", *masked_arguments(sys.argv[1:])])
            raise UsageError(
                f"{task.root} holds an unfinished run with {answers} answers",
                hint=f"choose what to do with it:\n    {again} --resume   # continue; finished answers are reused\n"
                f"    {again} --fresh    # start over; the earlier run is moved to {task.root / PREVIOUS}/",
            )


def _to_stderr(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _foreground(request: RunRequest, loaded: LoadedConfig, output_dir: Path, meta: RunMeta) -> int:
    if request.verbose:
        handler = logging.StreamHandler()
        handler.setFormatter(CleanFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
        logging.basicConfig(level=logging.DEBUG, handlers=[handler])
    config = loaded.config
    # The files that it speaks of change from here on; it is written again at the end.
    (output_dir / SUMS).unlink(missing_ok=True)
    write_snapshot(loaded, output_dir, run_id=meta.run_id, command=["nel", *masked_arguments(sys.argv[1:])])
    meta = replace(meta, details=meta.details | {"pid": os.getpid()})
    meta.save()
    pid_file = output_dir / PID_FILE
    write_atomic(pid_file, f"{os.getpid()}\n")
    console = Console(
        output_dir,
        as_json=request.as_json,
        quiet=request.no_progress,
        interval=config.output.progress_interval,
        append=request.resume or os.environ.get("NEL_DETACHED") == "1",
    )
    options = SuiteOptions(
        output_dir=output_dir,
        run_id=meta.run_id,
        resume=request.resume,
        fresh=request.fresh,
        shard=shard_of(request),
        base_dir=meta.place("config_dir") if loaded.source else None,
        progress=console.progress(),
        say=console.say,
    )
    # Objects made so far live for the whole run: the collector need not look at them again.
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
    try:
        result: SuiteResult = uvloop.run(run_suite(config, options))
        _tell(console, result, output_dir)
        record_sums(output_dir, [*result.reports, *(output_dir / name for name in _KEPT)])
    finally:
        pid_file.unlink(missing_ok=True)
        console.close()
    return result.exit_code


def _tell(console: Console, result: SuiteResult, output_dir: Path) -> None:
    if console.as_json:
        print(scrub_json(dumps(summary_json(result, output_dir))).decode(), flush=True)
    else:
        print(harmless(scrub(summary_text(result, output_dir))), flush=True)


def _meta(loaded: LoadedConfig, output_dir: Path, request: RunRequest, config_dir: Path) -> RunMeta:
    old = load_run(output_dir) if request.resume else None
    names = [bench.name for bench in loaded.config.benchmarks]
    shard = shard_of(request)
    return RunMeta(
        # A detached run has the id that was told when it was started.
        run_id=os.environ.get(RUN_ID) or (old.run_id if old else new_run_id()),
        executor="local",
        output_dir=str(output_dir.resolve()),
        started_at=datetime.now(UTC).isoformat(),
        config_summary=summary_of(names),
        details=places(output_dir, cwd=Path.cwd(), config_dir=config_dir)
        | ({"shard": f"{shard.index}/{shard.total}"} if shard is not None else {}),
    )
