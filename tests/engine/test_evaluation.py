"""A benchmark through the engine: outcomes, failures, early stops, what ends up in the files."""

import asyncio
from collections import Counter
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nemo_evaluator.core.errors import (
    AuthError,
    BudgetError,
    ContextExceededError,
    RequestRejectedError,
    SandboxError,
    SolverError,
    TransportError,
)
from nemo_evaluator.core.files import iter_jsonl, read_json
from nemo_evaluator.core.types import ErrorKind, SolveResult
from nemo_evaluator.engine import run_evaluation
from nemo_evaluator.engine.evaluation import evaluate
from nemo_evaluator.engine.job import Evaluation
from nemo_evaluator.runs.answers import Answers
from nemo_evaluator.runs.row_table import read_table
from nemo_evaluator.store.layout import TaskPaths
from nemo_evaluator.store.records import last_user_text


def rows_of(folder: Path) -> dict[tuple[int, int], dict[str, Any]]:
    return {
        (row["problem_idx"], row["repeat"]): row for row in iter_jsonl(folder / "results.jsonl")
    }


async def test_a_clean_run(sums: Any, scripted: Any, tmp_path: Path) -> None:
    bundle = await run_evaluation(
        sums, scripted, n_repeats=2, step_log_dir=tmp_path, config={"model": "m"}
    )
    assert bundle["validity"] == {"status": "VALID", "reasons": []}
    assert bundle["benchmark"]["scores"]["pass@1"]["value"] == 1.0
    assert bundle["benchmark"]["coverage"] == {
        "planned": 20,
        "scored": 20,
        "failed": 0,
        "share": 1.0,
    }
    assert bundle["benchmark"]["categories"].keys() == {"even", "odd"}
    assert bundle["n_results"] == len(bundle["_results"]) == 20
    row = rows_of(tmp_path)[3, 1]
    assert (row["reward"], row["status"], row["tokens"], row["failure"]) == (1.0, "scored", 8, None)
    trajectory = next(iter_jsonl(tmp_path / "trajectories.jsonl"))
    assert [step["source"] for step in trajectory["trajectory"][0]["steps"]] == ["user", "agent"]
    assert read_json(TaskPaths(tmp_path).bundles()[0])["run_id"] == bundle["run_id"]
    assert not (tmp_path / "failure_analysis.json").exists()


async def test_what_a_solver_sets_in_its_context_ends_with_its_step(
    sums: Any, scripted: Any, tmp_path: Path
) -> None:
    right, own, seen = scripted.answer, ContextVar("own", default=0), []

    def answer(prompt: str) -> str:
        seen.append(own.get())
        own.set(1)
        return str(right(prompt))

    scripted.answer = answer
    await run_evaluation(sums, scripted, step_log_dir=tmp_path, config={}, max_concurrent=1)
    assert seen == [0] * 10


@pytest.mark.parametrize("full", [False, True])
async def test_rows_as_they_were_written_are_rows_as_they_are_read(
    sums: Any, scripted: Any, tmp_path: Path, full: bool
) -> None:
    right = scripted.answer
    said = {2: "", 3: RequestRejectedError("no"), 4: "<think>so</think>8", 5: "I cannot say."}
    scripted.answer = lambda prompt: said.get(int(prompt.split()[3]), right(prompt))
    sums.full_rows = full
    job = Evaluation(
        environment=sums, solver=scripted, task_dir=tmp_path, repeats=2, shuffle_seed=1
    )
    finished = await evaluate(job)
    answers = Answers()
    read = read_table(finished.task.results, answers=answers)
    assert finished.written is not None
    rows = finished.written.table
    assert len(rows) == 20
    for name in (
        "problem",
        "repeat",
        "content",
        "cause",
        "finish",
        "latency",
        "unparsed",
        "refusal",
        "truncated",
    ):
        assert getattr(rows, name).tolist() == getattr(read, name).tolist(), name
    assert np.array_equal(rows.reward, read.reward, equal_nan=True)
    assert (rows.causes, rows.finishes) == (read.causes, read.finishes)
    assert finished.written.answers == answers
    assert (answers.scored, answers.empty, answers.kept) == (18, 0 if full else 2, 2)


