"""``slurm``: runs in jobs of a SLURM cluster, whose state is read from the scheduler and from the run folder."""

import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from typing import Final, cast

from nemo_evaluator.config import write_snapshot
from nemo_evaluator.core.errors import EXIT_FAILED, EXIT_INTERRUPTED, NelError, UsageError
from nemo_evaluator.core.files import dumps
from nemo_evaluator.core.shell import joined, quoted
from nemo_evaluator.core.terminal import harmless
from nemo_evaluator.executors.base import (
    EXIT_STATES,
    Executor,
    Job,
    Life,
    PlanDescription,
    State,
    ended,
    not_running,
)
from nemo_evaluator.executors.slurm import SlurmCluster
from nemo_evaluator.executors.slurm_jobs.description import describe
from nemo_evaluator.executors.slurm_jobs.host import Host, JobState, QueuedJob, look, script
from nemo_evaluator.executors.slurm_jobs.plan import SECRETS, JobPlan, plan_job
from nemo_evaluator.executors.slurm_jobs.submission import SlurmHandle, files_of, submit
from nemo_evaluator.store.layout import LOG
from nemo_evaluator.store.run_registry import (
    RunMeta,
    forget_run,
    list_runs,
    load_run,
    refreshed,
    registry_dir,
)

# Seconds between two queries of the scheduler; the interval grows while the log is followed.
_LOOK: Final = 1.0
_LOOK_REMOTE: Final = 5.0
_LOOK_LATER = 10.0
_SLOWER = 1.1
_GRACE: Final = 60.0
# Exit codes of a shard that can be merged.
_RESULTS: Final = (0, 3, 4)


class LogReader:
    """Reads the lines that were added to the logs of a run since the last call."""

    def __init__(self, host: Host, folder: str, shards: int) -> None:
        self._host = host
        self._folder = folder
        self._names = [f"shard_{number}/{LOG}" for number in range(shards)]
        self._names.append(LOG)
        # The bytes that were read of each file, and its unfinished last line.
        self._read: dict[str, int] = {}
        self._partial: dict[str, str] = {}

    @property
    def found(self) -> bool:
        """Whether any log file has been read."""
        return bool(self._read)

    def lines(self, *, tail: int | None = None, last: bool = False) -> Iterator[str]:
        """Yield the new lines, with the shard's name in front.

        Args:
            tail: Yield only this many lines of each file.
            last: Also yield an unfinished last line, which otherwise waits for its end.
        """
        command = script("read_log.sh", *self._arguments(tail))
        # For each file: its name, its size and the new text.
        fields = self._host.run(command).split("\0")[1:]
        for name, size, new_text in zip(fields[::3], fields[1::3], fields[2::3], strict=True):
            self._read[name] = int(size)
            prefix = ""
            if name.startswith("shard_"):
                prefix = f"{name.removesuffix(f'/{LOG}')}: "
            text = self._partial.pop(name, "") + new_text
            for line in text.splitlines(keepends=True):
                if line.endswith("\n") or last:
                    yield prefix + line
                else:
                    self._partial[name] = line

    def _arguments(self, tail: int | None) -> list[str]:
        """Return the arguments of the reading script, among them the first new byte of each file."""
        read_of_job_logs = 0
        for name, size in self._read.items():
            if name not in self._names:
                read_of_job_logs = max(read_of_job_logs, size)
        tail_argument = "" if tail is None else str(tail)
        arguments = [self._folder, tail_argument, str(read_of_job_logs + 1)]
        for name in self._names:
            arguments += [name, str(self._read.get(name, 0) + 1)]
        return arguments


