"""A program in a folder of its own, for sandboxes that can only run commands."""

import io
import secrets
import tarfile
from collections.abc import Mapping, Sequence
from typing import IO, Any

from nemo_evaluator.sandbox._backend import Job
from nemo_evaluator.sandbox.base import ExecResult, Sandbox
from nemo_evaluator.sandbox.workspace import script


def stray_user() -> int:
    """A user id that owns nothing in an image, and most likely nothing of an earlier program."""
    return 20_000 + secrets.randbelow(40_000)


def as_command(command: Sequence[str], files: Mapping[str, bytes]) -> tuple[list[str], bytes]:
    """(argument list, stdin) that run ``command`` among ``files``; exit code 125 means that it was not run."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(data), 0o644
            tar.addfile(info, io.BytesIO(data))
    return ["sh", "-c", script("fresh"), "sh", *command], buffer.getvalue()


def prepared(job: Job) -> tuple[list[str], bytes | IO[bytes] | None]:
    """(argument list, stdin) of a job with its memory limit and its private folder, if it has these."""
    argv, stdin = job.argv, job.stdin
    if job.memory is not None:
        argv = ["sh", "-c", f'ulimit -v {job.memory // 1024} && exec "$@"', "sh", *argv]
    if job.private is not None and stdin is None:
        return as_command(argv, job.private)
    return argv, stdin


async def run_fresh(
    sandbox: Sandbox, command: Sequence[str], files: Mapping[str, bytes], *, memory: int | None = None, **options: Any
) -> ExecResult:
    """``sandbox.run_fresh``, also for a class of the user's own that has no more than the five basic methods."""
    if hasattr(sandbox, "run_fresh"):
        return await sandbox.run_fresh(command, files, memory=memory, **options)
    argv, stdin = as_command(command, files)
    return await sandbox.exec(argv, stdin=stdin, **options)


async def run_judge(sandbox: Sandbox, command: Sequence[str], stdin: bytes, **options: Any) -> ExecResult:
    """``sandbox.run_judge``, also for a class of the user's own that has no more than the five basic methods."""
    if hasattr(sandbox, "run_judge"):
        return await sandbox.run_judge(command, stdin, **options)
    return await sandbox.exec(command, stdin=stdin, **options)
