"""``local``: runs on this machine, in the foreground or in a separate process."""

import os
import socket
import sys
from pathlib import Path
from typing import Final, Literal

from pydantic import Field

from nemo_evaluator.config.cluster_base import ClusterBase
from nemo_evaluator.config.fields import EnvMap, Later, Size
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.kinds import Kind
from nemo_evaluator.core.processes import end_process, is_alive, start_time
from nemo_evaluator.core.values import dataclass
from nemo_evaluator.executors.base import Executor, Job, Life, not_running
from nemo_evaluator.executors.request import carried_secrets, worker_command, write_request
from nemo_evaluator.store.layout import LOG
from nemo_evaluator.store.lock import holder_of
from nemo_evaluator.store.run_registry import RunMeta, refreshed

_GRACE: Final = 20.0


class LocalCluster(ClusterBase):
    """This machine."""

    type: Literal["local"] = "local"
    gpus: Later[list[int]] = Field(None, description="GPUs that services may use.")
    max_memory: Later[Size] = Field(None, description="Memory limit of the run.")
    container_env: EnvMap = Field(default_factory=dict, description="Environment of the run.")


@dataclass(frozen=True, slots=True)
class LocalHandle:
    """The process of a background run.

    Only consulted until that process holds the folder's lock, which is more reliable.
    """

    pid: int
    began: int
    host: str


class Local(Executor):
    """Runs on this machine."""

    def start(self, job: Job) -> int | None:
        """Return None to run in this process, or with ``--background`` start a process in its own session."""
        job.refuse_submit()
        if not job.request.background:
            return None
        handle = _detach(job)
        job.run.noting(handle).save()
        job.tell_started(f"Started in the background: pid {handle.pid}", {"pid": handle.pid})
        return 0

    def life(self, run: RunMeta) -> Life | None:
        """Return the process that has locked the folder, or before that the process that was started."""
        holder = holder_of(Path(run.output_dir))
        hostname = socket.gethostname()
        if holder is not None and (holder.host != hostname or holder.run_id in ("", run.run_id)):
            return _life("running", holder.pid, holder.host)
        run = refreshed(run)
        handle = run.handle(LocalHandle)
        if handle is None or "exit_code" in run.details or handle.host != hostname:
            return None
        if is_alive(handle.pid, handle.began):
            return _life("starting", handle.pid, hostname)
        return None

    def stop(self, run: RunMeta) -> None:
        """Send SIGTERM, after which the run sends no new requests; send SIGKILL if it does not end in time.

        Raises:
            UsageError: If the run is not running, or is running on another host.
        """
        life = self.life(run)
        if life is None:
            raise not_running(run)
        if life.facts["host"] != socket.gethostname():
            raise UsageError(
                f"run {run.run_id} is running on {life.facts['host']}", hint="stop it on that host"
            )
        end_process(life.facts["pid"], _GRACE)


def _life(state: Literal["starting", "running"], pid: int, host: str) -> Life:
    if host == socket.gethostname():
        elsewhere = ""
    else:
        elsewhere = f" on {host}"
    return Life(state, f"pid {pid}{elsewhere}", {"pid": pid, "host": host})


def _detach(job: Job) -> LocalHandle:
    """Start the worker in its own session, with its output appended to the run's log."""
    request_file = write_request(job.request, job.run.run_id, job.folder)
    open_log = (
        os.POSIX_SPAWN_OPEN,
        1,
        str(job.folder / LOG),
        os.O_WRONLY | os.O_CREAT | os.O_APPEND,
        0o644,
    )
    pid = os.posix_spawn(
        sys.executable,
        [sys.executable, *worker_command(request_file)],
        os.environ | carried_secrets(job.request),
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            open_log,
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setsid=True,
    )
    return LocalHandle(pid, start_time(pid), socket.gethostname())


KIND: Final = Kind(LocalCluster, Local)