class Slurm(Executor):
    """Runs as jobs of a SLURM cluster."""

    def start(self, job: Job) -> int:
        """Submit the jobs, and follow the log until the run ends unless ``--background`` or ``--submit`` is given."""
        plan = plan_job(job)
        earlier = self._earlier(job)
        handle = _new_handle(job, plan, earlier)
        shards = None
        if earlier and job.request.resume and plan.shards:
            shards = self._shards_left(job, earlier, plan.shards)
        # Saved before submission, so that `nel eval status` finds the jobs even if this process is killed.
        run = job.run.noting(handle)
        files = files_of(replace(job, run=run), plan)
        run.save()
        try:
            handle = submit(plan, handle, files, request=job.request, shards=shards)
        except NelError:
            if earlier is None:
                forget_run(run.run_id)
            raise
        run = run.noting(handle)
        run.save()
        if run.remote:
            write_snapshot(job.loaded, registry_dir() / run.run_id, run_id=run.run_id)
        job.tell_started(f"Submitted job {handle.job_id}", asdict(handle), event="submitted")
        if job.request.background or job.request.submit:
            return 0
        return self._follow(run, quiet=job.request.as_json)

    def plan(self, job: Job) -> PlanDescription:
        """Describe the jobs without writing or submitting anything."""
        return describe(job, plan_job(job))

    def life(self, run: RunMeta) -> Life | None:
        """Return the jobs that are waiting or running; None if there are none."""
        handle = run.handle(SlurmHandle)
        if handle is not None:
            return _alive(self._look(handle), handle)
        return None

    def status(self, run: RunMeta) -> Life:
        """Return where the run is running, or how it ended according to its own record or else the scheduler."""
        run = refreshed(run)
        handle = run.handle(SlurmHandle)
        if handle is None:
            return ended(run)
        job_state = self._look(handle)
        return _alive(job_state, handle) or _over(job_state, ended(run))

    def stop(self, run: RunMeta) -> None:
        """Cancel the waiting jobs, ask the running ones to close, and cancel those that do not close in time.

        Raises:
            UsageError: If no job is waiting or running.
        """
        handle = refreshed(run).handle(SlurmHandle)
        if handle is None:
            raise not_running(run)
        job_state = self._look(handle)
        if not job_state.alive:
            raise not_running(run)
        folder = quoted(handle.remote_dir)
        # A job that starts just now finds the stop file, or is found by the next query.
        commands = [f"mkdir -p {folder} && touch {folder}/.nel_stop"]
        if job_state.waiting:
            commands.append(f"scancel {_ids(job_state.waiting)}")
        if job_state.going:
            commands.append(f"scancel --batch --signal=USR1 {_ids(job_state.going)}")
        handle.host.run("\n".join(commands))
        self._wait_stopped(handle)
        note = ":"
        if handle.only_shard is not None:
            # A shard that never started has recorded no exit code.
            note = f"[ -e .nel_exit ] || echo {EXIT_INTERRUPTED} >.nel_exit"
        handle.host.run(f"cd {folder}; rm -f {SECRETS}; {note}")

    def _wait_stopped(self, handle: SlurmHandle) -> None:
        """Wait until no job is left; cancel those that do not close in time."""
        deadline = time.monotonic() + _GRACE
        while True:
            job_state = self._look(handle)
            if not job_state.alive:
                return
            if time.monotonic() > deadline or not job_state.going:
                handle.host.run(f"scancel {_ids(job_state.alive)}")
            time.sleep(_pause(handle))

    def shard(self, run: RunMeta, index: int) -> RunMeta:
        """Return one shard as a run: its folder, its job in the array, and the follow-up jobs."""
        handle = refreshed(run).handle(SlurmHandle)
        if handle is None or not 0 <= index < handle.num_shards:
            return super().shard(run, index)
        folder = f"{handle.remote_dir}/shard_{index}"
        ids = [f"{job_id}_{index}" for job_id in handle.job_ids]
        shard_handle = replace(
            handle, job_ids=ids, remote_dir=folder, is_sharded=False, num_shards=0, only_shard=index
        )
        return replace(run, output_dir=f"{run.output_dir}/shard_{index}").noting(shard_handle)

    def logs(self, run: RunMeta, *, tail: int | None = None, follow: bool = False) -> Iterator[str]:
        """Yield the lines of the run's log, or of the job's log if there is none yet; over ssh, they are read remotely.

        Args:
            run: The run.
            tail: How many of the existing lines to start with; None for all.
            follow: Continue until the run ends.

        Raises:
            UsageError: If nothing has been logged yet.
        """
        handle = refreshed(run).handle(SlurmHandle)
        if handle is None:
            yield from super().logs(run, tail=tail, follow=follow)
            return
        reader = LogReader(handle.host, handle.remote_dir, handle.num_shards)
        pause = _pause(handle)
        while True:
            is_over = not follow or _alive(self._look(handle), handle) is None
            # Read after the check, so that the last lines are not missed.
            yield from reader.lines(tail=tail, last=is_over)
            if is_over:
                break
            tail = None
            time.sleep(pause)
            pause = min(pause * _SLOWER, _LOOK_LATER)
        if not reader.found:
            raise UsageError(
                f"run {run.run_id} has not logged anything yet",
                hint=f"nel eval status {run.run_id}",
            )

    def clean(self, run: RunMeta) -> None:
        """Remove the run from the list, and its secrets from the run folder."""
        handle = refreshed(run).handle(SlurmHandle)
        if handle is not None:
            handle.host.run(f"rm -f {quoted(handle.remote_dir)}/{SECRETS}")
        super().clean(run)

    def _follow(self, run: RunMeta, *, quiet: bool) -> int:
        """Print the log until the run ends; Ctrl-C only detaches.

        Returns:
            The exit code of the run.
        """
        try:
            for line in self.logs(run, follow=True):
                if not quiet:
                    sys.stderr.write(harmless(line))
        except KeyboardInterrupt:
            print(
                f"\ndetached; the run continues. To cancel: nel eval stop {run.run_id}",
                file=sys.stderr,
            )
            return EXIT_INTERRUPTED
        life = self.status(run)
        message = f"Run {run.run_id}: {life.state}"
        if quiet:
            message = dumps(life).decode()
        print(message, flush=True)
        code = life.facts.get("exit_code")
        if isinstance(code, int):
            return code
        return EXIT_FAILED

    def _look(self, handle: SlurmHandle) -> JobState:
        job_state = look(handle.host, handle.remote_dir, handle.job_ids, shards=handle.num_shards)
        if handle.only_shard is not None:
            # The first job of a shard may have the id of the whole array.
            indexes = ("", str(handle.only_shard))
            job_state.jobs = [job for job in job_state.jobs if job.index in indexes]
        return job_state

    def _earlier(self, job: Job) -> RunMeta | None:
        """Return the last run in the folder.

        Raises:
            UsageError: If it is waiting or running: a waiting job holds no lock yet.
        """
        earlier = load_run(job.folder) or _listed_run(job.run.output_dir)
        if earlier is None or earlier.executor != job.run.executor:
            return None
        run = earlier
        if job.request.only_shard is not None:
            run = self.shard(earlier, job.request.only_shard)
        life = self.life(run)
        if life is not None:
            hint = f"wait for it, or stop it first: nel eval stop {earlier.run_id}"
            raise UsageError(
                f"run {earlier.run_id} is {life.state} in {job.folder}: {life.where}", hint=hint
            )
        return earlier

    def _shards_left(self, job: Job, earlier: RunMeta, total: int) -> list[int]:
        """Return the shards without a result, or the requested one; the last shard if only the merge is missing."""
        if job.request.only_shard is not None:
            return [job.request.only_shard]
        exits: dict[str, int] = {}
        handle = earlier.handle(SlurmHandle)
        if handle is not None:
            exits = self._look(handle).exits
        unfinished: list[int] = []
        for number in range(total):
            if exits.get(f"shard_{number}") not in _RESULTS:
                unfinished.append(number)
        return unfinished or [total - 1]


