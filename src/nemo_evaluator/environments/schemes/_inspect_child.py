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
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, Final, TextIO

from inspect_ai import Task, eval_async
from inspect_ai._eval.loader import load_tasks
from inspect_ai._eval.task.results import eval_results
from inspect_ai.hooks import Hooks, SampleEnd, hooks
from inspect_ai.log import EvalSample
from inspect_ai.scorer import SampleScore, Score, value_to_float
from platformdirs import user_cache_path

from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.datasets import configure
from nemo_evaluator.datasets.mirrored_hub import mirrored_hub

# Our words for generation where Inspect has others.
_NAMES: Final = {"stop": "stop_seqs"}
# The errors in a traceback, package and text, each cause before what it led to.
_RAISED: Final = re.compile(r"^(\w+)\.([\w.]+(?::.*|$))", re.MULTILINE)
# Tries of one call: the proxy behind it has tried again already.
_TRIES: Final = 2


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
        task = _task(job)
        ids = _sample_ids(task)
        if job["do"] == "list":
            _write(out, {"samples": _listing(task, ids), "epochs": task.epochs or 1})
        elif job["do"] == "metrics":
            _write(out, _metrics(task, ids, job["rows"]))
        else:
            asyncio.run(_run(task, ids, job, out=out))


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


async def _run(task: Task, ids: list[int | str], job: JsonDict, out: TextIO) -> None:
    """Run the samples of each repeat, and write a row for each when it finishes."""
    problem_of = {sample_id: problem for problem, sample_id in enumerate(ids)}
    os.environ["NEL_BASE_URL"] = job["url"]
    os.environ["NEL_API_KEY"] = job["key"]
    generation = {_NAMES.get(name, name): value for name, value in job["generation"].items()}

    for repeat, problems in sorted(job["repeats"].items()):

        def pass_on(sample: EvalSample, repeat: int = int(repeat)) -> None:
            step = {"problem_idx": problem_of[sample.id], "repeat": repeat}
            _write(out, step | _row(sample))

        SampleHooks.pass_on = pass_on
        await eval_async(
            task,
            model=f"openai-api/nel/{job['model']}",
            sample_id=[ids[problem] for problem in problems],
            epochs=1,
            fail_on_error=False,
            log_dir=job["log_dir"],
            max_samples=job["max_samples"],
            max_connections=job["max_samples"],
            max_retries=_TRIES,
            **generation,
        )


def _row(sample: EvalSample) -> JsonDict:
    """The row of a finished sample."""
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
        "usage": _usage(sample),
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


def _usage(sample: EvalSample) -> dict[str, int]:
    """The tokens of all models together."""
    totals = {"input_tokens": 0, "output_tokens": 0, "total_tokens": 0}
    for usage in (sample.model_usage or {}).values():
        totals["input_tokens"] += usage.input_tokens
        totals["output_tokens"] += usage.output_tokens
        totals["total_tokens"] += usage.total_tokens
    return totals


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
    scores: list[dict[Any, Any]] = []
    for row in rows:
        sample_scores: dict[Any, Any] = {}
        for name, score in row["scores"].items():
            sample_scores[name] = SampleScore(
                score=Score(**score),
                sample_id=row["id"],
                sample_metadata=metadata_of.get(row["id"]),
            )
        scores.append(sample_scores)
    results, _ = eval_results(len(rows), scores, task.epochs_reducer, task.scorer, task.metrics)
    metrics: JsonDict = {}
    for result in results.scores:
        for name, metric in result.metrics.items():
            metrics[f"{result.name}/{name}"] = metric.value
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
