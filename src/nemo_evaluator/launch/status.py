"""The status of a run: its state, from its executor, and its progress, from its folder."""

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
from nemo_evaluator.runs.bundle import Bundle, newest_bundle
from nemo_evaluator.runs.find import task_folders
from nemo_evaluator.runs.folder import BenchmarkFolder
from nemo_evaluator.runs.unfinished import read_checkpoint
from nemo_evaluator.store.layout import TaskPaths
from nemo_evaluator.store.run_registry import RunMeta


@dataclass(frozen=True, slots=True)
class BenchmarkStatus:
    """The progress of one benchmark.

    Attributes:
        name: Name of the benchmark, after its shard if it has one.
        status: State or verdict of the benchmark.
        total: Number of planned steps.
        scored: Number of scored steps.
        failed: Number of failed steps.
        mean_reward: Mean reward of the scored steps.
        rate: Steps per second since the last start.
        eta_seconds: Seconds left at this rate.
        cost_usd: Cost of the answers so far.
        reasons: Reasons for the status, and per cause of failure the count and an example.
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
    """The state of a run, and the progress of its benchmarks."""

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
    """Read the status of a run from its executor and its folder, during the run or after it."""
    run_state = status_of(run)
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
        for benchmark in _read_part(folder, checkpoint, map(str, planned), running=run_state.alive):
            benchmarks.append(replace(benchmark, name=prefix + benchmark.name))
    return RunOverview(
        run_id=run.run_id,
        executor=run.executor,
        state=run_state.state,
        running=run_state.alive,
        where=run_state.where,
        pid=run_state.facts.get("pid"),
        exit_code=run_state.facts.get("exit_code"),
        started_at=run.started_at,
        output_dir=run.output_dir,
        benchmarks=benchmarks,
        failed=failed,
    )


def _result_folders(root: Path) -> list[Path]:
    """Return the folders with the results of a run: its own, or those of its shards until they are merged."""
    shard_folders = sorted(root.glob("shard_*"), key=_shard_number)
    is_merged = any(folder.parent == root for folder in task_folders(root))
    # Before the merge, the results are in the shards only.
    if shard_folders and not is_merged:
        return shard_folders
    return [root]


def _shard_number(folder: Path) -> int:
    """Return the number of a shard's folder, for sorting."""
    number = folder.name.removeprefix("shard_")
    return int(number) if number.isdecimal() else 0


def _read_part(
    root: Path, checkpoint: JsonDict, planned: Iterable[str], running: bool
) -> Iterator[BenchmarkStatus]:
    """Yield the benchmarks of a run, or of one shard.

    They come in the order of the config, followed by benchmarks that the config no longer has.
    """
    failed = as_dict(checkpoint.get("failed_benchmarks"))
    session_of_folder: dict[str, JsonDict] = {}
    for key, session in as_dict(checkpoint.get("sessions")).items():
        session_of_folder[safe_name(key)] = as_dict(session)
    begun_folders = {folder.name: folder for folder in task_folders(root) if folder.parent == root}
    key_of_folder = {safe_name(key): key for key in planned}
    for name in dict.fromkeys([*key_of_folder, *begun_folders]):
        if name in begun_folders:
            session = session_of_folder.get(name, {})
            yield benchmark_status(begun_folders[name], session, running=running)
        elif key_of_folder[name] not in failed:
            yield BenchmarkStatus(name, "not started")


def describe(status: RunOverview) -> str:
    """Describe the status for people; if the run stopped early, say what to do."""
    state = str(status.state)
    if status.where:
        state += f" ({status.where})"
    running = "yes" if status.running else "no"
    lines = [
        f"Run:      {status.run_id}",
        f"Executor: {status.executor}",
        f"Running:  {running}",
        f"State:    {state}",
        f"Output:   {status.output_dir}",
    ]
    for benchmark in (*status.benchmarks, *_sharded_benchmarks(status.benchmarks)):
        lines.append(f"  {_describe_benchmark(benchmark)}")
        for reason in benchmark.reasons:
            lines.append(f"    {reason}")
    for name, entry in status.failed.items():
        error = one_line(str(as_dict(entry).get("error")))
        lines.append(f"  {name}: INVALID: {error}")
    if status.state == "not started":
        lines.append(f"To see why: nel eval logs {status.run_id}")
    elif status.state in ("failed", "stopped", "killed"):
        lines.append(f"To continue (finished answers are reused): nel eval resume {status.run_id}")
    return folded("\n".join(lines), terminal_width())


def _sharded_benchmarks(parts: list[BenchmarkStatus]) -> Iterator[BenchmarkStatus]:
    """Yield the totals of every benchmark that is listed by shard."""
    shards_by_name: dict[str, list[BenchmarkStatus]] = {}
    for part in parts:
        _, is_shard, name = part.name.partition("/")
        if is_shard:
            shards_by_name.setdefault(name, []).append(part)
    for name, shards in shards_by_name.items():
        yield _sum_of_shards(name, shards)