def _new_handle(job: Job, plan: JobPlan, earlier: RunMeta | None) -> SlurmHandle:
    """Return the facts about a run before its submission."""
    cluster = cast(SlurmCluster, job.loaded.config.cluster)
    job_ids: list[str] = []
    if earlier is not None and job.request.only_shard is not None:
        # Jobs of other shards may still be running, so they remain part of the run.
        earlier_handle = earlier.handle(SlurmHandle)
        if earlier_handle is not None:
            job_ids = earlier_handle.job_ids
    return SlurmHandle(
        job_id="",
        job_ids=job_ids,
        hostname=cluster.hostname,
        username=cluster.username,
        remote_dir=str(plan.root),
        is_sharded=bool(plan.shards),
        num_shards=plan.shards,
    )


def _listed_run(output_dir: str) -> RunMeta | None:
    """Return the first run of the list that has this folder, or None."""
    for run in list_runs():
        if run.output_dir == output_dir:
            return run
    return None


def _ids(jobs: Sequence[QueuedJob]) -> str:
    return joined([job.job_id for job in jobs])


def _pause(handle: SlurmHandle) -> float:
    return _LOOK_REMOTE if handle.hostname else _LOOK


def _alive(job_state: JobState, handle: SlurmHandle) -> Life | None:
    """Return the state of the running or else the waiting jobs; None if there are none.

    If the scheduler does not answer, a run that has not recorded its end is "unknown".
    """
    if job_state.going:
        texts = []
        for job in job_state.going:
            texts.append(f"job {job.job_id} on {job.nodes or '?'}, {job.elapsed}")
        if handle.hostname:
            # Results on a remote host cannot be counted, so the last progress line is shown.
            texts += job_state.last[-1:]
        return _life("running" if job_state.locked else "starting", job_state, texts)
    if job_state.waiting:
        texts = []
        for job in job_state.waiting:
            texts.append(f"job {job.job_id} pending: {job.reason or '?'}")
        return _life("pending", job_state, texts)
    if job_state.silent and not job_state.settled:
        return Life("unknown", "the scheduler does not answer", {})
    return None


