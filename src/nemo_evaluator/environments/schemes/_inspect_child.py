"""The child process of ``inspect://``: reads one job as JSON on stdin, writes JSON lines on stdout.

A process of its own, because Inspect sets up logging, signals and a display for the whole process. ``list`` gives the
samples of a task, ``run`` its samples as they are finished, ``metrics`` the task's metrics over scores of samples.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, Final, TextIO, TypeAlias

from inspect_ai import Epochs, Task, eval_async
from inspect_ai._eval.loader import load_tasks
from inspect_ai._eval.task.results import eval_results
from inspect_ai._util.error import PrerequisiteError
from inspect_ai.hooks import Hooks, SampleEnd, hooks
from inspect_ai.log import EvalSample
from inspect_ai.model import Model, ModelUsage
from inspect_ai.scorer import SampleScore, Score, value_to_float
from inspect_ai.scorer._reducer import validate_reducer
from platformdirs import user_cache_path

from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.datasets import configure
from nemo_evaluator.datasets.mirrored_hub import mirrored_hub
from nemo_evaluator.environments.schemes._inspect_roles import (
    generation_of,
    models_of,
    roles_in,
    use_placeholder,
)

# The errors in a traceback, package and text, each cause before what it led to.
_RAISED: Final = re.compile(r"^(\w+)\.([\w.]+(?::.*|$))", re.MULTILINE)
# Tries of one call: the proxy behind it has tried again already.
_TRIES: Final = 2

Players: TypeAlias = tuple[Model, dict[str, Model | list[Model]]]


@hooks(name="nel", description="Samples of a run of nel, as they are finished.")
class SampleHooks(Hooks):  # type: ignore[misc]
    """Passes every finished sample on."""

    pass_on: ClassVar[Callable[[EvalSample], None]]

    async def on_sample_end(self, data: SampleEnd) -> None:
        SampleHooks.pass_on(data.sample)


def main() -> None:
    """Do the job."""
    job: JsonDict = json.loads(sys.stdin.read())
    # Whatever Inspect or a task prints goes to the log.
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    if job["mirror"]:
        configure(mirror=Path(job["mirror"]))
    with TemporaryDirectory() as copies, mirrored_hub(), out:
        if job["mirror"]:
            # Inspect keeps copies of datasets under their names on the hub, which must not be those of a mirror.
            os.environ.setdefault("HF_HOME", str(user_cache_path("huggingface")))
            os.environ["XDG_CACHE_HOME"] = copies
        if job["do"] == "run":
            players = models_of(job)
            task = _task(job)
            asyncio.run(_run(task, players, job, out=out))
            return
        asked_roles = use_placeholder()
        task = _task(job)
        ids = _sample_ids(task)
        if job["do"] == "list":
            roles = roles_in(task) | asked_roles.names
            _write(out, _facts(task) | {"samples": _listing(task, ids), "roles": sorted(roles)})
        else:
            _write(out, _metrics(task, ids, job["rows"]))


def _task(job: JsonDict) -> Task:
    """Load the task of a job; exit if its name stands for none or several."""
    tasks = load_tasks([job["task"]], job["args"])
    if len(tasks) != 1:
        names = ", ".join(task.name for task in tasks) or "none"
        sys.exit(f"{job['task']} stands for {len(tasks)} tasks ({names}); name one: FILE.py@TASK")
    return tasks[0]


def _sample_ids(task: Task) -> list[int | str]:
    """The ids of the samples; one without an id is called by its number, as Inspect does it."""
    ids: list[int | str] = []
    for number, sample in enumerate(task.dataset, 1):
        ids.append(number if sample.id is None else sample.id)
    return ids


def _listing(task: Task, ids: list[int | str]) -> list[JsonDict]:
    """The id, the input and the target of each sample."""
    samples: list[JsonDict] = []
    for sample_id, sample in zip(ids, task.dataset, strict=True):
        samples.append(
            {"id": sample_id, "input": _text(sample.input), "target": _text(sample.target)}
        )
    return samples


def _facts(task: Task) -> JsonDict:
    """The epochs of a task, and the fewest that its reducers can work with."""
    epochs = task.epochs or 1
    least = 1
    while least < epochs and not _can_reduce(task, least):
        least += 1
    return {"epochs": epochs, "least_epochs": least}


def _can_reduce(task: Task, epochs: int) -> bool:
    """Whether the reducers of a task accept a number of epochs."""
    try:
        for reducer in task.epochs_reducer or []:
            validate_reducer(epochs, reducer)
    except PrerequisiteError:
        return False
    return True


async def _run(task: Task, players: Players, job: JsonDict, out: TextIO) -> None:
    """Run the samples, and write a row for each epoch of each when it finishes."""
    ids = _sample_ids(task)
    problem_of = {sample_id: problem for problem, sample_id in enumerate(ids)}
    model, roles = players

    for problems, epochs, first_repeat in _rounds(job["repeats"]):

        def pass_on(sample: EvalSample, first_repeat: int = first_repeat) -> None:
            repeat = first_repeat + sample.epoch - 1
            step = {"problem_idx": problem_of[sample.id], "repeat": repeat}
            _write(out, step | _row(sample, str(model)))

        SampleHooks.pass_on = pass_on
        await eval_async(
            task,
            model=model,
            model_roles=roles,
            sample_id=[ids[problem] for problem in problems],
            # The reducers of the task work on the samples of all sessions, in `_metrics`.
            epochs=Epochs(epochs, "mean"),
            fail_on_error=False,
            log_dir=job["log_dir"],
            max_samples=job["max_samples"],
            max_connections=job["max_samples"],
            max_retries=_TRIES,
            **generation_of(job["generation"]),
        )


def _rounds(problems_by_repeat: dict[str, list[int]]) -> Iterator[tuple[list[int], int, int]]:
    """Yield the problems of each run of Inspect, their epochs, and the repeat of the first epoch.

    Problems that lack all their repeats run in one round; other steps, of a resumed run, in one round for each repeat.
    """
    repeats_by_problem: dict[int, list[int]] = {}
    for repeat_text, unfinished in problems_by_repeat.items():
        for problem in unfinished:
            repeats_by_problem.setdefault(problem, []).append(int(repeat_text))
    problems_by_epochs: dict[int, list[int]] = {}
    single_problems: dict[int, list[int]] = {}
    for problem, repeats in repeats_by_problem.items():
        if sorted(repeats) == list(range(len(repeats))):
            problems_by_epochs.setdefault(len(repeats), []).append(problem)
            continue
        for repeat in repeats:
            single_problems.setdefault(repeat, []).append(problem)
    for epochs, problems in problems_by_epochs.items():
        yield problems, epochs, 0
    for repeat, problems in sorted(single_problems.items()):
        yield problems, 1, repeat


def _row(sample: EvalSample, model: str) -> JsonDict:
    """The row of a finished sample of a model."""
    output = sample.output
    response = ""
    finish_reason = ""
    if output:
        response = output.completion
        # The stop reason is that of the first choice.
        if output.choices:
            finish_reason = output.stop_reason
    limit: str | None = None
    if sample.limit:
        limit = sample.limit.type
    scores = sample.scores or {}
    row: JsonDict = {
        "response": response,
        "finish_reason": finish_reason,
        "latency_ms": (sample.total_time or 0.0) * 1000,
        "usage": _usage(sample, model),
        "role_tokens": _role_tokens(sample),
        "limit": limit,
        "scores": {name: score.model_dump(mode="json") for name, score in scores.items()},
    }
    if sample.error is not None:
        row["error"] = sample.error.message
        row["raised"] = _RAISED.findall(sample.error.traceback)
    if scores:
        first_score = next(iter(scores.values()))
        row["reward"] = value_to_float()(_first_value(first_score.value))
        row["answer"] = first_score.answer
    return row


def _usage(sample: EvalSample, model: str) -> dict[str, int]:
    """The tokens of the model under test; graders and simulated users are other models."""
    usage = (sample.model_usage or {}).get(model) or ModelUsage()
    return {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "total_tokens": usage.total_tokens,
    }


def _role_tokens(sample: EvalSample) -> dict[str, int]:
    """The tokens of each role."""
    usages = sample.role_usage or {}
    return {role: usage.total_tokens for role, usage in usages.items()}


def _first_value(value: Any) -> Any:
    """The first value of a score that is a list or a dictionary, however deep."""
    while isinstance(value, (list, dict)) and value:
        value = next(iter(value.values())) if isinstance(value, dict) else value[0]
    return value


def _metrics(task: Task, ids: list[int | str], rows: list[JsonDict]) -> JsonDict:
    """The metrics of all scorers, by Inspect's own reducers and aggregation."""
    metadata_of = {
        sample_id: sample.metadata for sample_id, sample in zip(ids, task.dataset, strict=True)
    }
    positions = {sample_id: position for position, sample_id in enumerate(ids)}
    scores: list[dict[Any, Any]] = []
    for row in sorted(rows, key=lambda row: positions[row["id"]]):
        sample_scores: dict[Any, Any] = {}
        for name, score in row["scores"].items():
            sample_scores[name] = SampleScore(
                score=Score(**score),
                sample_id=row["id"],
                sample_metadata=metadata_of.get(row["id"]),
            )
        scores.append(sample_scores)
    results, _ = eval_results(len(rows), scores, task.epochs_reducer, task.scorer, task.metrics)
    reducers = {result.reducer for result in results.scores}
    metrics: JsonDict = {}
    for result in results.scores:
        scorer_name = result.name
        if len(reducers) > 1 and result.reducer:
            scorer_name = f"{result.name}/{result.reducer}"
        for name, metric in result.metrics.items():
            metrics[f"{scorer_name}/{name}"] = metric.value
    return metrics


def _text(value: Any) -> str:
    """The text of an input or a target: a string, or a list of messages or strings."""
    if isinstance(value, str):
        return value
    texts: list[str] = []
    for part in value:
        texts.append(part if isinstance(part, str) else part.text)
    return "\n\n".join(texts)


def _write(out: TextIO, value: JsonDict) -> None:
    out.write(json.dumps(value) + "\n")
    out.flush()


if __name__ == "__main__":
    main()