async def test_a_task_goes_on_with_the_next_step(sums: Any, scripted: Any, tmp_path: Path) -> None:
    right, tasks = scripted.answer, set()

    def answer(prompt: str) -> str:
        tasks.add(id(asyncio.current_task()))
        return str(right(prompt))

    scripted.answer = answer
    await run_evaluation(sums, scripted, step_log_dir=tmp_path, config={}, max_concurrent=1)
    assert len(tasks) == 1


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (TransportError("reset", attempts=9), "transport"),
        (RequestRejectedError("bad request"), "request_rejected"),
        (SandboxError("did not start", attempts=9), "sandbox"),
    ],
)
async def test_a_failure_of_the_harness_is_never_a_zero(
    sums: Any, scripted: Any, tmp_path: Path, error: Exception, cause: str
) -> None:
    right = scripted.answer
    scripted.answer = lambda prompt: error if " 3 " in prompt else right(prompt)
    bundle = await run_evaluation(sums, scripted, step_log_dir=tmp_path, config={})
    row = rows_of(tmp_path)[3, 0]
    assert (row["status"], row["reward"], row["failure"]["cause"]) == ("failed", None, cause)
    assert row["prompt"] == "How much is 3 + 3?"
    assert bundle["benchmark"]["scores"]["pass@1"]["value"] == 1.0
    assert bundle["benchmark"]["coverage"]["share"] == 0.9
    assert bundle["validity"]["status"] == "INVALID"
    assert "coverage 90.0%" in bundle["validity"]["reasons"][0]
    assert read_json(tmp_path / "failure_analysis.json")["categories"][cause]["count"] == 1


