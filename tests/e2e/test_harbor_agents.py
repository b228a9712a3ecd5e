"""Agents on Harbor's tasks: scripts in a folder, classes, and the real ones of the package, all through the proxy."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from nel_support import Nel, api, rows

from nemo_evaluator.testing import Rule, Say, ScriptedServer
from nemo_evaluator.testing.atif import validate_trajectory

TASKS = Path(__file__).parents[1] / "support" / "harbor_tasks"
LOCAL = {"type": "local"}
DOCKER = {"type": "docker", "network": "none"}
USAGE = {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12}
# Asks the model for a command, runs it, and tells what it did.
RUN = """
cat > /tmp/agent.py <<'END'
import json, os, subprocess, sys, urllib.request
body = {"model": os.environ["MODEL_NAME"], "messages": [{"role": "user", "content": sys.argv[1]}]}
request = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + "/chat/completions", json.dumps(body).encode())
request.add_header("Content-Type", "application/json")
request.add_header("Authorization", "Bearer " + os.environ["OPENAI_API_KEY"])
command = json.load(urllib.request.urlopen(request))["choices"][0]["message"]["content"]
print("ran:", command, flush=True)
sys.exit(subprocess.call(command, shell=True))
END
python3 /tmp/agent.py {{ instruction | quote }}
"""
Agent = Callable[..., dict[str, dict[str, Any]]]


@pytest.fixture
def scripted(nel: Nel) -> Agent:
    """Run a folder agent on tasks, the model saying ``command``; rows by task, each with its trajectory."""

    def run(command: Any, tasks: list[str], *, script: str = RUN, place: Any = None, **solver: Any) -> Any:
        folder = nel.folder / "agent"
        folder.mkdir(exist_ok=True)
        (folder / "run.sh.j2").write_text(script)
        with ScriptedServer(
            command if not isinstance(command, str) else [Rule(say=Say(command, usage=USAGE))]
        ) as server:
            return solve(nel, server, {"agent": str(folder), **solver}, tasks, place or LOCAL)

    return run


def solve(
    nel: Nel, server: ScriptedServer, solver: dict[str, Any], tasks: list[str], place: dict[str, Any], **more: Any
) -> dict[str, dict[str, Any]]:
    name = more.pop("name", f"harbor://{TASKS}")
    bench = {"name": name, "sandbox": place, "params": {"tasks": tasks}, "max_system_retries": 1, "skip_failed": True}
    bench["solver"] = {"type": "harbor", "service": "model", **solver}
    nel.config("c.yaml", services={"model": api(server.url)}, benchmarks=[bench | more], output={"dir": "out"})
    nel("eval", "run", "c.yaml", code=None, timeout=300)
    (folder,) = (path.parent for path in (nel.folder / "out").glob("*/results.jsonl"))
    found = {row["metadata"]["task_id"]: row for row in rows(folder)}
    for line in (folder / "trajectories.jsonl").read_text().splitlines():
        record = json.loads(line)
        found[tasks[record["problem_idx"]]]["trajectory"] = record.get("trajectory")
    return found


@pytest.mark.needs("bwrap")
def test_an_agent_of_scripts_works_and_is_counted_at_the_proxy(scripted: Agent) -> None:
    row = scripted("echo hello > hello.txt", ["plain"])["plain"]
    assert row["reward"] == 1.0, row
    assert (row["prompt_tokens"], row["completion_tokens"]) == (10, 2)
    assert "ran: echo hello" in row["model_response"]
    assert validate_trajectory(row["trajectory"][0]) == []


@pytest.mark.needs("bwrap")
def test_time_that_is_up_is_verified_with_the_workspace_left(scripted: Agent) -> None:
    row = scripted("echo hello > hello.txt; sleep 60", ["plain"], run_timeout=3)["plain"]
    assert (row["status"], row["reward"], row["label"]) == ("scored", 1.0, "budget"), row


@pytest.mark.needs("bwrap")
@pytest.mark.parametrize(
    ("said", "script", "cause"),
    [
        ("exit 7", RUN, "solver"),
        ([Rule(say=Say(status=503))], RUN, "transport"),
        ("true", "{{ nothing }}", "solver"),
    ],
)
def test_an_end_that_measures_nothing_is_a_failure_with_its_cause(
    said: Any, script: str, cause: str, scripted: Agent
) -> None:
    row = scripted(said, ["plain"], script=script)["plain"]
    assert row["reward"] is None and row["failure"]["cause"] == cause, row


@pytest.mark.needs("bwrap")
def test_a_skill_is_there_and_the_agent_is_told_of_it(scripted: Agent, nel: Nel) -> None:
    skill = nel.folder / "skills" / "greet"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text("hello")
    told = "cat /skills/greet/SKILL.md /tmp/skills/greet/SKILL.md > hello.txt 2> /dev/null || true"
    row = scripted(told, ["plain"], skill="greet", skill_dir=str(skill.parent))["plain"]
    assert row["reward"] == 1.0, row
    assert "SKILL.md before you begin" in json.dumps(row["trajectory"])
