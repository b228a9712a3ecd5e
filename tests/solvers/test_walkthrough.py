"""The tool-calling configs of the examples, run whole, with URL, key, image and dataset replaced by local ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from nemo_evaluator.cli.main import nel
from nemo_evaluator.core.files import iter_jsonl
from nemo_evaluator.testing import Say, ScriptedServer, Seen, validate_trajectory

EXAMPLES = Path(__file__).parents[2] / "examples" / "configs"
BENCHMARK = """
from nemo_evaluator import ScorerInput, benchmark, scorer

ROWS = [{"q": f"find {at}", "a": f"answer-{at}", "city": f"city{at}"} for at in range(3)]


@benchmark(name="toolbench", dataset=lambda: ROWS, prompt="{q}", target_field="a")
@scorer
def check(sample: ScorerInput) -> dict:
    return {"correct": sample.target in sample.response}
"""


def _model(seen: Seen) -> Say:
    """Uses the first tool it knows, calls one that is not there, and answers."""
    messages = seen.body["messages"]
    number = next(m["content"] for m in messages if m["role"] == "user").split()[-1]
    offered = [tool["function"]["name"] for tool in seen.body["tools"]]
    turn = sum(message["role"] == "assistant" for message in messages)
    known: dict[str, Any] = {
        "web_search": {"query": f"answer-{number}", "limit": 1},
        "bash": {"command": f"echo answer-{number}"},
    }
    script = [[name for name in known if name in offered], ["no_such_tool"]]
    if turn < len(script):
        calls = [
            {"id": f"c{at}", "name": n, "arguments": known.get(n, {})}
            for at, n in enumerate(script[turn])
        ]
        return Say("", tool_calls=calls, finish_reason="tool_calls")
    told = " ".join(m["content"] for m in messages if m["role"] == "tool")
    return Say(f"I was told: {told}")


@pytest.mark.needs("bwrap", "fastapi")
@pytest.mark.filterwarnings("ignore:.*:DeprecationWarning")
@pytest.mark.parametrize(
    ("example", "sources", "kind"),
    [
        ("21_tool_calling_gym", {"tools"}, None),
        ("22_tool_calling_sandbox", {"sandbox"}, "local"),
        ("23_tool_calling_combined", {"tools", "sandbox"}, "local"),
        pytest.param(
            "23_tool_calling_combined",
            {"tools", "sandbox"},
            "docker",
            marks=pytest.mark.needs("docker"),
        ),
    ],
)
def test_the_example_runs_and_every_call_is_on_record(
    example: str,
    sources: set[str],
    kind: str | None,
    gym: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bench.py").write_text(BENCHMARK)
    config = yaml.safe_load((EXAMPLES / f"{example}.yaml").read_text())
    (bench,) = config["benchmarks"]
    bench["name"] = "bench.py"
    bench["solver"]["response_mode"] = "last_message"
    if kind is not None:
        bench["sandbox"] |= (
            {"type": kind, "image": "nel-test/python:bookworm"}
            if kind == "docker"
            else {"type": kind}
        )
    if "tools" in config["services"]:
        config["services"]["tools"]["url"] = gym.url
    with ScriptedServer(_model) as server:
        config["services"]["model"] |= {
            "url": f"{server.url}/chat/completions",
            "api_key": "a-local-key",
        }
        (tmp_path / "config.yaml").write_text(yaml.safe_dump(config))
        result = CliRunner().invoke(
            nel, ["eval", "run", "config.yaml", "-o", "out"], catch_exceptions=False
        )
    assert result.exit_code == 0, result.output
    task = next((tmp_path / "out").glob("*/results.jsonl")).parent
    rows = list(iter_jsonl(task / "results.jsonl"))
    assert [row["reward"] for row in rows] == [1.0, 1.0, 1.0]
    for row in iter_jsonl(task / "trajectories.jsonl"):
        (document,) = row["trajectory"]
        assert validate_trajectory(document, strict=True) == []
        outcomes = [
            o for step in document["steps"] for o in step.get("extra", {}).get("tool_outcomes", [])
        ]
        assert {outcome["source"] for outcome in outcomes if outcome["source"]} == sources
        assert outcomes[-1]["is_error"] is True
    if "tools" in sources:
        # The row's own columns seeded the session.
        assert '"city1"' in json.dumps(rows[1]["trajectory"]).replace("\\", "")
    turns = [
        record for record in iter_jsonl(task / "journal.jsonl") if record.get("kind") == "turn"
    ]
    assert len(turns) == 3 * 5


@pytest.mark.slow
@pytest.mark.needs("bwrap", "model", "xllamacpp")
def test_the_embedded_model_goes_through_the_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A small model makes little sense of tools; whatever it says ends in a scored row, never in a crash."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bench.py").write_text(BENCHMARK)
    solver = {"type": "tool_calling", "service": "tiny", "sandbox_tools": True, "max_turns": 2}
    config = {
        "services": {
            "tiny": {"type": "llama_cpp", "model": "smollm2-135m", "context_size": 2048, "slots": 1}
        },
        "benchmarks": [
            {
                "name": "bench.py",
                "max_problems": 1,
                "solver": solver | {"generation": {"temperature": 0.0, "max_tokens": 24}},
                "sandbox": {"type": "local"},
            }
        ],
    }
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(config))
    result = CliRunner().invoke(
        nel, ["eval", "run", "config.yaml", "-o", "out"], catch_exceptions=False
    )
    # 3: the only answer was cut off, so the run is INVALID.
    assert result.exit_code in (0, 3), result.output
    (row,) = iter_jsonl(next((tmp_path / "out").glob("*/results.jsonl")))
    assert row["status"] == "scored"
    assert validate_trajectory(row["trajectory"][0], strict=True) == []


ARTIFACT = """
from nemo_evaluator import ScorerInput, benchmark, scorer

