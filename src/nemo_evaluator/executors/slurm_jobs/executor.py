"""``slurm``: the run happens in jobs of a cluster; what is known of it comes from the scheduler and from its folder."""

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

# Seconds between two looks at the scheduler while a run is followed or stopped; following, they become fewer.
_LOOK: Final = 1.0
_LOOK_REMOTE: Final = 5.0
_LOOK_LATER = 10.0
_SLOWER = 1.1
_GRACE: Final = 60.0
# Exit codes of a shard that can be merged.
_RESULTS: Final = (0, 3, 4)


class LogReader:
    """Reads the lines that the logs of a run have gained since the last time."""

    def __init__(self, host: Host, folder: str, shards: int) -> None:
        self._host = host
        self._folder = folder
        self._names = [*(f"shard_{number}/{LOG}" for number in range(shards)), LOG]
        self._read: dict[str, int] = {}
        self._partial: dict[str, str] = {}

    @property
    def found(self) -> bool:
        """Whether there was anything to read."""
        return bool(self._read)

    def lines(self, *, tail: int | None = None, last: bool = False) -> Iterator[str]:
        """New lines, or the last ``tail`` of each file. An unfinished one is kept back until there is no more."""
        job_logs = [size for name, size in self._read.items() if name not in self._names]
        arguments = [
            self._folder,
            "" if tail is None else str(tail),
            str(max(job_logs, default=0) + 1),
        ]
        for name in self._names:
            arguments += [name, str(self._read.get(name, 0) + 1)]
        parts = self._host.run(script("read_log.sh", *arguments)).split("\0")[1:]
        for name, size, new_text in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
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
        """Submit; with ``--background`` or ``--submit`` that is all, else follow the log until the run ends."""
        plan = plan_job(job)
        earlier = self._earlier(job)
        shards = None
        if earlier and job.request.resume and plan.shards:
            shards = self._shards_left(job, earlier, plan.shards)
        # Jobs of other shards may be running: they stay part of the run.
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
        # Noted before anything is submitted: `nel eval status` finds the jobs even if this process is killed.
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
        """The plan for people and for programs; nothing is written or submitted."""
        return describe(job, plan_job(job))

    def life(self, run: RunMeta) -> Life | None:
        """The jobs that wait or run."""
        handle = run.handle(SlurmHandle)
        if handle is not None:
            return _alive(self._look(handle), handle)
        return None

    def status(self, run: RunMeta) -> Life:
        """Where the run lives, or how it ended: by its own word, else by the scheduler's."""
        run = refreshed(run)
        handle = run.handle(SlurmHandle)
        if handle is None:
            return ended(run)
        seen = self._look(handle)
        return _alive(seen, handle) or _over(seen, ended(run))

    def stop(self, run: RunMeta) -> None:
        """Cancel what waits, ask what runs to close, and cancel it when it does not."""
        handle = refreshed(run).handle(SlurmHandle)
        if handle is not None:
            seen = self._look(handle)
        else:
            seen = JobState()
        if handle is None or not seen.alive:
            raise not_running(run)
        folder = quoted(handle.remote_dir)
        going = joined([job.job_id for job in seen.going])
        waiting = joined([job.job_id for job in seen.waiting])
        # A job that begins just now sees the mark, or is seen by the next look.
        commands = [f"mkdir -p {folder} && touch {folder}/.nel_stop"]
        commands += [f"scancel {waiting}"] if waiting else []
        commands += [f"scancel --batch --signal=USR1 {going}"] if going else []
        handle.host.run("\n".join(commands))
        until = time.monotonic() + _GRACE
        while (seen := self._look(handle)).alive:
            left = joined([job.job_id for job in seen.alive])
            if time.monotonic() > until or not seen.going:
                handle.host.run(f"scancel {left}")
            time.sleep(_pause(handle))
        # A shard that never began has noted no end of its own.
        if handle.only_shard is not None:
            note = f"[ -e .nel_exit ] || echo {EXIT_INTERRUPTED} >.nel_exit"
        else:
            note = ":"
        handle.host.run(f"cd {folder}; rm -f {SECRETS}; {note}")

    def shard(self, run: RunMeta, index: int) -> RunMeta:
        """One shard as a run: its folder, its job of the array, and those that follow it."""
        handle = refreshed(run).handle(SlurmHandle)
        if handle is None or not 0 <= index < handle.num_shards:
            return super().shard(run, index)
        folder = f"{handle.remote_dir}/shard_{index}"
        ids = [f"{one}_{index}" for one in handle.job_ids]
        own = replace(
            handle, job_ids=ids, remote_dir=folder, is_sharded=False, num_shards=0, only_shard=index
        )
        return replace(run, output_dir=f"{run.output_dir}/shard_{index}").noting(own)

    def logs(self, run: RunMeta, *, tail: int | None = None, follow: bool = False) -> Iterator[str]:
        """The run's log; of a run that has none yet, what its job said. Over ssh it is read where it is."""
        handle = refreshed(run).handle(SlurmHandle)
        if handle is None:
            yield from super().logs(run, tail=tail, follow=follow)
            return
        reader = LogReader(handle.host, handle.remote_dir, handle.num_shards)
        pause = _pause(handle)
        while True:
            over = not follow or _alive(self._look(handle), handle) is None
            # What it wrote before it ended is read after that was seen.
            yield from reader.lines(tail=tail, last=over)
            if over:
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
        """Take the run off the list; where nothing of it lives, its secrets are not left behind either."""
        handle = refreshed(run).handle(SlurmHandle)
        if handle is not None:
            handle.host.run(f"rm -f {quoted(handle.remote_dir)}/{SECRETS}")
        super().clean(run)

    def _follow(self, run: RunMeta, *, quiet: bool) -> int:
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
        seen = look(handle.host, handle.remote_dir, handle.job_ids, shards=handle.num_shards)
        if handle.only_shard is not None:
            # The first job of a shard may bear the number of the whole array.
            seen.jobs = [one for one in seen.jobs if one.index in ("", str(handle.only_shard))]
        return seen

    def _earlier(self, job: Job) -> RunMeta | None:
        """The last run in the folder. Raises UsageError while it lives: a job that waits holds no lock yet."""
        listed = (one for one in list_runs() if one.output_dir == job.run.output_dir)
        earlier = load_run(job.folder) or next(listed, None)
        if earlier is None or earlier.executor != job.run.executor:
            return None
        only = job.request.only_shard
        life = self.life(earlier if only is None else self.shard(earlier, only))
        if life is not None:
            hint = f"wait for it, or stop it first: nel eval stop {earlier.run_id}"
            raise UsageError(
                f"run {earlier.run_id} is {life.state} in {job.folder}: {life.where}", hint=hint
            )
        return earlier

    def _shards_left(self, job: Job, earlier: RunMeta, total: int) -> list[int]:
        """The shards without a result, or the one asked for; the last one when only the merge is missing."""
        if job.request.only_shard is not None:
            return [job.request.only_shard]
        handle = earlier.handle(SlurmHandle)
        if handle is not None:
            exits = self._look(handle).exits
        else:
            exits = {}
        left = [number for number in range(total) if exits.get(f"shard_{number}") not in _RESULTS]
        return left or [total - 1]


