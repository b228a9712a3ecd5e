"""``openclaw``: the command-line agent in a sandbox, a stand-in and the real one, its calls through the proxy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from docker_image import docker, system_libraries
from nel_support import Nel, api, rows

from nemo_evaluator.core.errors import SandboxError, SolverError, UsageError
from nemo_evaluator.core.secrets import Secret
from nemo_evaluator.core.types import ModelAccess, SandboxSpec, SeedResult
from nemo_evaluator.sandbox.local import LocalSandbox
from nemo_evaluator.solvers.openclaw import OpenClawSolver, OpenClawSolverConfig
from nemo_evaluator.testing import Say, ScriptedServer, validate_trajectory

STAND_IN = Path(__file__).parents[1] / "support" / "openclaw_stand_in.py"
ACCESS = ModelAccess("http://127.0.0.1:1/v1", Secret("k"), "m")
USAGE = {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12}
BENCH = """
from nemo_evaluator import ScorerInput, SeedResult, benchmark, scorer
from nemo_evaluator.core.types import SandboxSpec
from nemo_evaluator.sandbox import VolumeMount

def ask(row, idx=0):
    spec = SandboxSpec(workdir="/workspace", volumes=[VolumeMount({folder!r}, "/opt/openclaw", readonly=True)])
    return SeedResult(row["prompt"], "hello", row, sandbox_spec=spec)

@benchmark(name="errand", dataset=lambda: {tasks!r}, seed_fn=ask)
@scorer
async def score(sample: ScorerInput) -> dict:
    found = await sample.sandbox.exec("cat hello.txt; ls -A")
    return {{"correct": found.stdout.startswith("hello"), "found": found.stdout}}