ROWS = [{"q": f"write {at}", "a": f"answer-{at}"} for at in range(2)]


@benchmark(name="artifacts", dataset=lambda: ROWS, prompt="{q}", target_field="a")
@scorer
async def check(sample: ScorerInput) -> dict:
    found = await sample.sandbox.exec("cat /workspace/answer.txt")
    return {"correct": found.stdout.strip() == sample.target, "extracted": found.stdout.strip()}
"""


def _writer(seen: Seen) -> Say:
    """Writes the answer into the sandbox, then says that it is done."""
    messages = seen.body["messages"]
    number = next(m["content"] for m in messages if m["role"] == "user").split()[-1]
    if any(message["role"] == "assistant" for message in messages):
        return Say("Done.")
    call = {
        "id": "c0",
        "name": "bash",
        "arguments": {"command": f"echo answer-{number} > /workspace/answer.txt"},
    }
    return Say("", tool_calls=[call], finish_reason="tool_calls")


@pytest.mark.needs("docker")
def test_the_state_of_a_docker_sandbox_is_the_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Example 22 as it is written: docker, and ``response_mode: sandbox_artifact``."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bench.py").write_text(ARTIFACT)
    config = yaml.safe_load((EXAMPLES / "22_tool_calling_sandbox.yaml").read_text())
    (bench,) = config["benchmarks"]
    assert (bench["sandbox"]["type"], bench["solver"]["response_mode"]) == (
        "docker",
        "sandbox_artifact",
    )
    bench |= {"name": "bench.py"}
    bench["sandbox"] |= {"image": "nel-test/python:bookworm"}
    with ScriptedServer(_writer) as server:
        config["services"]["model"] |= {
            "url": f"{server.url}/chat/completions",
            "api_key": "a-local-key",
        }
        (tmp_path / "config.yaml").write_text(yaml.safe_dump(config))
        result = CliRunner().invoke(
            nel, ["eval", "run", "config.yaml", "-o", "out"], catch_exceptions=False
        )
    assert result.exit_code == 0, result.output
    rows = list(iter_jsonl(next((tmp_path / "out").glob("*/results.jsonl"))))
    assert [row["extracted_answer"] for row in rows] == ["answer-0", "answer-1"]
