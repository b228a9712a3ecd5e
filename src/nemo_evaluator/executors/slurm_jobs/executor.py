"""``slurm``: runs in jobs of a SLURM cluster, whose state is read from the scheduler and from the run folder."""

import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import Final, cast

from nemo_evaluator.config import write_snapshot
from nemo_evaluator.core.errors import EXIT_FAILED, EXIT_INTERRUPTED, NelError, UsageError
from nemo_evaluator.core.files import dumps
from nemo_evaluator.core.shell import joined, quoted
from nemo_evaluator.core.terminal import harmless
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.executors.base import (
    EXIT_STATES,
    Executor,
    Job,
    Life,
    State,
    ended,
    not_running,
)
from nemo_evaluator.executors.slurm import SlurmCluster
from nemo_evaluator.executors.slurm_jobs.description import describe
from nemo_evaluator.executors.slurm_jobs.host import Host, JobState, look, script
from nemo_evaluator.executors.slurm_jobs.plan import SECRETS, plan_job
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
        self._names = [*(f"shard_{number}/{LOG}" for number in range(shards)), LOG]
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
        job_logs = [size for name, size in self._read.items() if name not in self._names]
        arguments = [
            self._folder,
            "" if tail is None else str(tail),
            str(max(job_logs, default=0) + 1),
        ]
        for name in self._names:
            arguments += [name, str(self._read.get(name, 0) + 1)]
        fields = self._host.run(script("read_log.sh", *arguments)).split("\0")[1:]
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


class Slurm(Executor):
    """Runs as jobs of a SLURM cluster."""

    def start(self, job: Job) -> int:
        """Submit the jobs, and follow the log until the run ends unless ``--background`` or ``--submit`` is given."""
        plan = plan_job(job)
        earlier = self._earlier(job)
        shards = None
        if earlier and job.request.resume and plan.shards:
            shards = self._shards_left(job, earlier, plan.shards)
        # Jobs of other shards may still be running, so they remain part of the run.
        earlier_handle = None
        if earlier is not None and job.request.only_shard is not None:
            earlier_handle = earlier.handle(SlurmHandle)
        cluster = cast(SlurmCluster, job.loaded.config.cluster)
        handle = SlurmHandle(
            job_id="",
            job_ids=earlier_handle.job_ids if earlier_handle is not None else [],
            hostname=cluster.hostname,
            username=cluster.username,
            remote_dir=str(plan.root),
            is_sharded=bool(plan.shards),
            num_shards=plan.shards,
        )
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

    def plan(self, job: Job) -> tuple[str, JsonDict]:
        """Describe the jobs, as text and as data, without writing or submitting anything."""
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
        if handle is not None:
            job_state = self._look(handle)
        else:
            job_state = JobState()
        if handle is None or not job_state.alive:
            raise not_running(run)
        folder = quoted(handle.remote_dir)
        running_ids = joined([job.job_id for job in job_state.going])
        waiting_ids = joined([job.job_id for job in job_state.waiting])
        # A job that starts just now finds the stop file, or is found by the next query.
        commands = [f"mkdir -p {folder} && touch {folder}/.nel_stop"]
        commands += [f"scancel {waiting_ids}"] if waiting_ids else []
        commands += [f"scancel --batch --signal=USR1 {running_ids}"] if running_ids else []
        handle.host.run("\n".join(commands))
        deadline = time.monotonic() + _GRACE
        while (job_state := self._look(handle)).alive:
            alive_ids = joined([job.job_id for job in job_state.alive])
            if time.monotonic() > deadline or not job_state.going:
                handle.host.run(f"scancel {alive_ids}")
            time.sleep(_pause(handle))
        # A shard that never started has recorded no exit code.
        if handle.only_shard is not None:
            note = f"[ -e .nel_exit ] || echo {EXIT_INTERRUPTED} >.nel_exit"
        else:
            note = ":"
        handle.host.run(f"cd {folder}; rm -f {SECRETS}; {note}")

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
            follow: Go on until the run ends.

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
        print(dumps(life).decode() if quiet else f"Run {run.run_id}: {life.state}", flush=True)
        code = life.facts.get("exit_code")
        if isinstance(code, int):
            return code
        return EXIT_FAILED

    def _look(self, handle: SlurmHandle) -> JobState:
        job_state = look(handle.host, handle.remote_dir, handle.job_ids, shards=handle.num_shards)
        if handle.only_shard is not None:
            # The first job of a shard may have the id of the whole array.
            job_state.jobs = [
                job for job in job_state.jobs if job.index in ("", str(handle.only_shard))
            ]
        return job_state

    def _earlier(self, job: Job) -> RunMeta | None:
        """Return the last run in the folder.

        Raises:
            UsageError: If it is waiting or running: a waiting job holds no lock yet.
        """
        listed_runs = (run for run in list_runs() if run.output_dir == job.run.output_dir)
        earlier = load_run(job.folder) or next(listed_runs, None)
        if earlier is None or earlier.executor != job.run.executor:
            return None
        only_shard = job.request.only_shard
        life = self.life(earlier if only_shard is None else self.shard(earlier, only_shard))
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
        handle = earlier.handle(SlurmHandle)
        if handle is not None:
            exits = self._look(handle).exits
        else:
            exits = {}
        unfinished = [
            number for number in range(total) if exits.get(f"shard_{number}") not in _RESULTS
        ]
        return unfinished or [total - 1]


