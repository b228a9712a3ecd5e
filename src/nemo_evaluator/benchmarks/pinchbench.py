"""PinchBench: errands for an agent in a workspace, graded by code of their own, by a judge, or by both."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from nemo_evaluator.benchmarks._judged import equipped
from nemo_evaluator.benchmarks._pinchbench_tasks import REF, SOURCE, files_of, load
from nemo_evaluator.benchmarks._self_test import SelfTest
from nemo_evaluator.core.errors import JudgeError, SandboxError, ScorerError, SeedError
from nemo_evaluator.core.json_coerce import as_dict, as_number
from nemo_evaluator.core.types import JsonDict, Message, SandboxSpec, SeedResult
from nemo_evaluator.environments.custom import BenchmarkInfo, Independent, Published, benchmark
from nemo_evaluator.sandbox import Sandbox, workspace
from nemo_evaluator.sandbox.base import ExecResult
from nemo_evaluator.scoring import FENCE_NOTE, Canary, Score, ScorerInput, fenced, judge_reply

if TYPE_CHECKING:
    from nemo_evaluator.core.trajectory_document import TrajectoryDocument, TrajectoryStep

_JUDGE: Final = """\
You grade what an agent did about a task, by a rubric.

Task:
{task}

Expected of the agent:
{behavior}

What the agent said and did:
{transcript}

The files it left in its workspace:
{workspace}

{note}

Rubric:
{rubric}

Give each criterion of the rubric a score between 0 and 1, and their total as the rubric weighs them, also between 0
and 1. Judge what was done and left, not what was claimed.

Reply with one JSON object and nothing else: {{"scores": {{"criterion": 0.5}}, "total": 0.5}}"""
_CANARY: Final = Canary(
    SeedResult(
        prompt="Which are the three primary colours of painters?",
        expected_answer="",
        metadata={
            "expected_behavior": "The agent names red, yellow and blue. No file is asked for.",
            "rubric": "1.0: the answer names red, yellow and blue. 0.0: it names other colours, or none.",
            "grading_weights": None,
        },
    ),
    "The three primary colours of painters are red, yellow and blue.",
    "The three primary colours of painters are green, violet and orange.",
)
_WORKDIR: Final = "/workspace"
_SECONDS: Final = 120.0
_LONGEST: Final = 64_000
# Lists the workspace for the judge: up to 200 files, of each text file the first 3,000 bytes.
_LISTING: Final = r"""
find . -type f -not -path '*/.*' -not -path '*/node_modules/*' -not -path '*/__pycache__/*' -not -path './skills/*' |
LC_ALL=C sort | head -n 200 | while IFS= read -r file; do
  printf '\n--- %s (%s bytes)\n' "$file" "$(wc -c < "$file")"
  if [ "$(head -c 3000 "$file" | tr -d '\000' | wc -c)" -eq "$(head -c 3000 "$file" | wc -c)" ]
  then head -c 3000 "$file"; else echo '(not text)'; fi
