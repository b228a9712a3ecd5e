"""The state of a run, read from its files: works while it runs and after."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.shapes import as_dict
from nemo_evaluator.core.terminal import one_line
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.executors.detach import running_pid
from nemo_evaluator.runs.bundle import newest_bundle
from nemo_evaluator.runs.find import task_folders
from nemo_evaluator.runs.folder import BenchmarkFolder
from nemo_evaluator.runs.unfinished import read_checkpoint
from nemo_evaluator.store.runs import RunMeta


def status_of(meta: RunMeta) -> JsonDict:
    """Everything that is known of a run."""
    root = Path(meta.output_dir)
    pid = running_pid(meta)
    tasks = [folder for folder in task_folders(root) if folder.parent == root]
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
    return {"name": folder.name, **asdict(BenchmarkFolder(folder).progress()), "status": _status(folder)}


def _status(folder: Path) -> str:
    try:
        bundle = newest_bundle(folder)
    except UsageError as error:
        return error.message
    return bundle.status if bundle else "not finished"
