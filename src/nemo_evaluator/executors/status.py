"""The state of a run, read from its files: works while it runs and after."""

from __future__ import annotations

from pathlib import Path

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.shapes import as_dict
from nemo_evaluator.core.terminal import one_line
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.executors.detach import running_pid
from nemo_evaluator.runs.bundle import newest_bundle
from nemo_evaluator.runs.unfinished import read_checkpoint
from nemo_evaluator.store.layout import TaskPaths
from nemo_evaluator.store.records import OUTCOME
from nemo_evaluator.store.runs import RunMeta
from nemo_evaluator.store.sealed import scan_records


def status_of(meta: RunMeta) -> JsonDict:
    """Everything that is known of a run."""
    root = Path(meta.output_dir)
    pid = running_pid(meta)
    tasks = sorted(path.parent for path in root.glob("*/journal.jsonl"))
    return {
        "run_id": meta.run_id,
        "executor": meta.executor,
        "running": pid is not None,
        "pid": pid,
        "started_at": meta.started_at,
        "output_dir": meta.output_dir,
        "benchmarks": [_task(task) for task in tasks],
        "failed": as_dict(read_checkpoint(root).get("failed_benchmarks")),
    }


def describe_status(state: JsonDict) -> str:
    """The state for people."""
    running = f"yes, pid {state['pid']}" if state["running"] else "no"
    lines = [
        f"Run:      {state['run_id']}",
        f"Executor: {state['executor']}",
        f"Running:  {running}",
        f"Output:   {state['output_dir']}",
    ]
    for task in state["benchmarks"]:
        mean = f", mean reward {task['mean_reward']:.3f}" if task["mean_reward"] is not None else ""
        failed = f", {task['failed']} failed" if task["failed"] else ""
        lines.append(f"  {task['name']}: {task['scored']} scored{failed}{mean} [{task['status']}]")
    errors = {name: one_line(str(as_dict(entry).get("error"))) for name, entry in state["failed"].items()}
    lines += [f"  {name}: FAILED: {error}" for name, error in errors.items()]
    return "\n".join(lines)


def _task(folder: Path) -> JsonDict:
    rewards: dict[tuple[int, int], float | None] = {}
    for _, record in scan_records(TaskPaths(folder).journal):
        if record.get("kind") == OUTCOME:
            rewards[record["problem_idx"], record["repeat"]] = record.get("reward")
    scored = [reward for reward in rewards.values() if reward is not None]
    return {
        "name": folder.name,
        "scored": len(scored),
        "failed": len(rewards) - len(scored),
        "mean_reward": sum(scored) / len(scored) if scored else None,
        "status": _status(folder),
    }


def _status(folder: Path) -> str:
    try:
        bundle = newest_bundle(folder)
    except UsageError as error:
        return error.message
    return bundle.status if bundle else "not finished"
