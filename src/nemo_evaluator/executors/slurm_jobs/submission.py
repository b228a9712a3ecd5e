"""Submits a plan: builds the files of the run, uploads them and submits the jobs in one call."""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Final

from nemo_evaluator.config import SNAPSHOT
from nemo_evaluator.config.snapshot import snapshot_text
from nemo_evaluator.core.errors import TransportError, UsageError
from nemo_evaluator.core.files import dumps
from nemo_evaluator.core.secrets import looks_secret
from nemo_evaluator.core.shell import assignments, is_env_name
from nemo_evaluator.executors.base import Job
from nemo_evaluator.executors.request import RunRequest
from nemo_evaluator.executors.slurm import SlurmCluster
from nemo_evaluator.executors.slurm_jobs.host import Host, Upload, filled, script, text_of
from nemo_evaluator.executors.slurm_jobs.plan import SCRIPT, SECRETS, JobPlan
from nemo_evaluator.services.servers import NODES, SHARED, STEP
from nemo_evaluator.store.layout import OWN
from nemo_evaluator.store.run_registry import FILE as RUN_FILE
from nemo_evaluator.store.run_registry import RunMeta

# A line of the snapshot's header.
_HOLDS_SECRETS: Final = re.compile(r"^# masked: ", re.MULTILINE)
_VARIABLE: Final = re.compile(r"\$\{(\w+)")
# State files of an earlier attempt, in each folder of results; removed because a new chain of jobs begins.
_MARKS: Final = (
    ".nel_exit",
    ".nel_stop",
    ".nel_progress",
    ".nel_job_start",
    ".nel_job_chain",
    ".shard_done",
)
# Lists the jobs submitted by users, one per line; jobs submitted by jobs are listed in ``.nel_job_chain``.
_SUBMITTED: Final = ".nel_submitted"
_COUNTS: Final = (".nel_infra_retries", ".nel_accumulated_walltime")


@dataclass(frozen=True, slots=True)
class SlurmHandle:
    """The stored facts about a run: its first jobs (none before submission), and the location of its folder."""

    job_id: str
    job_ids: list[str]
    hostname: str | None
    username: str | None
    remote_dir: str
    is_sharded: bool
    num_shards: int
    # The shard that this handle stands for; None for the whole run.
    only_shard: int | None = None

    @property
    def host(self) -> Host:
        """The host of the scheduler."""
        return Host(self.hostname, self.username)


def submit(
    plan: JobPlan,
    handle: SlurmHandle,
    uploads: Mapping[str, Upload],
    request: RunRequest,
    shards: Sequence[int] | None,
) -> SlurmHandle:
    """Upload the files and submit the job, or an array of shards.

    The job id is written to the run folder before this process reads it, so the run is known even if the submitter is
    killed.

    Args:
        plan: The job.
        handle: The stored facts so far; its jobs are those of other shards, which may be running.
        uploads: The files.
        request: Tells whether to resume or to start over.
        shards: The shards to submit; None for all.

    Returns:
        The handle with the new job.

    Raises:
        TransportError: If ``sbatch`` fails.
    """
    if shards is None:
        shards = range(plan.shards)
    # A plan without shards is one job, not an array of jobs.
    array = ",".join(map(str, shards)) if plan.shards else ""
    old_files = _old_files(plan, shards)
    secrets = ""
    other_shards_may_run = bool(handle.job_ids)
    if not other_shards_may_run:
        old_files.append(_SUBMITTED)
        secrets = SECRETS
    commands = script("submit.sh", SCRIPT, array, secrets, *old_files)
    if plan.shards and not request.resume:
        # Results of earlier runs are moved aside first.
        fresh = "fresh" if request.fresh else ""
        commands = script("aside.sh", str(plan.shards), fresh, OWN.pattern) + commands
    output = handle.host.put_and_run(str(plan.root), uploads, commands).strip()
    job_id = output.rpartition("\n")[2]
    if not job_id.isdecimal():
        raise TransportError(f"sbatch answered {output!r}, which holds no job id")
    return replace(handle, job_id=job_id, job_ids=[*handle.job_ids, job_id])


def _old_files(plan: JobPlan, shards: Sequence[int]) -> list[str]:
    """Return the state files of an earlier attempt, relative to the run folder."""
    folders = [f"shard_{number}/" for number in shards] or [""]
    files: list[str] = []
    for folder in folders:
        for name in (*_MARKS, *_COUNTS):
            files.append(folder + name)
    if plan.shards:
        files += [".nel_stop", ".merge_lock"]
    return files


def files_of(job: Job, plan: JobPlan) -> dict[str, Upload]:
    """Return the files that the jobs need in the run folder, by name.

    Args:
        job: The run, its config and the request that started it.
        plan: The job that will execute it.

    Raises:
        UsageError: If the config itself contains a secret.
    """
    cluster = job.loaded.config.cluster
    assert isinstance(cluster, SlurmCluster)
    snapshot = snapshot_text(
        job.loaded, run_id=job.run.run_id, command=["nel", *job.request.command]
    )
    if _HOLDS_SECRETS.search(snapshot):
        hint = "write ${VARIABLE} and set that variable: its value travels in a file that only you can read"
        raise UsageError(
            "the config holds a secret itself, which a job would find on disk", hint=hint
        )
    request = RunRequest(
        config_file=str(plan.root / SNAPSHOT),
        output_dir=str(plan.root),
        resume=job.request.resume,
        fresh=job.request.fresh,
        background=True,
        verbose=job.request.verbose,
        no_progress=job.request.no_progress,
        command=job.request.command,
        cwd=None if cluster.hostname else job.request.cwd,
        run_id=job.run.run_id,
    )
    run = replace(job.run, output_dir=str(plan.root))
    variables = _variables(cluster, snapshot)
    return {
        SCRIPT: Upload(render(plan).encode(), 0o755),
        SNAPSHOT: Upload(snapshot.encode()),
        RUN_FILE: Upload(_as_json(run)),
        plan.request.name: Upload(_as_json(request), 0o600),
        SECRETS: Upload(assignments(variables).encode(), 0o600),
    }


def _as_json(value: RunMeta | RunRequest) -> bytes:
    """Serialize a record as a JSON file."""
    return dumps(asdict(value), indent=True) + b"\n"


def _variables(cluster: SlurmCluster, snapshot: str) -> dict[str, str]:
    """Return the environment variables that the jobs need, with their values.

    They are the variables that the config refers to, those of this environment that look secret (libraries read them;
    only for a cluster that shares this environment), and the cluster's ``container_env``, which takes precedence.
    """
    names = set(_VARIABLE.findall(snapshot))
    if not cluster.hostname:
        for name in os.environ:
            if looks_secret(name):
                names.add(name)
    variables: dict[str, str] = {}
    for name in sorted(names):
        if name in os.environ and is_env_name(name):
            variables[name] = os.environ[name]
    return variables | cluster.container_env


def render(plan: JobPlan) -> str:
    """Return the text of the job script. It contains no secret."""
    step_settings = {
        "container": plan.step.container,
        "mounts": plan.step.mounts,
        "mount_home": plan.step.mount_home,
    }
    head = filled(
        "job_head.sh.j2",
        plan=plan,
        step=dumps(step_settings).decode(),
        secrets=SECRETS,
        STEP=STEP,
        SHARED=SHARED,
        NODES=NODES,
    )
    return head + text_of("job.sh")
