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
    """How far one benchmark is. ``rate`` is in steps a second since it was last started."""

    name: str
    status: str
    total: int | None = None
    scored: int = 0
    failed: int = 0
    mean_reward: float | None = None
    rate: float | None = None
    eta_seconds: float | None = None
    cost_usd: float | None = None
    # Why the status is what it is; per cause of failure how many and one example.
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
    shards = sorted(
        root.glob("shard_*"),
        key=lambda path: int(path.name[6:]) if path.name[6:].isdecimal() else 0,
    )
    # Until they are merged, the shards are what there is.
    if not shards or any(folder.parent == root for folder in task_folders(root)):
        parts = [root]
    else:
        parts = shards
    failed: JsonDict = {}
    benchmarks: list[BenchmarkStatus] = []
    for part in parts:
        checkpoint = read_checkpoint(part)
        prefix = "" if part == root else f"{part.name}/"
        for key, entry in as_dict(checkpoint.get("failed_benchmarks")).items():
            failed[prefix + key] = entry
        planned = as_list(checkpoint.get("planned_benchmarks")) or as_list(
            run.details.get("benchmarks")
        )
        found = _read_part(part, checkpoint, map(str, planned), running=life.alive)
        benchmarks += [replace(one, name=prefix + one.name) for one in found]
    facts = life.state, life.alive, life.where, life.facts.get("pid"), life.facts.get("exit_code")
    return RunOverview(
        run.run_id, run.executor, *facts, run.started_at, run.output_dir, benchmarks, failed
    )


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
    for one in (*status.benchmarks, *_together(status.benchmarks)):
        lines += [f"  {_describe_benchmark(one)}", *(f"    {why}" for why in one.reasons)]
    errors: dict[str, str] = {}
    for name, entry in status.failed.items():
        errors[name] = one_line(str(as_dict(entry).get("error")))
    lines += [f"  {name}: INVALID: {error}" for name, error in errors.items()]
    if status.state == "not started":
        lines.append(f"To see why: nel eval logs {status.run_id}")
    elif status.state in ("failed", "stopped", "killed"):
        lines.append(f"To continue (finished answers are reused): nel eval resume {status.run_id}")
    return folded("\n".join(lines), terminal_width())


def _together(parts: list[BenchmarkStatus]) -> Iterator[BenchmarkStatus]:
    """Benchmarks whose shards are listed one by one, as a whole."""
    names = dict.fromkeys(one.name.partition("/")[2] for one in parts)
    for name in filter(None, names):
        shards = [one for one in parts if one.name.partition("/")[2] == name]
        scored = sum(one.scored for one in shards)
        failed = sum(one.failed for one in shards)
        if all(one.total is not None for one in shards):
            total: int | None = sum(one.total or 0 for one in shards)
        else:
            total = None
        rewards = [(one.mean_reward, one.scored) for one in shards if one.mean_reward is not None]
        n = sum(n for _, n in rewards)
        if n:
            mean: float | None = sum(reward * n for reward, n in rewards) / n
        else:
            mean = None
        rate = sum(one.rate or 0.0 for one in shards) or None
        # Shards that have not begun have no time of their own yet.
        left = max((one.eta_seconds for one in shards if one.eta_seconds is not None), default=None)
        cost = sum(one.cost_usd or 0.0 for one in shards) or None
        yield BenchmarkStatus(
            name,
            f"{len(shards)} shards",
            total,
            scored=scored,
            failed=failed,
            mean_reward=mean,
            rate=rate,
            eta_seconds=left,
            cost_usd=cost,
        )


def _failures(folder: Path) -> list[str]:
    """Per cause how many, one example, and where the rest is; from the index, so while the run goes on, too."""
    with BenchmarkFolder(folder).reading() as (columns, reader):
        lines: list[str] = []
        for cause, (count, first) in columns.causes().items():
            lines.append(
                f"{count:,} failed with {cause}, such as: {one_line(reader.row(first).error, 200)}"
            )
    task = TaskPaths(folder)
    return [
        *lines,
        f"all failed rows: {task.results if task.results.is_file() else task.journal} (status: failed)",
    ]


def _describe_benchmark(one: BenchmarkStatus) -> str:
    if one.total is not None:
        parts = [f"{one.scored + one.failed}/{one.total} done"]
    else:
        parts = [f"{one.scored} scored"]
    parts += [f"{one.failed} failed"] if one.failed else []
    if one.mean_reward is not None:
        parts += [f"mean reward {one.mean_reward:.3f}"]
    parts += [f"{one.rate:.1f} steps/s"] if one.rate is not None else []
    if one.eta_seconds is not None:
        parts += [f"ETA {clock(one.eta_seconds)}"]
    parts += [f"${one.cost_usd:.4f}"] if one.cost_usd else []
    return f"{one.name}: {', '.join(parts)} [{one.status}]"


def benchmark_status(folder: Path, session: JsonDict, *, running: bool) -> BenchmarkStatus:
    """The numbers of one benchmark; ``session`` is what was noted when it was last started."""
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
    going = running and bundle is None
    task = TaskPaths(folder)
    journal = task.journal
    rate = None
    if began is not None and journal.is_file():
        elapsed = (time.time() if going else journal.stat().st_mtime) - began
        if elapsed > 0:
            rate = max(0, rows - (as_count(session.get("done")) or 0)) / elapsed
        else:
            rate = None
    if going and rate and total is not None:
        left: float | None = (total - rows) / rate
    else:
        left = None
    reasons = (*(bundle.reasons if bundle else ()), *(_failures(folder) if done.failed else ()))
    reasons += tuple(open_batches(task.batches))
    numbers = total, done.scored, done.failed, done.mean_reward, rate, left, done.cost_usd
    return BenchmarkStatus(folder.name, status, *numbers, reasons)
