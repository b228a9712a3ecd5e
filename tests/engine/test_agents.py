"""The door for agents: a script that knows only ``openai`` and two variables is measured like our own solvers."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest
from nel_support import Nel, api, rows

from nemo_evaluator.adapters.outside import AgentSession
from nemo_evaluator.core.secrets import Secret
from nemo_evaluator.core.types import ModelAccess, ModelResponse, SolveResult, ToolCallInfo
from nemo_evaluator.engine.agents import with_calls
from nemo_evaluator.models.types import CallScope
from nemo_evaluator.testing import Rule, Say, ScriptedServer, validate_trajectory

AGENT = """
import sys
from openai import OpenAI

client = OpenAI(max_retries=0)
model = client.models.list().data[0].id
talk = [{"role": "user", "content": sys.argv[1]}]
for turn in range(3):
    reply = client.chat.completions.create(model=model, messages=talk).choices[0].message.content
    talk += [{"role": "assistant", "content": reply}, {"role": "user", "content": f"go on with {sys.argv[1]}"}]
print(reply)
"""
SOLVER = """
from nemo_evaluator import SolveResult

AGENT = {agent!r}

class Runner:
    needs = ("sandbox", "model")

    async def solve(self, task, sandbox=None, model=None):
        await sandbox.upload(AGENT.encode(), "agent.py")
        done = await sandbox.exec(["python3", "agent.py", task.prompt], env={{"PYTHONPATH": "/libs"}}, timeout=60)
        if done.exit_code:
            raise RuntimeError(done.stderr[-300:])
        return SolveResult(response=done.stdout.strip())
"""
BENCH = """
from nemo_evaluator import ScorerInput, SeedResult, benchmark, exact_match, scorer
from nemo_evaluator.core.types import SandboxSpec
from nemo_evaluator.sandbox import VolumeMount

ROWS = [{{"n": n, "target": f"done {{n}}"}} for n in range(4)]
LIBS = VolumeMount({libs!r}, "/libs", readonly=True)

def ask(row, idx=0):
    spec = SandboxSpec(workdir="/workspace", volumes=[LIBS])
    return SeedResult(prompt=f"task {{row['n']}}", expected_answer=row["target"], sandbox_spec=spec)

@benchmark(name="errands", dataset=lambda: ROWS, seed_fn=ask)
@scorer
def score(sample: ScorerInput) -> dict:
    return exact_match(sample)
"""
IMAGE = "nel-test/python:bookworm"
PLACES = [
    pytest.param({"type": "local"}, marks=pytest.mark.needs("bwrap"), id="local"),
    pytest.param(
        {"type": "docker", "image": IMAGE}, marks=pytest.mark.needs("docker"), id="docker"
    ),
]


def answer(seen: Any) -> Say:
    number = str(seen.body["messages"][0]["content"]).split()[-1]
    return Say(
        f"done {number}",
        usage={"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12},
        delay=0.05,
    )


@pytest.fixture
def run(tmp_path: Path) -> Any:
    def start(place: dict[str, Any], server: ScriptedServer, **more: Any) -> list[dict[str, Any]]:
        found = importlib.util.find_spec("openai")
        assert found is not None and found.origin is not None
        (tmp_path / "runner.py").write_text(SOLVER.format(agent=AGENT))
        (tmp_path / "errands.py").write_text(BENCH.format(libs=str(Path(found.origin).parents[1])))
        nel = Nel(tmp_path)
        nel.env["PYTHONPATH"] = str(tmp_path)
        solver = {"type": "custom", "service": "model", "class_path": "runner:Runner"}
        bench = {
            "name": "errands.py",
            "solver": solver,
            "sandbox": place,
            "max_concurrent": 2,
            **more,
        }
        nel.config(
            "c.yaml", services={"model": api(server.url)}, benchmarks=[bench], output={"dir": "out"}
        )
        nel("eval", "run", "c.yaml", code=None)
        (folder,) = (path.parent for path in (tmp_path / "out").glob("*/results.jsonl"))
        steps = {(row["problem_idx"], row["repeat"]): row for row in rows(folder)}
        for line in (folder / "trajectories.jsonl").read_text().splitlines():
            record = json.loads(line)
            steps[record["problem_idx"], record["repeat"]]["trajectory"] = record.get("trajectory")
        return list(steps.values())

    return start


@pytest.mark.parametrize("place", PLACES)
def test_calls_belong_to_their_step(place: dict[str, Any], run: Any) -> None:
    with ScriptedServer(answer) as server:
        found = run(place, server)
        assert server.count == 12
    assert [row["reward"] for row in found] == [1.0] * 4, [row.get("failure") for row in found]
    for row in found:
        assert (row["prompt_tokens"], row["completion_tokens"]) == (30, 6)
        (document,) = row["trajectory"]
        said = [step["message"] for step in document["steps"]]
        assert said.count(f"done {row['problem_idx']}") == 3
        assert {text.split()[-1] for text in said} == {str(row["problem_idx"])}
        assert document["final_metrics"]["total_prompt_tokens"] == 30


@pytest.mark.needs("bwrap")
def test_a_step_budget_ends_the_agent_and_what_it_left_is_scored(run: Any) -> None:
    with ScriptedServer(answer) as server:
        found = run({"type": "local"}, server, step_limits={"turns": 2}, max_problems=2)
        assert server.count == 4
    assert {(row["status"], row["reward"]) for row in found} == {("scored", 0.0)}
    assert {row["label"] for row in found} == {"budget"}
    assert {row["prompt_tokens"] for row in found} == {20}


@pytest.mark.needs("bwrap")
def test_a_model_that_is_gone_is_no_fault_of_the_agent(run: Any) -> None:
    with ScriptedServer([Rule(say=Say(status=503))]) as server:
        found = run({"type": "local"}, server, max_problems=1, max_system_retries=1)
    assert [(row["status"], row["failure"]["cause"]) for row in found] == [("failed", "transport")]


def test_an_agent_that_rewrites_ids_and_closes_with_a_note_is_told_once() -> None:
    """As OpenClaw does: ``call_1`` goes back as ``call1``, and each request ends with a note of the moment."""
    ask, note = {"role": "user", "content": "work"}, {"role": "user", "content": "a note"}
    back = {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "call1", "type": "function"}],
    }
    done = {"role": "tool", "tool_call_id": "call1", "content": "ran"}
    first = ModelResponse(
        "I run it.", tool_calls=[ToolCallInfo("call_1", "exec", {"command": "true"})]
    )
    second = ModelResponse("And again.", tool_calls=[ToolCallInfo("call_2", "exec", {})])
    again = [back | {"tool_calls": [{"id": "call2"}]}, done | {"tool_call_id": "call2"}]
    calls = [
        ([ask, note], first),
        ([ask, back, done, note], second),
        ([ask, back, done, *again], ModelResponse("Done.")),
    ]
    session = AgentSession(ModelAccess("http://x/v1", Secret("k"), "m"), CallScope("s"), calls)
    (document,) = with_calls(SolveResult("Done."), session, "openclaw").trajectory
    assert validate_trajectory(document) == []
    told = [(step["source"], step["message"]) for step in document["steps"]]
    agent = [("agent", "I run it."), ("agent", "And again."), ("agent", "Done.")]
    assert told == [("user", "work"), ("user", "a note"), agent[0], ("user", "a note"), *agent[1:]]
    results = [
        step["observation"]["results"] for step in document["steps"] if "observation" in step
    ]
    assert results == [
        [{"source_call_id": name, "content": "ran"}] for name in ("call_1", "call_2")
    ]
