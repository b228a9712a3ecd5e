"""The examples of the walkthrough with agents and harnesses, as written: a local image, local tasks and a stand-in for
AWS take the place of the published ones."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from docker_image import docker
from harness_image import build_harness
from moto_server import REGION, aws

from nemo_evaluator.cli.main import nel
from nemo_evaluator.core.processes import free_port
from nemo_evaluator.sandbox import ecs_provider
from nemo_evaluator.servers.process import port_is_busy
from nemo_evaluator.testing import Say, ScriptedServer, validate_trajectory

__all__ = ["aws"]
ROOT = Path(__file__).parents[2]
TASKS = ROOT / "tests" / "support" / "harbor_tasks"
USAGE = {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12}
WORK = "echo hello > hello.txt"
PATCH = """diff --git a/hello.txt b/hello.txt
new file mode 100644
--- /dev/null
+++ b/hello.txt
@@ -0,0 +1 @@
+hello
"""


def run(
    folder: Path, monkeypatch: pytest.MonkeyPatch, example: str, url: str, *words: str
) -> list[dict[str, Any]]:
    """Run an example with the model of ``url``; its rows, each with its trajectory."""
    text = (
        (ROOT / "examples" / "configs" / example)
        .read_text()
        .replace("https://integrate.api.nvidia.com/v1", url)
    )
    (folder / example).write_text(text)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("NVIDIA_API_KEY", "nvapi-walkthrough-key")
    done = CliRunner().invoke(nel, ["eval", "run", example, *words], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    (results,) = (folder / "eval_results").glob("*/results.jsonl")
    rows = [json.loads(line) for line in results.read_text().splitlines()]
    for line in results.with_name("trajectories.jsonl").read_text().splitlines():
        record = json.loads(line)
        rows[record["problem_idx"]]["trajectory"] = record.get("trajectory")
    everything = b"".join(
        path.read_bytes() for path in (folder / "eval_results").rglob("*") if path.is_file()
    )
    assert b"nvapi-walkthrough-key" not in everything
    return rows


def registry(
    folder: Path, monkeypatch: pytest.MonkeyPatch, dataset: str, image: str, count: int = 3
) -> None:
    """A registry of Harbor with a dataset of tasks that run in an image."""
    repository = folder / "repository"
    for number in range(count):
        task = shutil.copytree(TASKS / "plain", repository / f"task-{number}")
        shutil.rmtree(task / "environment")
        about = (
            (task / "task.toml")
            .read_text()
            .replace("[environment]", f'[environment]\ndocker_image = "{image}"')
        )
        (task / "task.toml").write_text(about.replace("timeout_sec = 60", "timeout_sec = 300"))
    git = ["git", "-C", str(repository), "-c", "user.name=t", "-c", "user.email=t@example.com"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "tasks"]):
        subprocess.run([*git, *words], check=True)
    source = {"git_url": repository.as_uri()}
    tasks = [
        {"name": f"task-{number}", "path": f"task-{number}", **source} for number in range(count)
    ]
    (folder / "registry.json").write_text(
        json.dumps([{"name": dataset, "version": "1.0", "tasks": tasks}])
    )
    monkeypatch.setenv("HARBOR_REGISTRY", str(folder / "registry.json"))
    monkeypatch.setenv("HARBOR_DATASETS_DIR", str(folder / "data"))
    monkeypatch.setenv("NEL_DATA_LOCK", str(folder / "lock.json"))


@pytest.mark.needs("docker", "git")
def test_section_7_a_gym_server_runs_the_agent_and_we_verify(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry(tmp_path, monkeypatch, "swebench_multilingual", "nel-test/python:bookworm")
    port = free_port()
    environment = {**os.environ, "PORT": str(port), "AGENTS": "openhands", "PATCHES": "1"}
    gym = subprocess.Popen(
        [sys.executable, str(ROOT / "tests" / "support" / "gym_stand_in.py")], env=environment
    )
    said = iter([PATCH, PATCH, PATCH.replace("+hello", "+good bye")])
    try:
        until = time.monotonic() + 180
        while not port_is_busy(port):
            assert time.monotonic() < until
            time.sleep(0.05)
        with ScriptedServer(lambda seen: Say(next(said), usage=USAGE)) as server:
            address = f"services.swe_gym.url=http://localhost:{port}"
            rows = run(tmp_path, monkeypatch, "09_gym_runtime.yaml", server.url, "-O", address)
    finally:
        gym.kill()
        gym.wait()
    # Two of three are right by our tests, whatever the Gym's own reward (0.25) says.
    assert sorted(row["reward"] for row in rows) == [0.0, 1.0, 1.0]
    assert all(
        row["scoring_details"]["patch_applied"] and row["prompt_tokens"] == 10 for row in rows
    )
    assert rows[0]["scoring_details"]["verified_in"] == "a fresh sandbox"


@pytest.mark.needs("docker")
def test_section_14_a_harness_container(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    image = build_harness(tmp_path / "image")
    words: list[str] = []
    for place in ("name", "solver.uri"):
        words += ["-O", f"benchmarks.0.{place}=container://{image}#gsm8k"]

    def double(seen: Any) -> str:
        return str(2 * int(seen.prompt.split()[3]))

    with ScriptedServer(double) as server:
        rows = run(tmp_path, monkeypatch, "14_container_nemo_skills.yaml", server.url, *words)
        assert server.count == 4
    assert [row["reward"] for row in rows] == [1.0] * 4


# What Harbor's own runner of the OpenHands SDK uses of it, with one tool: what the model says is run.
SDK = """
import json, os, subprocess, time, urllib.request
from types import SimpleNamespace as Thing
__version__ = "0.0-stand-in"
class LLM:
    def __init__(self, model, api_key, base_url, **_):
        self.model, self.key, self.url = model.removeprefix("openai/"), api_key, base_url
        self.metrics = Thing(accumulated_token_usage=None, accumulated_cost=0.0)
    def ask(self, text):
        body = {"model": self.model, "messages": [{"role": "user", "content": text}]}
        headers = {"Authorization": "Bearer " + self.key, "Content-Type": "application/json"}
        request = urllib.request.Request(self.url + "/chat/completions", json.dumps(body).encode(), headers)
        return json.load(urllib.request.urlopen(request))["choices"][0]["message"]["content"]
