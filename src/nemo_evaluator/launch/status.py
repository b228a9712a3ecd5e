"""The status of a run: its life, which its executor knows, and its numbers, read from its folder."""

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.files import safe_name
from nemo_evaluator.core.json_coerce import as_count, as_dict, as_list, as_number
from nemo_evaluator.core.terminal import one_line, terminal_width
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.core.wording import folded
from nemo_evaluator.engine.progress import clock
from nemo_evaluator.executors.base import State, status_of
from nemo_evaluator.models.batch.ledger import open_batches
from nemo_evaluator.runs.bundle import newest_bundle
from nemo_evaluator.runs.find import task_folders
from nemo_evaluator.runs.folder import BenchmarkFolder
from nemo_evaluator.runs.unfinished import read_checkpoint
from nemo_evaluator.store.layout import TaskPaths
from nemo_evaluator.store.run_registry import RunMeta


@dataclass(frozen=True, slots=True)
class BenchmarkStatus:
    """How far one benchmark is.

    Attributes:
        name: The benchmark, after its shard if it has one.
        status: How it is, in a word.
        total: How many steps are planned.
        scored: Steps that were scored.
        failed: Steps that failed.
        mean_reward: The mean over the scored steps.
        rate: Steps a second since it was last started.
        eta_seconds: Seconds to its end at this rate.
        cost_usd: What its answers cost.
        reasons: Why the status is what it is; per cause of failure the count and one example.
    """

    name: str
    status: str
    total: int | None = None
    scored: int = 0
    failed: int = 0
    mean_reward: float | None = None
    rate: float | None = None
    eta_seconds: float | None = None
    cost_usd: float | None = None
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RunOverview:
    """Everything that is known of a run."""

    run_id: str
    executor: str
    state: State
    running: bool
    where: str
    pid: int | None
    exit_code: int | None
    started_at: str
    output_dir: str
    benchmarks: list[BenchmarkStatus]
    failed: JsonDict


def read_status(run: RunMeta) -> RunOverview:
    """The status of a run, while it runs and after."""
    life = status_of(run)
    root = Path(run.output_dir)
    failed: JsonDict = {}
    benchmarks: list[BenchmarkStatus] = []
    for folder in _result_folders(root):
        checkpoint = read_checkpoint(folder)
        prefix = "" if folder == root else f"{folder.name}/"
        for key, entry in as_dict(checkpoint.get("failed_benchmarks")).items():
            failed[prefix + key] = entry
        planned = as_list(checkpoint.get("planned_benchmarks"))
        if not planned:
            planned = as_list(run.details.get("benchmarks"))
        for benchmark in _read_part(folder, checkpoint, map(str, planned), running=life.alive):
            benchmarks.append(replace(benchmark, name=prefix + benchmark.name))
    return RunOverview(
        run_id=run.run_id,
        executor=run.executor,
        state=life.state,
        running=life.alive,
        where=life.where,
        pid=life.facts.get("pid"),
        exit_code=life.facts.get("exit_code"),
        started_at=run.started_at,
        output_dir=run.output_dir,
        benchmarks=benchmarks,
        failed=failed,
    )


def _result_folders(root: Path) -> list[Path]:
    """Where the results of a run are: in its folder, or before its shards are merged in theirs."""
    shard_folders = sorted(root.glob("shard_*"), key=_shard_number)
    is_merged = any(folder.parent == root for folder in task_folders(root))
    return shard_folders if shard_folders and not is_merged else [root]


def _shard_number(folder: Path) -> int:
    number = folder.name.removeprefix("shard_")
    return int(number) if number.isdecimal() else 0


def _read_part(
    root: Path, checkpoint: JsonDict, planned: Iterable[str], running: bool
) -> Iterator[BenchmarkStatus]:
    """The benchmarks of a run, or of one shard, in the order of its config; then those that are no longer in it."""
    failed = as_dict(checkpoint.get("failed_benchmarks"))
    sessions = as_dict(checkpoint.get("sessions"))
    by_folder = {safe_name(key): as_dict(session) for key, session in sessions.items()}
    begun = {folder.name: folder for folder in task_folders(root) if folder.parent == root}
    names = {safe_name(key): key for key in planned}
    for name in dict.fromkeys([*names, *begun]):
        if name in begun:
            yield benchmark_status(begun[name], by_folder.get(name, {}), running=running)
        elif names[name] not in failed:
            yield BenchmarkStatus(name, "not started")


def describe(status: RunOverview) -> str:
    """The status for people, with what to do when the run did not come to its end."""
    where = f" ({status.where})" if status.where else ""
    lines = [
        f"Run:      {status.run_id}",
        f"Executor: {status.executor}",
        f"Running:  {'yes' if status.running else 'no'}",
        f"State:    {status.state}{where}",
        f"Output:   {status.output_dir}",
    ]
    for benchmark in (*status.benchmarks, *_sharded_benchmarks(status.benchmarks)):
        lines.append(f"  {_describe_benchmark(benchmark)}")
        lines += [f"    {reason}" for reason in benchmark.reasons]
    for name, entry in status.failed.items():
        error = one_line(str(as_dict(entry).get("error")))
        lines.append(f"  {name}: INVALID: {error}")
    if status.state == "not started":
        lines.append(f"To see why: nel eval logs {status.run_id}")
    elif status.state in ("failed", "stopped", "killed"):
        lines.append(f"To continue (finished answers are reused): nel eval resume {status.run_id}")
    return folded("\n".join(lines), terminal_width())


