"""Agents on Harbor's tasks: scripts in a folder, classes, and the real ones of the package, all through the proxy."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
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
RUN = (TASKS.parent / "shell_agent.sh.j2").read_text()
Agent = Callable[..., dict[str, dict[str, Any]]]


@pytest.fixture
def scripted(nel: Nel) -> Agent:
    """Run a folder agent on tasks, the model saying ``command``; rows by task, each with its trajectory."""

    def run(
        command: Any, tasks: list[str], *, script: str = RUN, place: Any = None, **solver: Any
    ) -> Any:
        folder = nel.folder / "agent"
        folder.mkdir(exist_ok=True)
        (folder / "run.sh.j2").write_text(script)
        with ScriptedServer(
            command if not isinstance(command, str) else [Rule(say=Say(command, usage=USAGE))]
        ) as server:
            return solve(nel, server, {"agent": str(folder), **solver}, tasks, place or LOCAL)

    return run


def solve(
    nel: Nel,
    server: ScriptedServer,
    solver: dict[str, Any],
    tasks: list[str],
    place: dict[str, Any],
    **more: Any,
) -> dict[str, dict[str, Any]]:
    name = more.pop("name", f"harbor://{TASKS}")
    bench = {
        "name": name,
        "sandbox": place,
        "params": {"tasks": tasks},
        "max_system_retries": 1,
        "skip_failed": True,
    }
    bench["solver"] = {"type": "harbor", "service": "model", **solver}
    nel.config(
        "c.yaml",
        services={"model": api(server.url)},
        benchmarks=[bench | more],
        output={"dir": "out"},
    )
    nel("eval", "run", "c.yaml", code=None, timeout=900)
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


def with_programs(nel: Nel, *programs: str) -> str:
    """The plain task with programs of this machine in its image; returns its URI."""
    task = shutil.copytree(TASKS / "plain", nel.folder / "tasks" / "plain", dirs_exist_ok=True)
    libraries = subprocess.run(
        ["ldd", *programs], capture_output=True, text=True, check=True
    ).stdout
    for file in [*programs, *re.findall(r"=> (/\S+)", libraries)]:
        target = task / "environment" / "root" / Path(file).relative_to("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, target)
    # Beside the image's own libraries, not over them.
    merge = "cd /opt/root && for f in $(find . -type f); do [ -e /$f ] || { mkdir -p /$(dirname $f); cp $f /$f; }; done"
    (task / "environment" / "Dockerfile").write_text(
        f"FROM nel-test/python:bookworm\nCOPY root /opt/root\nRUN {merge} && ldconfig\nWORKDIR /app\n"
    )
    return f"harbor://{nel.folder / 'tasks'}"


def terminus(seen: Any) -> Say:
    """First the command, then, asked whether that is all, yes."""
    first = "Are you sure" not in json.dumps(seen.body["messages"][-1])
    commands = [{"keystrokes": "echo hello > hello.txt\n", "duration": 0.5}] if first else []
    return Say(
        json.dumps({"analysis": "a", "plan": "p", "commands": commands, "task_complete": True}),
        usage=USAGE,
    )


@pytest.mark.large
@pytest.mark.needs("docker", "harbor")
@pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is put into the image from here")
def test_terminus_2_as_it_is_published(nel: Nel) -> None:
    uri = with_programs(nel, str(shutil.which("tmux")))
    solver = {
        "agent": "terminus-2",
        "agent_kwargs": {"record_terminal_session": False, "max_turns": 5},
    }
    with ScriptedServer(terminus) as server:
        row = solve(nel, server, solver, ["plain"], DOCKER, name=uri)["plain"]
        assert server.count == 2
    assert row["reward"] == 1.0, row
    assert (row["prompt_tokens"], row["completion_tokens"]) == (20, 4)
    (document,) = row["trajectory"]
    assert document["agent"]["name"] == "terminus-2" and validate_trajectory(document) == []


ASKER = """
from harbor.agents.base import BaseAgent

class Asker(BaseAgent):
    @staticmethod
    def name(): return "asker"

    def version(self): return "7"

    async def setup(self, environment): pass

    async def run(self, instruction, environment, context):
        from openai import AsyncOpenAI
        model = self.model_name.removeprefix("openai/")
        said = await AsyncOpenAI(max_retries=0).chat.completions.create(
            model=model, messages=[{"role": "user", "content": instruction}])
        await environment.exec(said.choices[0].message.content)
        context.metadata = {"response": "asked and ran"}
"""


@pytest.mark.large
@pytest.mark.needs("bwrap", "harbor")
def test_a_class_of_harbor_s_kind_works_in_our_sandbox(nel: Nel) -> None:
    (nel.folder / "asker.py").write_text(ASKER)
    with ScriptedServer([Rule(say=Say("echo hello > hello.txt", usage=USAGE))]) as server:
        row = solve(nel, server, {"agent": "asker:Asker"}, ["plain"], LOCAL)["plain"]
    assert row["reward"] == 1.0 and row["model_response"] == "asked and ran", row
    assert row["prompt_tokens"] == 10 and row["scoring_details"]["agent_version"] == "7"


# What Harbor's own installation of the agent asks for is there already; it has no network.
PREINSTALLED = """\
FROM nel-test/python:bookworm
COPY site /opt/site
RUN for p in uv curl gcc make; do printf '#!/bin/sh\\n' > /usr/local/bin/$p; chmod +x /usr/local/bin/$p; done; \
    cd /usr/local/bin && chmod +x uv && \
    printf '#!/bin/sh\\nPYTHONPATH=/opt/site exec python3 -m minisweagent.run.mini "$@"\\n' > mini-swe-agent && \
    chmod +x mini-swe-agent
WORKDIR /app
"""


def mini_swe(seen: Any) -> Say:
    """First the work, then the word that ends it."""
    worked = any(message["role"] == "tool" for message in seen.body["messages"])
    command = (
        "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT" if worked else "echo hello > /app/hello.txt"
    )
    call = {"id": f"call_{int(worked)}", "name": "bash", "arguments": {"command": command}}
    return Say("I run a command.", tool_calls=[call], usage=USAGE)


@pytest.mark.large
@pytest.mark.needs("docker", "harbor", "mini_swe_agent")
def test_mini_swe_agent_as_it_is_published(nel: Nel, parts_dir: Path) -> None:
    task = shutil.copytree(TASKS / "plain", nel.folder / "tasks" / "plain")
    unused = shutil.ignore_patterns("pyarrow*", "pandas*", "numpy*", "botocore*", "__pycache__")
    shutil.copytree(parts_dir / "mini-swe-agent", task / "environment" / "site", ignore=unused)
    (task / "environment" / "Dockerfile").write_text(PREINSTALLED)
    settings = (task / "task.toml").read_text().replace("memory_mb = 256", "memory_mb = 1024")
    (task / "task.toml").write_text(settings.replace("timeout_sec = 60", "timeout_sec = 600"))
    with ScriptedServer(mini_swe) as server:
        row = solve(
            nel,
            server,
            {"agent": "mini-swe-agent"},
            ["plain"],
            DOCKER,
            name=f"harbor://{nel.folder / 'tasks'}",
        )["plain"]
        assert server.count == 2, row
    assert row["reward"] == 1.0, row
    assert (row["prompt_tokens"], row["completion_tokens"]) == (20, 4)
    (document,) = row["trajectory"]
    assert document["agent"]["name"] == "mini-swe-agent" and validate_trajectory(document) == []