class Agent:
    def __init__(self, llm, **_): self.llm, self.tools_map, self.static_system_message = llm, {}, "s"
class AgentContext:
    def __init__(self, skills): pass
class Tool:
    def __init__(self, name): pass
class Conversation:
    def __init__(self, agent, workspace, max_iteration_per_run=None):
        assert max_iteration_per_run == 100, max_iteration_per_run
        self.agent, self.workspace, self.state = agent, workspace, Thing(events=[])
    def send_message(self, text): self.text = text
    def run(self): subprocess.run(self.agent.llm.ask(self.text), shell=True, check=True, cwd=self.workspace)
def get_logger(name): return Thing(debug=print)
"""
OPENHANDS = {
    "openhands/sdk/__init__.py": SDK,
    "openhands/sdk/context.py": "class Skill: pass",
    "openhands/sdk/event.py": "class ActionEvent: pass\nclass MessageEvent: pass\nclass ObservationEvent: pass\n"
    "class TokenEvent: pass",
    "openhands/tools/file_editor.py": "class FileEditorTool: name = 'f'",
    "openhands/tools/task_tracker.py": "class TaskTrackerTool: name = 't'",
    "openhands/tools/terminal.py": "class TerminalTool: name = 'b'",
}
IMAGE = "nel-test/openhands:1"
DOCKERFILE = """FROM nel-test/python:bookworm
COPY site /opt/site
RUN mkdir -p /opt/openhands-sdk-venv/bin && cd /opt/openhands-sdk-venv/bin && \
    printf '#!/bin/sh\\nPYTHONPATH=/opt/site exec python3 "$@"\\n' > python && chmod +x python && \
    printf '#!/bin/sh\\n' > /usr/local/bin/curl && chmod +x /usr/local/bin/curl