def _life(state: State, job_state: JobState, job_texts: list[str]) -> Life:
    """Build a Life from up to three job descriptions, with the number of finished shards."""
    texts = job_texts[:3]
    if len(job_texts) > 3:
        texts.append(f"... {len(job_texts) - 3} more")
    if job_state.shards:
        texts.append(f"{len(job_state.exits)} of {job_state.shards} shards done")
    jobs = [asdict(job) for job in job_state.alive]
    return Life(state, "; ".join(texts), {"jobs": jobs})


def _over(job_state: JobState, recorded: Life) -> Life:
    """Return how a run ended: by its own record, else by those of its shards, else by the scheduler."""
    if "exit_code" in recorded.facts:
        return recorded
    code = job_state.merged if job_state.shards else job_state.exits.get("")
    if code is not None:
        return Life(_state_of(code), facts={"exit_code": code})
    if job_state.stopped:
        return Life("stopped", facts={"exit_code": EXIT_INTERRUPTED})
    if job_state.shards and job_state.exits:
        return _over_by_shards(job_state.exits)
    last_job_state = ""
    if job_state.jobs:
        last_job = job_state.jobs[-1]
        last_job_state = f"job {last_job.job_id}: {last_job.state}"
    return Life(recorded.state, last_job_state, recorded.facts)


def _state_of(code: int) -> State:
    """Return the state of a run by its exit code; codes over 128 mean that a signal ended the process."""
    if code in EXIT_STATES:
        return EXIT_STATES[code]
    return "killed" if code > 128 else "failed"


def _over_by_shards(exits: dict[str, int]) -> Life:
    """Return the end of a run whose shards have ended and were not merged."""
    failed_exits = {name: code for name, code in exits.items() if code not in _RESULTS}
    messages = [f"{name} exited with {code}" for name, code in failed_exits.items()]
    worst_code = max(failed_exits.values(), default=EXIT_FAILED)
    facts = {"exit_code": worst_code, "shards": exits}
    return Life("failed", "; ".join(messages) or "not merged yet", facts)