def _pause(handle: SlurmHandle) -> float:
    return _LOOK_REMOTE if handle.hostname else _LOOK


def _alive(seen: JobState, handle: SlurmHandle) -> Life | None:
    """Jobs that run, else jobs that wait; a silent scheduler is believed to run what is not known to have ended."""
    if seen.going:
        shown = [f"job {one.job_id} on {one.nodes or '?'}, {one.elapsed}" for one in seen.going]
        # The rows are not here to be counted.
        shown += seen.last[-1:] if handle.hostname else []
        return _life("running" if seen.locked else "starting", seen, shown)
    if seen.waiting:
        return _life(
            "pending",
            seen,
            [f"job {one.job_id} pending: {one.reason or '?'}" for one in seen.waiting],
        )
    if seen.silent and not seen.settled:
        return Life("unknown", "the scheduler does not answer", {})
    return None


def _life(state: State, seen: JobState, shown: list[str]) -> Life:
    jobs = [asdict(one) for one in seen.alive]
    if seen.shards:
        done = [f"{len(seen.exits)} of {seen.shards} shards done"]
    else:
        done = []
    if len(shown) > 3:
        more = [f"... {len(shown) - 3} more"]
    else:
        more = []
    return Life(state, "; ".join([*shown[:3], *more, *done]), {"jobs": jobs})


def _over(seen: JobState, noted: Life) -> Life:
    """How a run ended: as it noted itself, else as its shards or the scheduler say."""
    if "exit_code" in noted.facts:
        return noted
    if seen.shards:
        code = seen.merged
    else:
        code = seen.exits.get("")
    if code is not None:
        # Over 128 it was a signal that nobody had time to note.
        state = EXIT_STATES.get(code) or ("killed" if code > 128 else "failed")
        return Life(state, facts={"exit_code": code})
    if seen.stopped:
        return Life("stopped", facts={"exit_code": EXIT_INTERRUPTED})
    if seen.shards and seen.exits:
        bad = {name: code for name, code in seen.exits.items() if code not in _RESULTS}
        told = "; ".join(f"{name} exited with {code}" for name, code in bad.items())
        code = max(bad.values(), default=EXIT_FAILED)
        return Life("failed", told or "not merged yet", {"exit_code": code, "shards": seen.exits})
    last = seen.jobs[-1] if seen.jobs else None
    where = f"job {last.job_id}: {last.state}" if last is not None else ""
    return Life(noted.state, where, noted.facts)