WORKDIR /app
"""


class Container:
    """Stands for a Fargate task and the tunnel to it: the task's image and command, in docker."""

    def __init__(self, definition: dict[str, Any], environment: list[dict[str, str]]) -> None:
        main = next(one for one in definition["containerDefinitions"] if one["name"] == "main")
        port = free_port()
        (command,) = main["command"]
        told = [word for one in environment for word in ("-e", f"{one['name']}={one['value']}")]
        words = [
            "run",
            "-d",
            "--network",
            "host",
            *told,
            "--entrypoint",
            main["entryPoint"][0],
            main["image"],
        ]
        self.name = docker(
            *words, *main["entryPoint"][1:], f"{command.rpartition(' ')[0]} {port}"
        ).strip()
        self.url = f"http://127.0.0.1:{port}"

    def inside(self, url: str) -> str:
        return url

    async def close(self) -> None:
        await asyncio.to_thread(docker, "rm", "-f", self.name)


@pytest.mark.large
@pytest.mark.needs("docker", "git", "harbor", "moto")
def test_section_6_an_agent_of_harbor_in_fargate_tasks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, aws: str
) -> None:
    for name, text in OPENHANDS.items():
        (tmp_path / "image" / "site" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "image" / "site" / name).write_text(text)
    (tmp_path / "image" / "Dockerfile").write_text(DOCKERFILE)
    docker("build", "-q", "-t", IMAGE, str(tmp_path / "image"))
    registry(tmp_path, monkeypatch, "swebench-verified", IMAGE)
    ecs = ecs_provider.aws_client("ecs", REGION)
    ecs.create_cluster(clusterName="harbor-cluster")
    containers: list[Container] = []

    async def connect(
        self: ecs_provider.EcsProvider, address: str, outside: list[str]
    ) -> Container:
        arns = ecs.list_tasks(cluster="harbor-cluster")["taskArns"]
        tasks = ecs.describe_tasks(cluster="harbor-cluster", tasks=arns)["tasks"]
        (task,) = (
            one
            for one in tasks
            if any(a["details"] and address in str(a) for a in one["attachments"])
        )
        definition = ecs.describe_task_definition(taskDefinition=task["taskDefinitionArn"])[
            "taskDefinition"
        ]
        override = task["overrides"]["containerOverrides"][0]["environment"]
        container = await asyncio.to_thread(Container, definition, override)
        containers.append(container)
        return container

    monkeypatch.setattr(ecs_provider.EcsProvider, "connect", connect)
    keys = "{public_key_secret_arn: arn:public, private_key_secret_arn: private}"
    words = [f"benchmarks.0.sandbox.subnets=[{aws}]", f"benchmarks.0.sandbox.ssh_sidecar={keys}"]
    words += [f"benchmarks.0.sandbox.region={REGION}"]
    with ScriptedServer(lambda seen: Say(WORK, usage=USAGE)) as server:
        given = [word for one in words for word in ("-O", one)]
        rows = run(tmp_path, monkeypatch, "07_swebench_harbor.yaml", server.url, *given)
        assert server.count == 3
    assert [row["reward"] for row in rows] == [1.0] * 3
    for row in rows:
        assert (
            row["prompt_tokens"] == 10 and row["scoring_details"]["agent_version"] == "0.0-stand-in"
        )
        (document,) = row["trajectory"]
        assert document["agent"]["name"] == "openhands-sdk" and validate_trajectory(document) == []
    # A task for each agent and one for each verifier, and all are stopped.
    assert len(containers) == 6
    tasks = ecs.list_tasks(cluster="harbor-cluster", desiredStatus="RUNNING")["taskArns"]
    assert tasks == []
    assert not {one.name for one in containers} & set(docker("ps", "-aq", "--no-trunc").split())
