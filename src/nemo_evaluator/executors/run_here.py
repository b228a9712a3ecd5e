"""The local executor: run here, in the foreground or detached."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import uvloop

from nemo_evaluator.config import LoadedConfig, check_runtime, write_snapshot
from nemo_evaluator.core.arguments import masked_arguments
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.files import dumps, scrub_json, write_atomic
from nemo_evaluator.core.logs import CleanFormatter
from nemo_evaluator.core.secrets import scrub
from nemo_evaluator.core.terminal import harmless
from nemo_evaluator.executors.console import Console
from nemo_evaluator.executors.detach import start_detached
from nemo_evaluator.executors.dryrun import describe_plan
from nemo_evaluator.executors.request import RunRequest, load_request, shard_dir, shard_of
from nemo_evaluator.executors.summary import summary_json, summary_text
from nemo_evaluator.store.runs import RunMeta, load_run, new_run_id, summary_of
from nemo_evaluator.suite.names import check_names
from nemo_evaluator.suite.run import SuiteOptions, SuiteResult, run_suite

__all__ = ["RunRequest", "run_local"]

PID_FILE = "nel.pid"


def run_local(request: RunRequest) -> int:
    """Do what was asked; returns the exit code."""
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
    output_dir.mkdir(parents=True, exist_ok=True)
    meta = _meta(loaded, output_dir, request)
    if request.background:
        print(start_detached(meta, output_dir))
        return 0
    return _foreground(request, loaded, output_dir, meta)


def _foreground(request: RunRequest, loaded: LoadedConfig, output_dir: Path, meta: RunMeta) -> int:
    if request.verbose:
        handler = logging.StreamHandler()
        handler.setFormatter(CleanFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
        logging.basicConfig(level=logging.DEBUG, handlers=[handler])
    config = loaded.config
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
        shard=shard_of(request),
        base_dir=loaded.source.parent if loaded.source else None,
        progress=console.progress(),
        say=console.say,
    )
    # Objects made so far live for the whole run: the collector need not look at them again.
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
    try:
        result: SuiteResult = uvloop.run(run_suite(config, options))
        _tell(console, result, output_dir)
    finally:
        pid_file.unlink(missing_ok=True)
        console.close()
    return result.exit_code


def _tell(console: Console, result: SuiteResult, output_dir: Path) -> None:
    if console.as_json:
        print(scrub_json(dumps(summary_json(result, output_dir))).decode(), flush=True)
    else:
        print(harmless(scrub(summary_text(result, output_dir))), flush=True)


def _meta(loaded: LoadedConfig, output_dir: Path, request: RunRequest) -> RunMeta:
    old = load_run(output_dir) if request.resume else None
    names = [bench.name for bench in loaded.config.benchmarks]
    models = [loaded.config.model_id(name) for name in loaded.config.services]
    return RunMeta(
        run_id=old.run_id if old else new_run_id(names, models),
        executor="local",
        output_dir=str(output_dir.resolve()),
        started_at=datetime.now(UTC).isoformat(),
        config_summary=summary_of(names),
        details={"cwd": str(Path.cwd())},
    )