def _sharded_benchmarks(parts: list[BenchmarkStatus]) -> Iterator[BenchmarkStatus]:
    """Benchmarks whose shards are listed one by one, as a whole."""
    shards_by_name: dict[str, list[BenchmarkStatus]] = {}
    for part in parts:
        _, is_shard, name = part.name.partition("/")
        if is_shard:
            shards_by_name.setdefault(name, []).append(part)
    for name, shards in shards_by_name.items():
        totals = [shard.total for shard in shards if shard.total is not None]
        # Shards that have not begun have no time of their own yet.
        times_left = [shard.eta_seconds for shard in shards if shard.eta_seconds is not None]
        yield BenchmarkStatus(
            name,
            f"{len(shards)} shards",
            sum(totals) if len(totals) == len(shards) else None,
            scored=sum(shard.scored for shard in shards),
            failed=sum(shard.failed for shard in shards),
            mean_reward=_mean_reward(shards),
            rate=sum(shard.rate or 0.0 for shard in shards) or None,
            eta_seconds=max(times_left, default=None),
            cost_usd=sum(shard.cost_usd or 0.0 for shard in shards) or None,
        )


def _mean_reward(shards: list[BenchmarkStatus]) -> float | None:
    """The mean over the scored steps of all shards; None when there are none."""
    scored = 0
    reward_sum = 0.0
    for shard in shards:
        if shard.mean_reward is not None:
            scored += shard.scored
            reward_sum += shard.mean_reward * shard.scored
    return reward_sum / scored if scored else None


def _failure_lines(folder: Path) -> list[str]:
    """Per cause the count and one example, and where the rest is; from the index, which a running run has, too."""
    with BenchmarkFolder(folder).reading() as (columns, reader):
        lines: list[str] = []
        for cause, (count, first) in columns.causes().items():
            example = one_line(reader.row(first).error, 200)
            lines.append(f"{count:,} failed with {cause}, such as: {example}")
    task = TaskPaths(folder)
    rows_file = task.results if task.results.is_file() else task.journal
    return [*lines, f"all failed rows: {rows_file} (status: failed)"]


def _describe_benchmark(benchmark: BenchmarkStatus) -> str:
    """One line for people."""
    if benchmark.total is not None:
        parts = [f"{benchmark.scored + benchmark.failed}/{benchmark.total} done"]
    else:
        parts = [f"{benchmark.scored} scored"]
    if benchmark.failed:
        parts.append(f"{benchmark.failed} failed")
    if benchmark.mean_reward is not None:
        parts.append(f"mean reward {benchmark.mean_reward:.3f}")
    if benchmark.rate is not None:
        parts.append(f"{benchmark.rate:.1f} steps/s")
    if benchmark.eta_seconds is not None:
        parts.append(f"ETA {clock(benchmark.eta_seconds)}")
    if benchmark.cost_usd:
        parts.append(f"${benchmark.cost_usd:.4f}")
    return f"{benchmark.name}: {', '.join(parts)} [{benchmark.status}]"


def benchmark_status(folder: Path, session: JsonDict, *, running: bool) -> BenchmarkStatus:
    """Read the numbers of one benchmark.

    Args:
        folder: Its folder.
        session: The checkpoint's note of its last start.
        running: Whether the run is alive.
    """
    done = BenchmarkFolder(folder).progress()
    rows = done.scored + done.failed
    total = as_count(session.get("planned"))
    began = as_number(session.get("at"))
    try:
        bundle = newest_bundle(folder)
        if bundle:
            status = bundle.status
        elif running:
            status = "running"
        else:
            status = "not finished"
    except UsageError as error:
        bundle = None
        status = error.message
    is_working = running and bundle is None
    task = TaskPaths(folder)
    rate = None
    if began is not None and task.journal.is_file():
        last_work = time.time() if is_working else task.journal.stat().st_mtime
        new_rows = max(0, rows - (as_count(session.get("done")) or 0))
        if last_work > began:
            rate = new_rows / (last_work - began)
    eta_seconds = None
    if is_working and rate and total is not None:
        eta_seconds = (total - rows) / rate
    reasons = list(bundle.reasons) if bundle is not None else []
    if done.failed:
        reasons += _failure_lines(folder)
    reasons += open_batches(task.batches)
    return BenchmarkStatus(
        folder.name,
        status,
        total,
        scored=done.scored,
        failed=done.failed,
        mean_reward=done.mean_reward,
        rate=rate,
        eta_seconds=eta_seconds,
        cost_usd=done.cost_usd,
        reasons=tuple(reasons),
    )