done | head -c 64000"""
# Runs in the sandbox. If the task's code fails on the agent's files, or is ended by them, the task counts as not done;
# if the sandbox lacks something, that is an error and not the agent's fault.
_GRADER: Final = (Path(__file__).parent / "_pinchbench_grader.py").read_bytes()
_BEGUN: Final = "the grading begins"


def seed(row: JsonDict, idx: int) -> SeedResult:
    """Make the problem of a task: its prompt, the files it starts with, and a sandbox of its own for the grading.

    Raises:
        SeedError: The task needs grading code or a file, and the row lacks it.
    """
    grading_type = row["grading_type"]
    if grading_type != "llm_judge" and not row.get("grading_code"):
        hint = "name a checkout of PinchBench's repository: params: {dataset: FOLDER}"
        raise SeedError(
            f"the tasks were copied without the code that {row['id']} is graded by", hint=hint
        )
    grading_sandbox = SandboxSpec(workdir=_WORKDIR)
    if row.get("beside"):
        beside: Path | None = Path(row["beside"])
    else:
        beside = None
    files = {local_path: f"{_WORKDIR}/{name}" for local_path, name in files_of(row, beside).items()}
    metadata = {
        **{
            "source": "pinchbench",
            "benchmark": "pinchbench",
            "task_id": row["id"],
            "task_name": row.get("name", ""),
        },
        **{
            "category": row["category"],
            "grading_type": grading_type,
            "agent_timeout_sec": float(row["timeout_seconds"]),
        },
        "rubric": row.get("llm_judge_rubric") or row.get("grading_criteria", ""),
        "expected_behavior": row.get("expected_behavior", ""),
        "grading_code": row.get("grading_code"),
        "grading_weights": row.get("grading_weights"),
        "sessions": row.get("sessions"),
    }
    return SeedResult(
        prompt=row["prompt"],
        expected_answer="",
        metadata=metadata,
        sandbox_spec=SandboxSpec(workdir=_WORKDIR, files=files),
        verify_sandbox_spec=grading_sandbox,
        capture_cmd=workspace.capture_command(_WORKDIR),
        apply_cmd=workspace.apply_command(_WORKDIR),
        shown=frozenset({"rubric", "expected_behavior", "grading_code", "sessions"}),
    )


def transcript(trajectory: list[TrajectoryDocument], response: str) -> list[JsonDict]:
    """Convert an agent's trajectory to OpenClaw's transcript format, which the tasks' grading code reads.

    Args:
        trajectory: The recorded trajectory documents.
        response: The agent's final answer; without a trajectory it is the whole transcript.
    """
    events = list(_events(trajectory))
    return events or [_event("assistant", [{"type": "text", "text": response}])]


def _events(trajectory: list[TrajectoryDocument]) -> Iterator[JsonDict]:
    """Yield the messages, tool calls and tool results of a trajectory as transcript events."""
    for document in trajectory:
        for step in document.get("steps") or ():
            yield from _events_of_step(step)


def _events_of_step(step: TrajectoryStep) -> Iterator[JsonDict]:
    """Yield the message and tool calls of a step as one event, and each of its tool results as another."""
    content_parts: list[JsonDict] = []
    if step.get("message"):
        content_parts.append({"type": "text", "text": str(step["message"])})
    for call in step.get("tool_calls") or ():
        arguments = call.get("arguments")
        content_parts.append(
            {
                "type": "toolCall",
                "name": call.get("function_name"),
                "arguments": arguments,
                "params": arguments,
            }
        )
    if content_parts:
        source = str(step.get("source"))
        role = "assistant" if source == "agent" else source
        yield _event(role, content_parts)
    for result in as_dict(step.get("observation")).get("results") or ():
        result_text = str(result.get("content") or "")
        yield _event("toolResult", [{"type": "text", "text": result_text}])


def _event(role: str, content: list[JsonDict]) -> JsonDict:
    return {"type": "message", "message": {"role": role, "content": content}}


async def grade(
    code: str, events: list[JsonDict], sandbox: Sandbox
) -> tuple[dict[str, float], str]:
    """Grade a workspace with a task's own code.

    Args:
        code: The task's grading code.
        events: The transcript of the agent.
        sandbox: The sandbox that holds the workspace.

    Returns:
        The scores by criterion and an empty text; or no scores and the reason why the workspace earned none, such as
        the exception that the code raised.

    Raises:
        SandboxError: The sandbox has no Python.
        ScorerError: The code could not run or gave no grade.
    """
    mark = uuid.uuid4().hex
    grading_run = await _run_grader(code, events, sandbox, mark=mark)
    # As with a program under test, this is a zero: pipes or devices in place of files must not earn more.
    if grading_run.timed_out:
        return {}, f"the grading did not end in {_SECONDS:g} s"
    if grading_run.out_of_memory:
        return {}, "out of memory"
    # The result stands between two marks: programs that the task's code started may still print afterwards.
    output_parts = grading_run.stdout.split(mark)
    result_text = output_parts[1] if len(output_parts) == 3 else ""
    if not result_text and grading_run.stderr.startswith(_BEGUN):
        return {}, f"what was graded ended the grading (exit code {grading_run.exit_code})"
    try:
        result = as_dict(json.loads(result_text))
    except ValueError as error:
        output = grading_run.stderr or grading_run.stdout
        raise ScorerError(f"the task's own code did not grade: {output[-300:]}") from error
    if result.get("lacks"):
        raise ScorerError(f"the task's own code did not grade: {result['lacks']}")
    if result.get("raised"):
        return {}, str(result["raised"])
    return _criterion_scores(result, result_text), ""


async def _run_grader(
    code: str, events: list[JsonDict], sandbox: Sandbox, *, mark: str
) -> ExecResult:
    """Upload and run a task's grading code, which prints ``mark`` before and after its result.

    Raises:
        SandboxError: The sandbox has no Python.
    """
    folder = f"/tmp/nel-grade-{uuid.uuid4().hex}"  # noqa: S108 - inside the sandbox
    files = {
        f"{folder}/run.py": _GRADER,
        f"{folder}/grade.py": code.encode(),
        f"{folder}/transcript.json": json.dumps(events).encode(),
    }
    for path, content in files.items():
        await sandbox.upload(content, path)
    command = ["python3", "-I", *files, _WORKDIR]
    grading_run = await sandbox.exec(command, timeout=_SECONDS, stdin=f"{mark}\n".encode())
    if grading_run.exit_code in (126, 127):
        hint = "use an image with OpenClaw and Python"
        raise SandboxError("the sandbox has no python3, which this task is graded with", hint=hint)
    return grading_run


def _criterion_scores(result: JsonDict, result_text: str) -> dict[str, float]:
    """Read the scores by criterion from the result of a grading.

    Raises:
        ScorerError: There are no scores, or a score is not a number.
    """
    scores: dict[str, float] = {}
    for name, value in as_dict(result.get("scores")).items():
        number = as_number(value)
        if number is None:
            scores = {}
            break
        scores[str(name)] = float(number)
    if not scores:
        raise ScorerError(
            f"the task's own code gave scores that are not numbers: {result_text[:300]}"
        )
    return scores


def judge_prompt(seed: SeedResult, response: str, found: JsonDict | None = None) -> list[Message]:
    """Write the judge's prompt: the task, its rubric, the transcript and the files in the workspace.

    Args:
        seed: The task.
        response: The agent's final answer.
        found: The details of the score so far; ``workspace`` lists the files.
    """
    metadata = seed.metadata
    lines: list[str] = []
    for event in transcript(seed.trajectory, response):
        message = event["message"]
        for part in message["content"]:
            content = part["text"] if "text" in part else json.dumps(part, ensure_ascii=False)
            lines.append(f"{message['role']}: {content}")
    transcript_text = "\n".join(lines)
    if len(transcript_text) > _LONGEST:
        beginning = transcript_text[: _LONGEST // 2]
        ending = transcript_text[-_LONGEST // 2 :]
        transcript_text = f"{beginning}\n[…]\n{ending}"
    text = _JUDGE.format(
        task=seed.prompt,
        behavior=metadata["expected_behavior"],
        rubric=metadata["rubric"],
        transcript=fenced("transcript", transcript_text),
        workspace=fenced("workspace", (found or {}).get("workspace") or "(empty)"),
        note=FENCE_NOTE,
    )
    return [{"role": "user", "content": text}]


def parse_judge(answer: str, seed: SeedResult, found: JsonDict | None = None) -> JsonDict:
    """Read the judge's total; if the task's code also graded, combine both by the task's weights.

    Without a valid total, the mean of the judge's scores by criterion counts, provided that all are valid.

    Args:
        answer: The judge's reply.
        seed: The task.
        found: The details of the score so far; ``automated`` is the grade of the task's code.

    Raises:
        JudgeError: The reply has no total between 0 and 1.
    """
    reply = judge_reply(answer)
    scores = {str(name): as_number(value) for name, value in as_dict(reply.get("scores")).items()}
    total = _share(reply.get("total"))
    if total is None:
        total = _mean_of_valid(scores)
    if total is None:
        raise JudgeError(f"the judge gave no total between 0 and 1: {answer[:120]!r}")
    details: JsonDict = {
        "reward": float(total),
        "judge_total": float(total),
        "judge_scores": scores,
    }
    automated = (found or {}).get("automated")
    if automated is not None:
        weights = {"automated": 0.5, "llm_judge": 0.5} | (seed.metadata["grading_weights"] or {})
        weighted_sum = weights["automated"] * automated + weights["llm_judge"] * total
        details["reward"] = weighted_sum / (weights["automated"] + weights["llm_judge"])
    return details


def _share(value: Any) -> float | None:
    """Return a value as a number between 0 and 1; None if it is not one."""
    number = as_number(value)
    if number is None or not 0 <= number <= 1:
        return None
    return number


def _mean_of_valid(scores: Mapping[str, float | None]) -> float | None:
    """Return the mean of the scores; None if there are none, or one of them is not between 0 and 1."""
    valid_scores: list[float] = []
    for score in scores.values():
        share = _share(score)
        if share is None:
            return None
        valid_scores.append(share)
    if not valid_scores:
        return None
    return sum(valid_scores) / len(valid_scores)


def rows(dataset: str | None, source_url: str, source_ref: str) -> Any:
    """Load the tasks; those of a local dataset get the folder beside it, which may hold their files.

    Args:
        dataset: A checkout of the repository or a file of its tasks as rows; None downloads the archive.
        source_url: The repository, or a mirror of it.
        source_ref: The commit, tag or branch.
    """
    tasks = load(dataset, source_url, source_ref)
    if dataset is None or dataset == "":
        return list(tasks)
    folder = str(Path(dataset).absolute().parent)
    return [task | {"beside": folder} for task in tasks]


SELF_TEST: Final = SelfTest()


@benchmark(
    "pinchbench",
    dataset=rows,
    seed_fn=seed,
    params={"dataset": None, "source_url": SOURCE, "source_ref": REF},
    judge_prompt=equipped(judge_prompt, _CANARY, {"total": {"type": "number"}}),
    parse_judge=parse_judge,
    cluster=Independent("each task has a workspace of its own"),
    info=BenchmarkInfo(
        title="PinchBench",
        group="agents",
        scorer="the task's own code, a judge by the task's rubric, or both",
        needs=("judge", "sandbox"),
        license="MIT",
        source="https://github.com/pinchbench/skill",
        columns=(
            "id",
            "name",
            "category",
            "prompt",
            "grading_type",
            "grading_code",
            "grading_criteria",
            "llm_judge_rubric",
            "workspace_files",
        ),
        categories="of the task",
        params={
            "dataset": (
                "A checkout of PinchBench's repository, or a file of its tasks as rows, "
                "instead of the download."
            ),
            "source_url": "The repository whose archive is fetched.",
            "source_ref": "Its commit, tag or branch.",
        },
        published=Published(
            protocol=(
                "OpenClaw works on each task once; the tasks' own code grades in the process "
                "of the harness, and a judge of the authors' choice by the tasks' rubrics; the "
                "two are weighed as each task says."
            ),
            differs=(
                "The same tasks, code, rubrics and weights. The code runs in a sandbox, on the "
                "workspace that the agent left; the judge is yours, with a prompt of our own, "
                "and a judge that fails makes the row fail."
            ),
            comparable="nearly, with a judge as strong",
        ),
    ),
)
async def pinchbench(sample: ScorerInput) -> Score:
    """The mean of a task's own criteria, a judge's total by its rubric, or both, weighed as the task says."""
    metadata = sample.metadata
    sandbox = sample.sandbox
    if sandbox is None:
        raise SandboxError("an errand is graded in a sandbox", hint="give the benchmark a sandbox")
    workspace_listing = (await sandbox.exec(_LISTING, cwd=_WORKDIR)).stdout
    score: Score = {
        "extracted": sample.response[:200],
        "grading_type": metadata["grading_type"],
        "workspace": workspace_listing,
    }
    if metadata["grading_type"] == "llm_judge":
        return {**score, "correct": 0.0, "needs_judge": True}
    agent_transcript = transcript(sample.trajectory, sample.response)
    scores, raised = await grade(metadata["grading_code"], agent_transcript, sandbox)
    mean = sum(scores.values()) / max(1, len(scores))
    score["correct"] = mean
    for name, value in scores.items():
        score[f"criterion_{name}"] = value
    if raised:
        score["grading_raised"] = raised
    if metadata["grading_type"] == "hybrid":
        return {**score, "automated": mean, "needs_judge": True}
    return score
