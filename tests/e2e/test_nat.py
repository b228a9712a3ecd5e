"""``nat``: a workflow of the NeMo Agent Toolkit answers, from a stand-in and from the real one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from nel_support import Nel, Serve, Sums, rows

from nemo_evaluator.core.processes import free_port
from nemo_evaluator.servers.process import port_is_busy
from nemo_evaluator.testing import validate_trajectory

STAND_IN = Path(__file__).parents[1] / "support" / "nat_stand_in.py"


@pytest.fixture(params=["", "1"], ids=["new path", "old path"])
def agent(request: pytest.FixtureRequest) -> Iterator[str]:
    port = free_port()
    env = {**os.environ, "PORT": str(port), "LEGACY": request.param}
    process = subprocess.Popen([sys.executable, STAND_IN], env=env)
    try:
        while not port_is_busy(port):
            assert process.poll() is None
            time.sleep(0.02)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


def run(
    nel: Nel, service: dict[str, Any], file: str, word: str, code: int = 0
) -> list[dict[str, Any]]:
    solver = {"type": word, "service": "agent"}
    bench = {"name": file, "id": "b", "solver": solver, "max_system_retries": 1}
    config = nel.config(
        "c.yaml", services={"agent": service}, benchmarks=[bench], output={"dir": "out"}
    )
    nel("eval", "run", config, code=code, timeout=400)
    return rows(nel.folder / "out" / "b")


def test_an_agent_answers_and_its_errors_are_failures(nel: Nel, sums: Sums, agent: str) -> None:
    got = run(nel, {"type": "nat", "url": agent}, sums(4), "nat", code=3)
    assert [row["reward"] for row in got] == [1.0, None, None, 1.0]
    assert "Connection error" in got[1]["failure"]["message"]
    assert "ended without an answer" in got[2]["failure"]["message"]
    assert got[3]["tokens"] == 14
    lines = (nel.folder / "out" / "b" / "trajectories.jsonl").read_text().splitlines()
    document = next(
        json.loads(line)["trajectory"][0] for line in lines if json.loads(line)["problem_idx"] == 3
    )
    validate_trajectory([document])
    assert document["steps"][1]["tool_calls"][0]["arguments"] == {"n": 3}
    assert document["steps"][1]["observation"]["results"][0]["content"] == "sum"


@pytest.mark.large
@pytest.mark.needs("nat")
def test_a_real_workflow(nel: Nel, serve: Serve, sums: Sums, nat_bin: Path) -> None:
    server = serve(lambda seen: str(2 * int(str(seen.body["messages"][-1]["content"]).split()[3])))
    llm = {"_type": "openai", "model_name": "m", "base_url": server.url, "api_key": "k"}
    workflow = {"llms": {"m": llm}, "workflow": {"_type": "chat_completion", "llm_name": "m"}}
    (nel.folder / "config.yml").write_text(json.dumps(workflow))
    nel.env["PATH"] = f"{nat_bin}{os.pathsep}{nel.env['PATH']}"
    service = {
        "type": "nat_agent",
        "nat_config_file": "config.yml",
        "port": free_port(),
        "startup_timeout": 300,
    }
    got = run(nel, service, sums(3), "nat_agent")
    assert [row["reward"] for row in got] == [1.0] * 3 and len(server.requests) == 3