"""
WORK = "echo hello > hello.txt"
# Seconds in which the real agent starts and runs one command, on a busy machine too.
LIMIT = 150
STAND_IN_COMMAND = f"python3 /opt/openclaw/{STAND_IN.name}"


def solve(
    nel: Nel,
    script: Any,
    folder: Path,
    solver: dict[str, Any],
    tasks: list[dict[str, Any]],
    **more: Any,
) -> dict[str, dict[str, Any]]:
    """The rows of a run by prompt, each with its trajectory."""
    (nel.folder / "errand.py").write_text(BENCH.format(folder=str(folder), tasks=tasks))
    solver = {"type": "openclaw", "service": "model", **solver}
    bench = {
        "name": "errand.py",
        "id": "b",
        "solver": solver,
        "sandbox": {"type": "local"},
        "max_system_retries": 1,
    }
    with ScriptedServer(script) as server:
        services = {"model": api(server.url)}
        nel.config("c.yaml", services=services, benchmarks=[bench | more], output={"dir": "out"})
        nel("eval", "run", "c.yaml", code=None, timeout=580)
    found = {tasks[row["problem_idx"]]["prompt"]: row for row in rows(nel.folder / "out" / "b")}
    for line in (nel.folder / "out" / "b" / "trajectories.jsonl").read_text().splitlines():
        record = json.loads(line)
        found[tasks[record["problem_idx"]]["prompt"]]["trajectory"] = record.get("trajectory")
    return found


def worker(seen: Any) -> Say:
    """First what the task says, then the word that it is done."""
    said = [str(message["content"]) for message in seen.body["messages"]]
    worked = any(message["role"] == "assistant" for message in seen.body["messages"])
    return Say(
        "All done." if worked else said[0] if said[0].startswith("how: ") else WORK, usage=USAGE
    )


ENDS = {
    "how: crash": ("solver", "Cannot find module"),
    "how: empty": ("solver", "without an answer"),
    "how: transient": ("solver", "couldn't generate a response"),
    "how: broke": ("solver", "broke"),
    "how: killed": ("sandbox", "killed"),
}


@pytest.mark.needs("bwrap")
def test_every_way_to_end_has_its_row(nel: Nel) -> None:
    seen: list[list[str]] = []

    def script(request: Any) -> Say:
        said = [message["content"] for message in request.body["messages"]]
        if said[0] in ("one", "three"):
            seen.append(said)
        return Say(f"{WORK}; sleep 60") if said[0] == "late" else worker(request)

    turns = [{"prompt": "one"}, {"prompt": "two"}, {"prompt": "three", "new_session": True}]
    tasks: list[dict[str, Any]] = [{"prompt": how} for how in ("work", *ENDS)]
    tasks += [{"prompt": "late", "agent_timeout_sec": 8}, {"prompt": "turns", "sessions": turns}]
    solver = {"openclaw_bin": STAND_IN_COMMAND, "context_window": 4321, "run_timeout": 100}
    found = solve(nel, script, STAND_IN.parent, solver, tasks, skip_failed=True)

    row = found["work"]
    assert (row["reward"], row["model_response"]) == (1.0, "All done."), row
    # Nothing of the agent's own lies in the workspace.
    assert row["scoring_details"]["found"].split() == ["hello", "hello.txt"]
    assert row["scoring_details"]["openclaw_version"] == "2026.9.6"
    assert (row["prompt_tokens"], row["completion_tokens"]) == (20, 4)
    (document,) = row["trajectory"]
    assert validate_trajectory(document) == [] and document["agent"]["name"] == "openclaw"
    told = [(step["source"], step["message"]) for step in document["steps"]]
    assert told[0] == ("user", "work") and ("agent", WORK) in told and told[-1][1] == "All done."
    # A note that every request ends with does not make the conversation be told anew.
    assert sum(text == "work" for _, text in told) == 1

    for how, (cause, words) in ENDS.items():
        assert found[how]["reward"] is None and found[how]["failure"]["cause"] == cause, found[how]
        assert words in found[how]["failure"]["message"]

    row = found["late"]
    assert (row["status"], row["reward"], row["label"]) == ("scored", 1.0, "budget"), row
    assert row["scoring_details"]["openclaw_timed_out"] is True

    assert found["turns"]["reward"] == 1.0
    assert [said[0] for said in seen] == ["one"] * 4 + ["three"] * 2
    assert "two" in seen[2] and "two" not in seen[4]


@pytest.mark.needs("bwrap")
def test_a_budget_that_is_spent_is_verified_with_the_workspace_left(nel: Nel) -> None:
    tasks, limits = [{"prompt": "work"}], {"turns": 1}
    row = solve(
        nel, worker, STAND_IN.parent, {"openclaw_bin": STAND_IN_COMMAND}, tasks, step_limits=limits
    )["work"]
    assert (row["status"], row["reward"], row["label"]) == ("scored", 1.0, "budget"), row


@pytest.mark.needs("bwrap")
@pytest.mark.parametrize("unchecked", [False, True])
async def test_a_command_that_is_not_there_is_said_with_the_fix(unchecked: bool) -> None:
    config = OpenClawSolverConfig(
        service="m", openclaw_bin="no-such-claw", skip_preflight=unchecked
    )
    async with LocalSandbox(SandboxSpec()) as sandbox:
        with pytest.raises(
            SandboxError, match=r"no-such-claw cannot be run .*npm install -g openclaw"
        ):
            await OpenClawSolver(config).solve(SeedResult("p", ""), sandbox, ACCESS)


@pytest.mark.needs("bwrap")
async def test_a_config_file_is_taken_as_it_is(tmp_path: Path) -> None:
    provider = {
        "api": "openai-completions",
        "baseUrl": "http://x",
        "models": [{"id": "mine", "reasoning": False}],
    }
    defaults = {"model": {"primary": "p/mine"}, "workspace": "/workspace"}
    file = tmp_path / "claw.json"
    file.write_text(
        json.dumps({"models": {"providers": {"p": provider}}, "agents": {"defaults": defaults}})
    )
    config = OpenClawSolverConfig(
        service="m", openclaw_bin="python3 /workspace/claw.py", config_path=str(file)
    )
    async with LocalSandbox(SandboxSpec()) as sandbox:
        await sandbox.upload(STAND_IN, "/workspace/claw.py")
        with pytest.raises(SolverError, match="not supported for p/mine"):
            await OpenClawSolver(config).solve(SeedResult("p", ""), sandbox, ACCESS)
    before = OpenClawSolver(config).describe()
    file.write_text("{}")
    assert OpenClawSolver(config).describe() != before


def test_what_is_missing_is_said_before_the_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match="config_path"):
        OpenClawSolver(OpenClawSolverConfig(service="m", config_path=str(tmp_path / "none.json")))
    monkeypatch.delenv("TAVILY_API_KEY", raising=False)
    searching = OpenClawSolverConfig(service="m", web_search_provider="tavily")
    with pytest.raises(UsageError, match="TAVILY_API_KEY is not set"):
        OpenClawSolver(searching)
    monkeypatch.setenv("TAVILY_API_KEY", "tvly-1")
    settings = OpenClawSolver(searching)._settings("m", "http://x/v1", "/w")
    assert settings["tools"]["web"] == {"search": {"provider": "tavily"}}
    assert "tvly-1" not in json.dumps(settings) + json.dumps(OpenClawSolver(searching).describe())


def real(seen: Any) -> Say:
    """As ``worker``, by the agent's tool for commands."""
    if any(message["role"] == "tool" for message in seen.body["messages"]):
        return Say("All done.", usage=USAGE)
    call = {"id": "call_1", "name": "exec", "arguments": {"command": WORK}}
    return Say("I run a command.", tool_calls=[call], finish_reason="tool_calls", usage=USAGE)


