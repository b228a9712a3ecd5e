"""The loop, with a scripted model over real HTTP and real sources of tools."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nemo_evaluator.config import ToolCallingSolverConfig
from nemo_evaluator.config.groups import SOLVERS
from nemo_evaluator.core.errors import ContextExceededError, TransportError, UsageError
from nemo_evaluator.core.types import ErrorKind, SeedResult, SolveResult
from nemo_evaluator.models import CallScope, Client, Endpoint, call_scope
from nemo_evaluator.models.budget import Budget
from nemo_evaluator.solvers.base import SolverContext
from nemo_evaluator.solvers.tool_calling import ToolCallingSolver
from nemo_evaluator.solvers.tools.base import Tool, ToolResult
from nemo_evaluator.solvers.tools.gym import GymTools
from nemo_evaluator.solvers.tools.mcp import McpServer
from nemo_evaluator.solvers.tools.sandbox import SandboxTools
from nemo_evaluator.testing import Say, ScriptedServer, Seen, validate_trajectory

MCP_SERVER = str(Path(__file__).parent / "mcp_server.py")
USAGE = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}


def call(name: str, arguments: Any, identity: str = "c0") -> dict[str, Any]:
    """A tool call of a script."""
    return {"id": identity, "name": name, "arguments": arguments}


def calls(*given: dict[str, Any], text: str = "") -> Say:
    """An answer that asks for tools."""
    return Say(text, tool_calls=list(given), finish_reason="tool_calls", usage=USAGE)


class Echo:
    """A source with one tool, which says its arguments back."""

    name = "echo"

    async def open(self, task: SeedResult, sandbox: Any) -> Echo:
        return self

    async def tools(self) -> list[Tool]:
        return [Tool("echo", "Says it back.", {"type": "object", "properties": {"x": {}}})]

    async def call(self, tool: str, arguments: dict[str, Any], timeout: float) -> ToolResult:
        return ToolResult(f"echo {arguments.get('x')}")

    def describe(self) -> dict[str, Any]:
        return {"kind": "echo"}

    async def close(self) -> None:
        pass


async def solve(
    script: Any,
    sources: list[Any] | None = None,
    task: SeedResult | None = None,
    sandbox: Any = None,
    **settings: Any,
) -> tuple[SolveResult, list[Seen], list[dict[str, Any]]]:
    """Run the solver against a script; gives the answer, the requests and the recorded turns."""
    turns: list[dict[str, Any]] = []
    call_scope.set(
        replace(call_scope.get() or CallScope(), keep_turn=lambda step, turn: turns.append(turn))
    )
    async with (
        ScriptedServer(script) as server,
        Client(Endpoint(name="m", url=server.url, model="m-1")) as client,
    ):
        solver = ToolCallingSolver(client, sources or [Echo()], **settings)
        result = await solver.solve(task or SeedResult("the question", "a"), sandbox=sandbox)
        return result, list(server.requests), turns


@pytest.mark.needs("bwrap", "fastapi", "mcp")
@pytest.mark.filterwarnings("ignore:.*:DeprecationWarning")
async def test_a_task_that_needs_every_tool(gym: Any) -> None:
    """A scripted model uses the sandbox, the Gym server and both kinds of MCP server in one problem."""
    from nemo_evaluator.core.types import SandboxSpec
    from nemo_evaluator.sandbox.local import LocalSandbox

    script = [
        calls(
            call("web_search", {"query": "paris", "limit": 1}, "a"),
            call("add_note", {"text": "n"}, "b"),
        ),
        calls(call("file_write", {"path": "p/notes.txt", "content": "alpha\nbeta\n"})),
        calls(
            call(
                "str_replace_editor",
                {
                    "command": "str_replace",
                    "path": "p/notes.txt",
                    "old_str": "beta",
                    "new_str": "42",
                },
            )
        ),
        calls(call("file_read", {"path": "p/notes.txt"}), text="let me check"),
        calls(call("bash", {"command": "tail -1 p/notes.txt; exit 3"})),
        Say("The answer is 42.", usage=USAGE),
    ]
    sources = [
        SandboxTools(),
        GymTools("tools", gym.url),
        McpServer(name="notes", command=sys.executable, args=[MCP_SERVER]),
    ]
    task = SeedResult("the question", "42", metadata={"city": "Paris"})
    async with LocalSandbox(SandboxSpec()) as sandbox:
        result, requests, turns = await solve(script, sources, task, sandbox)

    assert (result.response, result.error) == ("The answer is 42.", None)
    (document,) = result.trajectory
    assert validate_trajectory(document, strict=True) == []
    agent = [step for step in document["steps"] if step["source"] == "agent"]
    seen = {
        made["function_name"]: found["content"]
        for step in agent
        for made, found in zip(
            step.get("tool_calls", []), step.get("observation", {}).get("results", []), strict=True
        )
    }
    assert '"city": "Paris"' in seen["web_search"]
    assert seen["add_note"] == "1 notes"
    assert seen["file_read"] == "alpha\n42\n"
    assert seen["bash"] == "[exit code 3]\n42"
    outcomes = [
        outcome for step in agent for outcome in step.get("extra", {}).get("tool_outcomes", [])
    ]
    assert [(o["source"], o["is_error"]) for o in outcomes] == [
        ("tools", False),
        ("notes", False),
        ("sandbox", False),
        ("sandbox", False),
        ("sandbox", False),
        ("sandbox", True),
    ]
    assert all(outcome["latency_ms"] > 0 for outcome in outcomes)
    assert all(
        step["metrics"]["prompt_tokens"] == 10 and step["metrics"]["extra"]["latency_ms"] > 0
        for step in agent
    )
    assert document["final_metrics"]["total_prompt_tokens"] == 60
    assert document["agent"]["model_name"]
    offered = [tool["function"]["name"] for tool in requests[0].body["tools"]]
    assert {"bash", "notes_bash", "web_search", "add_note"} <= set(offered)
    # Each turn was handed over as it happened: what the model said, then what the tools said.
    assert [(turn["turn"], turn["event"]) for turn in turns] == [
        *((n, event) for n in range(1, 6) for event in ("model", "tools")),
        (6, "model"),
    ]
    reply = result.model_response
    assert reply is not None
    assert (reply.prompt_tokens, reply.completion_tokens, reply.total_tokens) == (60, 30, 90)


async def test_the_conversation_is_sent_as_the_protocol_wants_it() -> None:
    task = SeedResult("q", "a", system="the task's")
    result, requests, _ = await solve(
        [calls(call("echo", {"x": 1}), text="hm"), "done"], task=task, system_prompt="mine"
    )
    made = {"id": "c0", "type": "function", "function": {"name": "echo", "arguments": '{"x":1}'}}
    assert requests[1].body["messages"] == [
        {"role": "system", "content": "mine"},
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": "hm", "tool_calls": [made]},
        {"role": "tool", "tool_call_id": "c0", "content": "echo 1"},
    ]
    assert result.model_response is not None
    assert result.model_response.request_body == {"messages": requests[0].body["messages"]}


async def test_generation_and_messages_of_the_task_are_used() -> None:
    task = SeedResult(
        "q", "a", messages=[{"role": "system", "content": "own"}, {"role": "user", "content": "q2"}]
    )
    _, requests, _ = await solve(["done"], task=task, generation={"temperature": 0.25})
    assert requests[0].body["temperature"] == 0.25
    assert requests[0].body["messages"] == task.messages


async def test_nonsense_from_the_model_is_answered_and_the_loop_goes_on() -> None:
    script = [
        calls(
            call("fly", {}),
            call("echo", '{"x": broken'),
            call("echo", "[1]"),
            call("", {}),
            call("echo", {"x": 1}, ""),
        ),
        calls(call("echo", {"x": 2})),
        "done",
    ]
    result, requests, _ = await solve(script)
    assert result.response == "done"
    assert validate_trajectory(result.trajectory[0], strict=True) == []
    sent = requests[1].body["messages"]
    assert [
        json.loads(made["function"]["arguments"]) is not None for made in sent[1]["tool_calls"]
    ] == [True] * 5
    told = [message["content"] for message in sent if message["role"] == "tool"]
    assert told[0].startswith("There is no tool named 'fly'.")
    assert told[1].startswith("The arguments are not a valid JSON object")
    assert told[2].startswith("The arguments are not a valid JSON object")
    assert told[3].startswith("There is no tool named '(unnamed)'")
    assert told[4] == "echo 1"
    identities = [made["id"] for made in requests[2].body["messages"][1]["tool_calls"]]
    identities += [made["id"] for made in requests[2].body["messages"][7]["tool_calls"]]
    assert len(set(identities)) == 6


async def test_turns_that_run_out_leave_the_answer_as_it_stands() -> None:
    result, requests, _ = await solve(calls(call("echo", {"x": 1}), text="so far"), max_turns=3)
    assert len(requests) == 3
    assert (result.error, result.error_kind, result.response) == (
        "max_turns_exhausted (3 turns)",
        ErrorKind.GRACEFUL,
        "so far",
    )
    (document,) = result.trajectory
    assert validate_trajectory(document, strict=True) == []
    assert document["extra"] == {
        "status": "error",
        "error": "max_turns_exhausted (3 turns)",
        "turns": 3,
    }


async def test_long_output_is_cut_and_the_artifact_mode_answers_with_nothing() -> None:
    script = [calls(call("echo", {"x": "y" * 500})), "done"]
    result, requests, _ = await solve(
        script, max_output_chars=100, response_mode="sandbox_artifact"
    )
    assert "[truncated 405 chars]" in requests[1].body["messages"][-1]["content"]
    assert result.response == ""
    assert result.model_response is not None
    assert result.model_response.content == "done"


def _too_long_after(limit: int) -> Callable[[Seen], Say]:
    def answer(seen: Seen) -> Say:
        if len(seen.raw) > limit:
            message = (
                "This model's maximum context length is 2048 tokens, however you requested more"
            )
            return Say(status=400, message=message)
        turn = sum(1 for message in seen.body["messages"] if message["role"] == "assistant")
        last = seen.body["messages"][-1]["content"]
        return (
            calls(call("echo", {"x": "z" * 6000}, f"t{turn}"))
            if "left out" not in seen.raw.decode()
            else Say(last[:6])
        )

    return answer


async def test_a_context_that_is_smaller_than_thought_is_met_with_less() -> None:
    result, requests, _ = await solve(_too_long_after(16_000), max_turns=20)
    assert (result.response, result.error) == ("echo z", None)
    assert "left out to fit the context" in requests[-1].raw.decode()


async def test_a_context_that_cannot_be_met_is_an_answer_as_it_stands_but_a_question_too_long_is_not() -> (
    None
):
    result, _, _ = await solve(_too_long_after(3_000))
    assert result.error is not None
    assert result.error.startswith("context_exceeded")
    assert result.error_kind is ErrorKind.GRACEFUL
    with pytest.raises(ContextExceededError):
        await solve(_too_long_after(10))


async def test_a_budget_of_the_step_leaves_the_answer_as_it_stands() -> None:
    budget = Budget("step 0.0", requests=2, step=True)
    call_scope.set(CallScope("session", "bench", 0, 0, (budget,)))
    result, requests, _ = await solve(calls(call("echo", {"x": 1}), text="so far"), max_turns=9)
    assert len(requests) == 2
    assert result.error is not None
    assert result.error.startswith("budget (")
    assert (result.error_kind, result.response) == (ErrorKind.GRACEFUL, "so far")
    assert len(result.trajectory[0]["steps"]) == 3


async def test_an_agent_that_is_ended_from_outside_has_offered_what_it_had() -> None:
    class Slow(Echo):
        async def call(self, tool: str, arguments: dict[str, Any], timeout: float) -> ToolResult:
            await asyncio.sleep(60)
            return ToolResult("late")

    for script, asked in (
        (calls(call("echo", {"x": 1}), text="so far"), 1),
        (Say("late", delay=60), 0),
    ):
        call_scope.set(agent := CallScope())
        async with (
            ScriptedServer(script) as server,
            Client(Endpoint(name="m", url=server.url, model="m-1")) as client,
        ):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.5):
                    await ToolCallingSolver(client, [Slow()]).solve(SeedResult("the question", "a"))
        assert agent.partial is not None
        answer = agent.partial("budget (time)")
        if asked == 0:
            assert answer is None
            continue
        assert answer is not None
        assert (answer.response, answer.error, answer.error_kind) == (
            "so far",
            "budget (time)",
            ErrorKind.GRACEFUL,
        )
        assert validate_trajectory(answer.trajectory[0]) == []


async def test_pictures_of_the_problem_are_sent() -> None:
    task = SeedResult("what is it?", "a", images=["https://example.org/cat.png"])
    _, requests, _ = await solve(["a cat"], task=task)
    content = requests[0].body["messages"][0]["content"]
    assert content[0]["image_url"]["url"] == "https://example.org/cat.png"
    assert content[1] == {"type": "text", "text": "what is it?"}


async def test_a_model_that_fails_is_a_failure_not_an_answer() -> None:
    class Gone(Echo):
        async def call(self, tool: str, arguments: dict[str, Any], timeout: float) -> ToolResult:
            raise TransportError("tool server is gone")

    with pytest.raises(TransportError, match="tool server is gone"):
        await solve([calls(call("echo", {}))], [Gone()])


async def test_sources_are_closed_whatever_happens() -> None:
    closed = []

    class Closes(Echo):
        async def close(self) -> None:
            closed.append(self)

        async def tools(self) -> list[Tool]:
            raise TransportError("no list")

    with pytest.raises(TransportError):
        await solve(["x"], [Closes()])
    assert len(closed) == 1


async def test_the_config_builds_every_source_and_its_fingerprint_has_no_port_and_no_secret() -> (
    None
):
    config = ToolCallingSolverConfig(
        type="tool_calling",
        service="model",
        resource_service="tools",
        sandbox_tools=True,
        mcp_servers=[{"name": "notes", "command": "notes", "env": {"TOKEN": "topsecret"}}],
        max_turns=7,
        generation={"temperature": 0.5},
    )
    client = Client(Endpoint(name="model", url="http://127.0.0.1:9/v1"))
    context = SolverContext(clients={"model": client}, base_urls={"tools": "http://127.0.0.1:8123"})
    solver = SOLVERS.build(config.type, config, context)
    assert isinstance(solver, ToolCallingSolver)
    described = json.dumps(solver.describe())
    assert '"kind": "sandbox"' in described
    assert '"service": "tools"' in described
    assert '"max_turns": 7' in described
    assert "8123" not in described
    assert "topsecret" not in described
    await client.close()


async def test_a_completions_service_is_refused() -> None:
    config = ToolCallingSolverConfig(type="tool_calling", service="model", sandbox_tools=True)
    client = Client(Endpoint(name="model", url="http://127.0.0.1:9/v1", protocol="completions"))
    with pytest.raises(UsageError, match="speaks completions"):
        SOLVERS.build(config.type, config, SolverContext(clients={"model": client}))
    await client.close()
