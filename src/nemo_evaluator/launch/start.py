"""Start a request: the checks that every executor needs, then the executor."""

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
    """Start a request with the executor of its config, or print its plan (``--dry-run``).

    Args:
        request: The request.

    Returns:
        The exit code.

    Raises:
        NelError: If the run cannot start.
    """
    job = job_of(request)
    if request.dry_run:
        return _show_plan(job)
    _refuse_problems(job)
    executor = executor_of(job.run.executor)
    ensure_free(job.folder)
    job.refuse_unfinished()
    try:
        exit_code = executor.resume(job) if request.resume else executor.start(job)
        if exit_code is not None:
            return exit_code
        # The executor leaves the run to this process.
        return work(job)
    except OSError as error:
        raise storage_error(error) from error


def start_worker(file: Path, *, resume: bool = False) -> int:
    """Run a request file in this process; an executor has brought the file to where the run takes place.

    Args:
        file: The request file.
        resume: Continue an earlier run, even if the request does not say so.

    Returns:
        The exit code.

    Raises:
        NelError: If the run cannot start.
    """
    request = read_request(file)
    if resume:
        request = replace(request, resume=True, fresh=False)
    try:
        job = job_of(request)
        _refuse_problems(job)
        return work(job)
    except NelError as error:
        note_refusal(file.parent, error.exit_code)
        raise
    except OSError as error:
        raise storage_error(error) from error


def _show_plan(job: Job) -> int:
    """Print the executor's plan and then any problems, or check for problems and then print the plan of the run."""
    as_json = job.request.as_json
    executor_plan = executor_of(job.run.executor).plan(job)
    if executor_plan is not None:
        if as_json:
            print(dumps(executor_plan.data).decode(), flush=True)
        else:
            print(executor_plan.text, flush=True)
        _refuse_problems(job)
        return EXIT_OK
    _refuse_problems(job)
    plan = asyncio.run(describe_plan(job.loaded.config, job.folder, shard_of(job.request)))
    print(plan.as_json() if as_json else plan.text())
    if plan.failed:
        return EXIT_FAILED
    return EXIT_OK


def _refuse_problems(job: Job) -> None:
    """Raise ConfigError with all problems of a job, if there are any."""
    problems = find_problems(job.loaded, shard_of(job.request))
    job.loaded.refuse(problems)