@pytest.fixture(
    params=[
        pytest.param("local", marks=pytest.mark.needs("bwrap")),
        pytest.param("docker", marks=pytest.mark.needs("docker")),
    ]
)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    """A sandbox with what Node is linked to."""
    if request.param == "local":
        return {"type": "local"}
    system_libraries(tmp_path)
    (tmp_path / "Dockerfile").write_text("FROM nel-test/python:bookworm\nCOPY *.so.* /usr/lib/\n")
    docker("build", "-q", "-t", "nel-test/openclaw:base", str(tmp_path))
    return {"type": "docker", "image": "nel-test/openclaw:base"}


@pytest.mark.large
@pytest.mark.needs("openclaw")
def test_openclaw_as_it_is_published(nel: Nel, parts_dir: Path, place: dict[str, Any]) -> None:
    def script(seen: Any) -> Say:
        said = json.dumps(seen.body["messages"])
        late = "be late" in said and any(
            message["role"] == "tool" for message in seen.body["messages"]
        )
        return Say("Never read.", delay=600) if late else real(seen)

    solver = {
        "openclaw_bin": "/opt/openclaw/bin/openclaw",
        "run_timeout": 500,
        "context_window": 32768,
    }
    tasks = [{"prompt": "work"}, {"prompt": "be late", "agent_timeout_sec": LIMIT}]
    found = solve(nel, script, parts_dir / "openclaw", solver, tasks, sandbox=place)
    row = found["work"]
    assert (row["reward"], row["model_response"]) == (1.0, "All done."), row
    assert row["scoring_details"]["openclaw_version"].startswith("20")
    assert (row["prompt_tokens"], row["completion_tokens"]) == (20, 4)
    (document,) = row["trajectory"]
    assert validate_trajectory(document) == []
    (step,) = (step for step in document["steps"] if step.get("tool_calls"))
    assert (
        step["tool_calls"][0]["arguments"] == {"command": WORK} and step["observation"]["results"]
    )
    # Stopped at its limit, and verified with what it had done by then.
    row = found["be late"]
    assert (row["status"], row["reward"], row["label"]) == ("scored", 1.0, "budget"), row
    assert row["scoring_details"]["openclaw_timed_out"] is True