async def test_transport_failures_are_tried_again(
    sums: Any, scripted: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr("nemo_evaluator.engine.step_failure._BACKOFF_START", 0.001)
    right = scripted.answer
    scripted.answer = lambda p: (
        TransportError("reset") if " 3 " in p and scripted.asked.count(p) < 3 else right(p)
    )
    bundle = await run_evaluation(sums, scripted, step_log_dir=tmp_path)
    assert bundle["benchmark"]["coverage"]["share"] == 1.0
    assert scripted.asked.count("How much is 3 + 3?") == 3


async def test_a_prompt_too_long_scores_zero_with_a_label(
    sums: Any, scripted: Any, tmp_path: Path
) -> None:
    right = scripted.answer
    scripted.answer = lambda p: ContextExceededError("too long") if " 3 " in p else right(p)
    bundle = await run_evaluation(sums, scripted, step_log_dir=tmp_path)
    row = rows_of(tmp_path)[3, 0]
    assert (row["status"], row["reward"], row["label"]) == ("scored", 0.0, "context_exceeded")
    assert bundle["benchmark"]["coverage"]["share"] == 1.0
    assert scripted.asked.count("How much is 3 + 3?") == 1


@pytest.mark.parametrize(
    "said",
    [
        BudgetError("turns used up"),
        SolveResult("6", error="max_turns_exhausted", error_kind=ErrorKind.GRACEFUL),
        SolveResult("6", error_kind=ErrorKind.SOLVE_TIMEOUT),
    ],
)
async def test_a_spent_budget_is_verified_as_it_stands(
    sums: Any, scripted: Any, tmp_path: Path, said: Any
) -> None:
    right = scripted.answer
    scripted.answer = lambda p: said if " 3 " in p else right(p)
    await run_evaluation(sums, scripted, step_log_dir=tmp_path)
    row = rows_of(tmp_path)[3, 0]
    assert row["label"] == "budget"
    assert (row["status"], row["reward"]) == ("scored", 0.0 if isinstance(said, Exception) else 1.0)


async def test_a_scorer_that_raises_fails_its_row_only(
    sums: Any, scripted: Any, tmp_path: Path
) -> None:
    def on_verify(response: str) -> None:
        if response == "6":
            raise ZeroDivisionError("scorer bug")

    sums.on_verify = on_verify
    bundle = await run_evaluation(sums, scripted, step_log_dir=tmp_path)
    failure = rows_of(tmp_path)[3, 0]["failure"]
    assert failure == {"cause": "scorer", "message": "ZeroDivisionError: scorer bug"}
    assert bundle["benchmark"]["coverage"]["scored"] == 9


async def test_a_row_that_cannot_be_asked_fails_its_row_only(
    sums: Any, scripted: Any, tmp_path: Path
) -> None:
    sums.broken_seeds = {4}
    await run_evaluation(sums, scripted, step_log_dir=tmp_path)
    assert rows_of(tmp_path)[4, 0]["failure"] == {
        "cause": "seed",
        "message": "ValueError: row 4 is broken",
    }
    assert len(rows_of(tmp_path)) == 10


async def test_a_server_that_hands_out_problems_is_asked_again_like_any_other(
    sums: Any, scripted: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nemo_evaluator.engine.step_failure._BACKOFF_START", 0.001)
    real = sums.seed
    tried: Counter[int] = Counter()

    async def seed(idx: int) -> Any:
        tried[idx] += 1
        if (idx == 4 and tried[idx] < 3) or idx == 6:
            raise TransportError("answered 503")
        return await real(idx)

    sums.seed = seed
    await run_evaluation(sums, scripted, step_log_dir=tmp_path, max_system_retries=3)
    assert rows_of(tmp_path)[4, 0]["reward"] == 1.0 and tried[4] == 3
    gone = {"cause": "transport", "message": "answered 503"}
    assert rows_of(tmp_path)[6, 0]["failure"] == gone and tried[6] == 3
    assert len(scripted.asked) == 9


async def test_a_wrong_key_stops_at_once(sums: Any, scripted: Any, tmp_path: Path) -> None:
    sums.size = 500
    scripted.answer = lambda p: AuthError("401: bad key", hint="check the key")
    with pytest.raises(AuthError, match="bad key"):
        await run_evaluation(sums, scripted, step_log_dir=tmp_path, max_concurrent=4)
    assert len(scripted.asked) <= 8


async def test_the_benchmark_stops_when_the_first_requests_are_all_rejected(
    sums: Any, scripted: Any, tmp_path: Path
) -> None:
    sums.size = 500
    scripted.answer = lambda p: RequestRejectedError("400: unknown parameter")
    with pytest.raises(RequestRejectedError, match="unknown parameter"):
        await run_evaluation(sums, scripted, step_log_dir=tmp_path, max_concurrent=4)
    assert len(scripted.asked) < 20


async def test_a_solver_bug_stops_the_benchmark_unless_told_otherwise(
    sums: Any, scripted: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr("nemo_evaluator.engine.step_failure._BACKOFF_START", 0.001)
    right = scripted.answer
    scripted.answer = lambda p: KeyError("oops") if " 3 " in p else right(p)
    with pytest.raises(SolverError, match="oops"):
        await run_evaluation(sums, scripted, step_log_dir=tmp_path / "a", max_concurrent=1)
    bundle = await run_evaluation(sums, scripted, step_log_dir=tmp_path / "b", skip_failed=True)
    assert rows_of(tmp_path / "b")[3, 0]["failure"]["cause"] == "solver"
    assert bundle["benchmark"]["coverage"]["scored"] == 9


@pytest.mark.parametrize("always", [False, True])
async def test_an_agent_that_breaks_over_a_task_stops_the_benchmark_only_when_all_do(
    sums: Any, scripted: Any, tmp_path: Path, monkeypatch: Any, always: bool
) -> None:
    monkeypatch.setattr("nemo_evaluator.engine.step_failure._BACKOFF_START", 0.001)

    class Agent:
        async def solve(self, task: Any, sandbox: Any = None) -> SolveResult:
            if always or task.prompt.endswith(("3?", "7?")):
                raise SolverError("agent broke: exit code 1")
            return await scripted.solve(task)

    sums.size = 40
    job = {"step_log_dir": tmp_path, "max_concurrent": 1, "max_system_retries": 1}
    if always:
        with pytest.raises(SolverError, match="agent broke"):
            await run_evaluation(sums, Agent(), **job)
        assert len(rows_of(tmp_path)) == 8
    else:
        bundle = await run_evaluation(sums, Agent(), **job)
        assert bundle["benchmark"]["coverage"]["failed"] == 8
        assert rows_of(tmp_path)[3, 0]["failure"]["cause"] == "solver"


async def test_a_step_that_takes_too_long_fails(sums: Any, tmp_path: Path) -> None:
    from nemo_evaluator.engine.evaluation import evaluate
    from nemo_evaluator.engine.job import Evaluation

    class Slow:
        async def solve(self, task: Any) -> SolveResult:
            await asyncio.sleep(60)
            raise AssertionError("not cancelled")

    job = Evaluation(sums, Slow(), tmp_path, timeout=0.05, max_system_retries=1, max_problems=2)
    finished = await evaluate(job)
    assert finished.bundle["benchmark"]["coverage"]["failed"] == 2
    assert "timeout of 0.05 s" in rows_of(tmp_path)[0, 0]["failure"]["message"]


async def test_a_template_reaches_the_solver_and_the_files(
    sums: Any, scripted: Any, tmp_path: Path
) -> None:
    template = tmp_path / "t.md"
    template.write_text("{{ category }}: {{ original_prompt }} Say 0 + {{ 7 }}?\n")
    await run_evaluation(
        sums,
        scripted,
        step_log_dir=tmp_path / "out",
        instruction_template=str(template),
        max_problems=1,
        shuffle_seed=None,
    )
    assert scripted.asked == ["even: How much is 0 + 0? Say 0 + 7?"]
    assert rows_of(tmp_path / "out")[0, 0]["prompt"] == scripted.asked[0]


async def test_a_fresh_run_moves_the_old_one_aside(
    sums: Any, scripted: Any, tmp_path: Path
) -> None:
    for _ in range(3):
        await run_evaluation(sums, scripted, step_log_dir=tmp_path)
    assert len(TaskPaths(tmp_path).bundles()) == 1
    assert len(list((tmp_path / "previous").glob("*/eval-*.json"))) == 2
    assert len(scripted.asked) == 30


async def test_concurrency_is_bounded_and_used(sums: Any, tmp_path: Path) -> None:
    running, most = 0, 0

    class Counting:
        async def solve(self, task: Any) -> SolveResult:
            nonlocal running, most
            running += 1
            most = max(most, running)
            await asyncio.sleep(0.005)
            running -= 1
            return SolveResult("0")

    sums.size = 60
    await run_evaluation(sums, Counting(), step_log_dir=tmp_path, max_concurrent=7)
    assert most == 7


async def test_a_step_in_back_off_gives_its_slot_away(
    sums: Any, scripted: Any, tmp_path: Path
) -> None:
    """With one slot, a step that waits must not keep the others from running."""
    order: list[str] = []
    right = scripted.answer

    def answer(prompt: str) -> Any:
        order.append(prompt)
        return (
            TransportError("reset")
            if " 0 " in prompt and order.count(prompt) == 1
            else right(prompt)
        )

    scripted.answer = answer
    await run_evaluation(sums, scripted, step_log_dir=tmp_path, max_concurrent=1)
    first = "How much is 0 + 0?"
    assert order.index(first, 1) > 3


def test_last_user_text_reads_parts() -> None:
    messages = [
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image_url"}]},
        {"role": "assistant"},
    ]
    assert last_user_text(messages) == "a"


async def test_a_scorer_that_raises_leaves_its_traceback(
    sums: Any, scripted: Any, tmp_path: Path
) -> None:
    def on_verify(response: str) -> None:
        raise ZeroDivisionError("of the scorer")

    sums.on_verify = on_verify
    await run_evaluation(sums, scripted, step_log_dir=tmp_path, config={})
    told = (tmp_path / "errors.log").read_text()
    assert told.count("ZeroDivisionError: of the scorer") == 10
    assert "problem 3, repeat 0\nTraceback" in told and "in on_verify" in told
