"""From a request to a run: what is checked for every executor before one of them starts anything."""

import asyncio
import os
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from nemo_evaluator.config import LoadedConfig
from nemo_evaluator.config.env_file import use_env_file
from nemo_evaluator.core.errors import EXIT_FAILED, EXIT_OK, ConfigError, NelError, UsageError
from nemo_evaluator.core.files import dumps
from nemo_evaluator.core.storage import storage_error
from nemo_evaluator.executors.base import Job, executor_of
from nemo_evaluator.executors.request import RunRequest, at_home, load_request, read_request, shard_dir, shard_of
from nemo_evaluator.executors.worker import note_refusal, work
from nemo_evaluator.store.lock import ensure_free
from nemo_evaluator.store.run_registry import RunMeta, load_run, new_run_id, places, summary_of
from nemo_evaluator.suite.dry_run import describe_plan
from nemo_evaluator.suite.preflight import preflight, whole_error


def start(request: RunRequest) -> int:
    """Hand a request to the executor of its config, or describe it (``--dry-run``); returns the exit code."""
    job = _prepare(request)
    if request.dry_run:
        return _show(job)
    _check(job)
    executor = executor_of(job.run.executor)
    ensure_free(job.folder)
    job.refuse_unfinished()
    try:
        return executor.resume(job) if request.resume else executor.start(job)
    except OSError as error:
        raise storage_error(error) from error


def start_worker(file: Path, *, resume: bool = False) -> int:
    """Do what a request file says, in this process: an executor has brought it to where it is to run. With ``resume``
    it was begun before."""
    request = read_request(file)
    try:
        job = _prepare(replace(request, resume=True, fresh=False) if resume else request)
        _check(job)
        return work(job)
    except NelError as error:
        note_refusal(file.parent, error.exit_code)
        raise
    except OSError as error:
        raise storage_error(error) from error


def _show(job: Job) -> int:
    """Print the plan; what keeps it from running comes after it, as an error."""
    elsewhere = executor_of(job.run.executor).plan(job)
    if elsewhere is not None:
        text, data = elsewhere
        print(dumps(data).decode() if job.request.as_json else text, flush=True)
    _check(job)
    if elsewhere is not None:
        return EXIT_OK
    plan = asyncio.run(describe_plan(job.loaded.config, job.folder, shard_of(job.request)))
    print(plan.as_json() if job.request.as_json else plan.text())
    return EXIT_FAILED if plan.failed else EXIT_OK


def _check(job: Job) -> None:
    asyncio.run(preflight(job.loaded, shard_of(job.request)))


def _prepare(request: RunRequest) -> Job:
    if request.resume and request.fresh:
        raise UsageError("--resume and --fresh exclude each other", hint="give one of them")
    if request.cwd:
        os.chdir(request.cwd)
    request, config_dir = at_home(request)
    place = config_dir or Path()
    if names := use_env_file(place, request.env_file):
        print(f"variables from {request.env_file or place / '.env'}: {', '.join(names)}", file=sys.stderr)
    try:
        loaded = load_request(request, config_dir)
    except ConfigError as error:
        raise whole_error(error) from None
    shard = shard_of(request)
    whole = request.run_id if shard is not None and request.shard is None else None
    # Elsewhere, the environment may not say it.
    request = replace(request, cwd=str(Path.cwd()), shard=f"{shard.index}/{shard.total}" if shard else None)
    output_dir = shard_dir(Path(loaded.config.output.dir), shard)
    run = _run(request, loaded, output_dir, place)
    if whole is not None and shard is not None:
        # A shard that an executor started: it is part of the run that is listed.
        run = replace(run, run_id=f"{whole}_{shard.index}", details=run.details | {"part_of": whole})
    return Job(request, loaded, run)


def _run(request: RunRequest, loaded: LoadedConfig, output_dir: Path, config_dir: Path) -> RunMeta:
    old, config = load_run(output_dir) if request.resume else None, loaded.config
    asked = [bench.solver.model_service for bench in config.benchmarks]
    models = dict.fromkeys(config.model_id(name) for name in asked if name in config.model_services())
    return RunMeta(
        run_id=request.run_id or (old.run_id if old else new_run_id()),
        executor=config.cluster.type,
        output_dir=str(output_dir.resolve()),
        started_at=datetime.now(UTC).isoformat(),
        config_summary=summary_of([bench.name for bench in config.benchmarks]),
        details=places(output_dir, cwd=Path.cwd(), config_dir=config_dir)
        | ({"shard": request.shard} if request.shard else {})
        | {"model": ", ".join(models), "benchmarks": [bench.key for bench in config.benchmarks]},
    )