def _pause(handle: SlurmHandle) -> float:
    return _LOOK_REMOTE if handle.hostname else _LOOK


def _alive(seen: JobState, handle: SlurmHandle) -> Life | None:
    """Return the state of the running or else the waiting jobs; None if there are none.

    If the scheduler does not answer, a run that has not recorded its end is "unknown".
    """
    if seen.going:
        job_texts = [f"job {job.job_id} on {job.nodes or '?'}, {job.elapsed}" for job in seen.going]
        # Results on a remote host cannot be counted, so the last progress line is shown.
        job_texts += seen.last[-1:] if handle.hostname else []
        return _life("running" if seen.locked else "starting", seen, job_texts)
    if seen.waiting:
        return _life(
            "pending",
            seen,
            [f"job {job.job_id} pending: {job.reason or '?'}" for job in seen.waiting],
        )
    if seen.silent and not seen.settled:
        return Life("unknown", "the scheduler does not answer", {})
    return None


def _life(state: State, seen: JobState, shown: list[str]) -> Life:
    """Build a Life from up to three job descriptions, with the number of finished shards."""
    jobs = [asdict(job) for job in seen.alive]
    if seen.shards:
        progress = [f"{len(seen.exits)} of {seen.shards} shards done"]
    else:
        progress = []
    if len(shown) > 3:
        omitted = [f"... {len(shown) - 3} more"]
    else:
        omitted = []
    return Life(state, "; ".join([*shown[:3], *omitted, *progress]), {"jobs": jobs})


def _over(seen: JobState, noted: Life) -> Life:
    """Return how a run ended: by its own record, else by those of its shards, else by the scheduler."""
    if "exit_code" in noted.facts:
        return noted
    if seen.shards:
        code = seen.merged
    else:
        code = seen.exits.get("")
    if code is not None:
        # Codes over 128 mean that a signal ended the process.
        state = EXIT_STATES.get(code) or ("killed" if code > 128 else "failed")
        return Life(state, facts={"exit_code": code})
    if seen.stopped:
        return Life("stopped", facts={"exit_code": EXIT_INTERRUPTED})
    if seen.shards and seen.exits:
        failed_exits = {name: code for name, code in seen.exits.items() if code not in _RESULTS}
        message = "; ".join(f"{name} exited with {code}" for name, code in failed_exits.items())
        code = max(failed_exits.values(), default=EXIT_FAILED)
        return Life(
            "failed", message or "not merged yet", {"exit_code": code, "shards": seen.exits}
        )
    last_job = seen.jobs[-1] if seen.jobs else None
    last_job_state = f"job {last_job.job_id}: {last_job.state}" if last_job is not None else ""
    return Life(noted.state, last_job_state, noted.facts)
