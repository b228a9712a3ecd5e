"""From a request to a run: what is checked for every executor before one of them starts anything."""

import asyncio
from dataclasses import replace
from pathlib import Path

from nemo_evaluator.core.errors import EXIT_FAILED, EXIT_OK, NelError
from nemo_evaluator.core.files import dumps
from nemo_evaluator.core.storage import storage_error
from nemo_evaluator.executors.base import Job, executor_of
from nemo_evaluator.executors.request import RunRequest, read_request
from nemo_evaluator.launch.job import job_of, shard_of
from nemo_evaluator.launch.worker import note_refusal, work
from nemo_evaluator.preflight import find_problems
from nemo_evaluator.store.lock import ensure_free
from nemo_evaluator.suite.dry_run import describe_plan


def start(request: RunRequest) -> int:
    """Hand a request to the executor of its config, or describe it (``--dry-run``); returns the exit code."""
    job = job_of(request)
    if request.dry_run:
        return _show(job)
    _check(job)
    executor = executor_of(job.run.executor)
    ensure_free(job.folder)
    job.refuse_unfinished()
    try:
        if request.resume:
            code = executor.resume(job)
        else:
            code = executor.start(job)
        if code is None:
            return work(job)
        return code
    except OSError as error:
        raise storage_error(error) from error


def start_worker(file: Path, *, resume: bool = False) -> int:
    """Do what a request file says, in this process: an executor has brought it to where it is to run. With ``resume``
    it was begun before."""
    request = read_request(file)
    try:
        job = job_of(replace(request, resume=True, fresh=False) if resume else request)
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
    job.loaded.refuse(find_problems(job.loaded, shard_of(job.request)))