def _sum_of_shards(name: str, shards: list[BenchmarkStatus]) -> BenchmarkStatus:
    """Return the progress of a benchmark over all of its shards."""
    total: int | None = 0
    scored = 0
    failed = 0
    rate = 0.0
    cost_usd = 0.0
    # Shards that have not started have no estimate yet.
    times_left: list[float] = []
    for shard in shards:
        scored += shard.scored
        failed += shard.failed
        rate += shard.rate or 0.0
        cost_usd += shard.cost_usd or 0.0
        if shard.eta_seconds is not None:
            times_left.append(shard.eta_seconds)
        if total is not None and shard.total is not None:
            total += shard.total
        else:
            total = None
    return BenchmarkStatus(
        name,
        f"{len(shards)} shards",
        total,
        scored=scored,
        failed=failed,
        mean_reward=_mean_reward(shards),
        rate=rate or None,
        eta_seconds=max(times_left, default=None),
        cost_usd=cost_usd or None,
    )


def _mean_reward(shards: list[BenchmarkStatus]) -> float | None:
    """Return the mean reward over the scored steps of all shards; None if there are none."""
    scored = 0
    reward_sum = 0.0
    for shard in shards:
        if shard.mean_reward is not None:
            scored += shard.scored
            reward_sum += shard.mean_reward * shard.scored
    return reward_sum / scored if scored else None


def _failure_lines(folder: Path) -> list[str]:
    """List the count and an example per cause of failure, and where to find all failed rows.

    The causes come from the index, which exists during the run, too.
    """
    with BenchmarkFolder(folder).reading() as (columns, reader):
        lines: list[str] = []
        for cause, (count, first) in columns.causes().items():
            example = one_line(reader.row(first).error, 200)
            lines.append(f"{count:,} failed with {cause}, such as: {example}")
    task = TaskPaths(folder)
    rows_file = task.results if task.results.is_file() else task.journal
    return [*lines, f"all failed rows: {rows_file} (status: failed)"]


def _missing_rows(bundle: Bundle, paths: TaskPaths, done_rows: int) -> list[str]:
    """Describe rows that the bundle counts and the counts here lack, because the file with them is damaged."""
    if done_rows >= bundle.n_results:
        return []
    damaged_file = paths.journal if paths.journal.is_file() else paths.results
    return [
        f"the counts are of {done_rows:,} of {bundle.n_results:,} rows: {damaged_file.name} is damaged; "
        "`nel check` says where"
    ]


def _describe_benchmark(benchmark: BenchmarkStatus) -> str:
    """Describe the progress of a benchmark on one line."""
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
    """Read the progress of one benchmark.

    Args:
        folder: Folder of the benchmark.
        session: What the checkpoint notes about its last start.
        running: Whether the run is alive.
    """
    progress = BenchmarkFolder(folder).progress()
    done_rows = progress.scored + progress.failed
    total = as_count(session.get("planned"))
    status = "running" if running else "not finished"
    try:
        bundle = newest_bundle(folder)
        if bundle is not None:
            status = bundle.status
    except UsageError as error:
        bundle = None
        status = error.message
    is_working = running and bundle is None
    paths = TaskPaths(folder)
    rate = _rate(paths.journal, session, done_rows, is_working=is_working)
    eta_seconds = None
    if is_working and rate and total is not None:
        eta_seconds = (total - done_rows) / rate
    reasons = list(bundle.reasons) if bundle is not None else []
    if bundle is not None and not running:
        reasons += _missing_rows(bundle, paths, done_rows)
    if progress.failed:
        reasons += _failure_lines(folder)
    reasons += open_batches(paths.batches)
    return BenchmarkStatus(
        folder.name,
        status,
        total,
        scored=progress.scored,
        failed=progress.failed,
        mean_reward=progress.mean_reward,
        rate=rate,
        eta_seconds=eta_seconds,
        cost_usd=progress.cost_usd,
        reasons=tuple(reasons),
    )


def _rate(journal: Path, session: JsonDict, done_rows: int, *, is_working: bool) -> float | None:
    """Return the steps per second since the last start; None when unknown.

    Args:
        journal: The journal of the benchmark, to which each step is written.
        session: What the checkpoint notes about the last start.
        done_rows: Number of finished steps.
        is_working: Whether the benchmark is running now.
    """
    started_at = as_number(session.get("at"))
    if started_at is None or not journal.is_file():
        return None
    last_work = time.time() if is_working else journal.stat().st_mtime
    if last_work <= started_at:
        return None
    rows_before = as_count(session.get("done")) or 0
    new_rows = max(0, done_rows - rows_before)
    return new_rows / (last_work - started_at)
