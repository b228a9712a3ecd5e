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

    tell: ClassVar[Callable[[EvalSample], None]]

    async def on_sample_end(self, data: SampleEnd) -> None:
        SampleHooks.tell(data.sample)


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
        tasks = load_tasks([job["task"]], job["args"])
        if len(tasks) != 1:
            named = ", ".join(task.name for task in tasks) or "none"
            sys.exit(
                f"{job['task']} stands for {len(tasks)} tasks ({named}); name one: FILE.py@TASK"
            )
        task = tasks[0]
        # A sample without an id is called by its number, as Inspect does it.
        ids = [number if one.id is None else one.id for number, one in enumerate(task.dataset, 1)]
        if job["do"] == "list":
            told: list[dict[str, str]] = []
            for one in task.dataset:
                told.append({"input": _text(one.input), "target": _text(one.target)})
            samples = [{"id": name, **one} for name, one in zip(ids, told, strict=True)]
            _say(out, {"samples": samples, "epochs": task.epochs or 1})
        elif job["do"] == "metrics":
            _say(out, _metrics(task, ids, job["rows"]))
        else:
            asyncio.run(_run(task, ids, job, out=out))


async def _run(task: Task, ids: list[int | str], job: JsonDict, out: TextIO) -> None:
    place = {name: at for at, name in enumerate(ids)}
    os.environ["NEL_BASE_URL"] = job["url"]
    os.environ["NEL_API_KEY"] = job["key"]

    for repeat, wanted in sorted(job["repeats"].items()):
        known = {"repeat": int(repeat)}

        def tell(sample: EvalSample, known: JsonDict = known) -> None:
            _say(out, {"problem_idx": place[sample.id]} | known | _row(sample))

        SampleHooks.tell = tell
        await eval_async(
            task,
            model=f"openai-api/nel/{job['model']}",
            sample_id=[ids[at] for at in wanted],
            epochs=1,
            fail_on_error=False,
            log_dir=job["log_dir"],
            max_samples=job["max_samples"],
            max_connections=job["max_samples"],
            max_retries=_TRIES,
            **{_NAMES.get(name, name): value for name, value in job["generation"].items()},
        )


def _row(sample: EvalSample) -> JsonDict:
    usage = [one.model_dump() for one in (sample.model_usage or {}).values()]
    row: JsonDict = {
        "response": sample.output.completion if sample.output else "",
        "finish_reason": sample.output.stop_reason
        if sample.output and sample.output.choices
        else "",
        "latency_ms": (sample.total_time or 0.0) * 1000,
        "usage": {
            name: sum(one[name] for one in usage)
            for name in ("input_tokens", "output_tokens", "total_tokens")
        },
        "limit": sample.limit.type if sample.limit else None,
        "scores": {
            name: score.model_dump(mode="json") for name, score in (sample.scores or {}).items()
        },
    }
    if sample.error is not None:
        row |= {"error": sample.error.message, "raised": _RAISED.findall(sample.error.traceback)}
    if sample.scores:
        first = next(iter(sample.scores.values())).value
        while isinstance(first, (list, dict)) and first:
            if isinstance(first, dict):
                first = next(iter(first.values()))
            else:
                first = first[0]
        row["reward"] = value_to_float()(first)
        row["answer"] = next(iter(sample.scores.values())).answer
    return row


def _metrics(task: Task, ids: list[int | str], rows: list[JsonDict]) -> JsonDict:
    """The metrics of all scorers, by Inspect's own reducers and aggregation."""
    metadata = {name: one.metadata for name, one in zip(ids, task.dataset, strict=True)}
    scores: list[dict[Any, Any]] = []
    for row in rows:
        scores.append(
            {
                name: SampleScore(
                    score=Score(**score),
                    sample_id=row["id"],
                    sample_metadata=metadata.get(row["id"]),
                )
                for name, score in row["scores"].items()
            }
        )
    results, _ = eval_results(len(rows), scores, task.epochs_reducer, task.scorer, task.metrics)
    mapping: dict[str, Any] = {}
    for one in results.scores:
        for name, metric in one.metrics.items():
            mapping[f"{one.name}/{name}"] = metric.value
    return mapping


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "\n\n".join(one if isinstance(one, str) else one.text for one in value)


def _say(out: TextIO, value: JsonDict) -> None:
    out.write(json.dumps(value) + "\n")
    out.flush()


if __name__ == "__main__":
    main()
