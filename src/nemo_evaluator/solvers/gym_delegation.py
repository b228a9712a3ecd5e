"""``gym_delegation``: a Gym server that runs its own agent against the model."""

import asyncio
import uuid
from typing import Any, Final, Literal
from urllib.parse import urlsplit

import orjson
from pydantic import Field

from nemo_evaluator.config.fields import GymName, ServiceName
from nemo_evaluator.config.solver_base import SolverBase
from nemo_evaluator.core.errors import NotFoundError, OutageError, SolverError, TransportError
from nemo_evaluator.core.json_coerce import as_dict, as_list
from nemo_evaluator.core.kinds import Kind
from nemo_evaluator.core.types import (
    JsonDict,
    ModelAccess,
    ModelResponse,
    SeedResult,
    SolveResult,
    ToolCallInfo,
)
from nemo_evaluator.environments.schemes.gym_client import GymClient, new_jar
from nemo_evaluator.environments.schemes.gym_wire import (
    assistant_text,
    content_text,
    native_row,
    verdict_of,
)
from nemo_evaluator.models.chat import parse_arguments
from nemo_evaluator.sandbox.base import Sandbox
from nemo_evaluator.solvers.base import MODEL, SANDBOX, SolverContext
from nemo_evaluator.solvers.trajectory import TrajectoryBuilder

# Agents with a body of their own: they are told of the model, and find their task by its id.
_OPENHANDS: Final = ("openhands", "swebench")
_MINISWE: Final = "miniswe"
_AGENTS: Final = "responses_api_agents"
# What servers call the change that an agent made to a repository.
_PATCHES: Final = ("model_patch", "git_patch", "patch")
_SWE_FIELDS: Final = ("instance_id", "base_commit", "dataset_name", "split")


class GymDelegationSolverConfig(SolverBase):
    """A Gym server that runs its own agent against the model."""

    type: Literal["gym_delegation"] = "gym_delegation"
    service: ServiceName = Field(description="The model.")
    gym_service: GymName = Field(description="The Gym service.")
    gym_agent: str | None = Field(None, description="Agent of the Gym server; null: its only one.")
    trust_reward: bool = Field(False, description="Take the Gym's reward instead of verifying.")


class GymDelegation:
    """Hands each problem to ``POST /run`` of an agent, and takes the answer, and on request the reward, from it."""

    needs = frozenset({MODEL, SANDBOX})

    def __init__(self, settings: GymDelegationSolverConfig, context: SolverContext) -> None:
        self._settings = settings
        self._agent = (settings.gym_agent or "").lower()
        service = settings.gym_service
        self._head = GymClient(context.base_urls[service], lost=context.lost.get(service))
        self._clients = {self._head.base: self._head}
        self._found = ""
        self._finding = asyncio.Lock()

    async def solve(
        self, task: SeedResult, sandbox: Sandbox | None = None, model: ModelAccess | None = None
    ) -> SolveResult:
        """One rollout. Raises TransportError when the server breaks down, or answers with no rollout.

        The agent works in a place of its own: where our verifier looks at a workspace, its patch is applied there.
        """
        client = await self._find()
        told = self._is_told(task)
        try:
            reply = await client.post("/run", self._body(task, model), new_jar())
        except OutageError as error:
            if client is self._head:
                raise
            # Servers that were started again have other addresses, which the head tells once it is back.
            self._found = ""
            raise TransportError(error.message) from error
        params = reply.get("responses_create_params") or {}
        response = reply.get("response") or params.get("output")
        if response is None:
            raise TransportError(f"{client.base}/run answered with no response: {str(reply)[:200]}")
        if not isinstance(response, (dict, str)):
            response = {"output": response}
        verdict = verdict_of(reply) if self._settings.trust_reward else None
        details: JsonDict = {"gym": verdict.scoring_details} if verdict else {}
        if verdict is None and sandbox is not None and task.capture_cmd is not None:
            details["patch_applied"] = await _apply(_patch_of(reply, response), sandbox)
        return SolveResult(
            response=assistant_text(response),
            # An agent that was told of our door is counted there.
            model_response=None if told else _usage(response),
            trajectory=_trajectory(task, response),
            reward=verdict.reward if verdict else None,
            scoring_details=details,
        )

    def describe(self) -> JsonDict:
        return {"class": "gym_delegation", **self._settings.model_dump(exclude={"type", "service"})}

    async def close(self) -> None:
        for client in self._clients.values():
            await client.close()

    def _is_told(self, task: SeedResult) -> bool:
        """Whether the agent is one that is told which model to ask."""
        return self._agent in (*_OPENHANDS, _MINISWE) or (
            not self._agent and "instance_id" in task.metadata
        )

    def _body(self, task: SeedResult, model: ModelAccess | None) -> JsonDict:
        if not self._is_told(task):
            return native_row(task)
        facts = task.metadata
        name = model.model if model else "evaluator"
        if model:
            access: dict[str, str] = {"model_url": model.url, "api_key": model.api_key.reveal()}
        else:
            access = {}
        if self._agent == _MINISWE:
            params: JsonDict = {
                "temperature": 0.0,
                "top_p": 1.0,
                "input": [],
                "model": name,
                "metadata": access,
            }
            about = {"subset": facts.get("subset", "verified"), "split": facts.get("split", "test")}
            return {
                "responses_create_params": params,
                "instance_id": facts.get("instance_id"),
                **about,
            }
        told = {"problem_statement": task.prompt} | {
            key: str(facts[key]) for key in _SWE_FIELDS if key in facts
        }
        told |= {"instance_dict": orjson.dumps(facts, default=str).decode(), **access}
        message = {"role": "user", "content": task.prompt}
        return {"responses_create_params": {"input": [message], "model": name, "metadata": told}}

    async def _find(self) -> GymClient:
        """The agent's own address, as the head server tells it; the given one where there is no head."""
        async with self._finding:
            if not self._found:
                try:
                    listed = await self._head.get("/server_instances")
                except NotFoundError:
                    listed = []
                self._found = self._address(
                    [one for one in listed if isinstance(one, dict)]
                ).rstrip("/")
            return self._clients.setdefault(self._found, GymClient(self._found))

    def _address(self, instances: list[JsonDict]) -> str:
        agents = [one for one in instances if one.get("server_type") == _AGENTS]
        names = [str(one.get("process_name") or one.get("name")) for one in agents]
        called: list[dict[str, Any]] = []
        for one in agents:
            if self._agent in {str(one.get(k)).lower() for k in ("process_name", "name")}:
                called.append(one)
        if not agents:
            return self._head.base
        if not called and self._agent and not self._is_told(SeedResult("", "")):
            hint = f"it has: {', '.join(names)}"
            raise NotFoundError(
                f"the Gym server has no agent {self._settings.gym_agent!r}", hint=hint
            )
        if not called and len(agents) > 1:
            hint = f"set gym_agent to one of: {', '.join(names)}"
            raise NotFoundError("the Gym server has several agents", hint=hint)
        chosen = (called or agents)[0]
        # What a server calls its own address may be every address of its machine.
        anywhere = chosen.get("host") == "0.0.0.0"  # noqa: S104
        if anywhere:
            host: str | Any | None = urlsplit(self._head.base).hostname
        else:
            host = chosen.get("host")
        if chosen.get("url") and not anywhere:
            return str(chosen["url"])
        return f"http://{host}:{chosen['port']}"


def _patch_of(reply: JsonDict, response: JsonDict | str) -> str:
    """The change that an agent made, as a diff. Raises SolverError when the reply does not tell it."""
    for place in (
        reply,
        as_dict(response).get("metadata"),
        reply.get("metadata"),
        reply.get("swebench_metrics"),
    ):
        for name in _PATCHES:
            if name in (told := as_dict(place)):
                return str(told[name] or "")
    text = assistant_text(response)
    start = text.find("diff --git ")
    if start >= 0:
        return text[start:].partition("\n```")[0] + "\n"
    where = f"{', '.join(_PATCHES)}, or a diff as its answer"
    said = f"the Gym's reply has no patch ({where}), so nothing could be verified"
    raise SolverError(said, hint="set trust_reward: true to take the Gym's own verdict")


async def _apply(patch: str, sandbox: Sandbox) -> bool:
    """Make an agent's change in the workspace; False for one that does not fit, which is then no change."""
    if not patch.strip():
        return True
    file = f"/tmp/nel-gym-{uuid.uuid4().hex}.patch"  # noqa: S108 - inside the sandbox
    await sandbox.upload(patch.encode(), file)
    command = f"git apply --whitespace=nowarn {file} || patch -s -p1 -i {file}"
    return (await sandbox.exec(command, cwd=sandbox.spec.workdir)).ok


def _usage(response: JsonDict | str) -> ModelResponse | None:
    if isinstance(response, str) or not isinstance(usage := response.get("usage"), dict):
        return None
    names = {
        "prompt_tokens": "input_tokens",
        "completion_tokens": "output_tokens",
        "total_tokens": "total_tokens",
    }
    counts: JsonDict = {ours: usage.get(theirs) for ours, theirs in names.items()}
    return ModelResponse(assistant_text(response), str(response.get("model") or ""), **counts)


def _trajectory(task: SeedResult, response: JsonDict | str) -> list[JsonDict]:
    builder = TrajectoryBuilder(agent="gym", asked=task.messages or task.plain_messages)
    called: set[str] = set()
    thought: str | None = None
    for item in filter(as_dict, as_list(as_dict(response).get("output"))):
        kind = item.get("type", "message")
        call = str(item.get("call_id"))
        if kind == "reasoning":
            thought = content_text(item.get("summary") or item.get("content"))
        elif kind == "function_call_output" and call in called:
            builder.observe(call, str(item.get("output")), source="gym")
        elif kind in ("message", "function_call"):
            calls = []
            if kind == "function_call" and call not in called:
                called.add(call)
                calls = [
                    ToolCallInfo(
                        call, str(item.get("name")), parse_arguments(item.get("arguments"))
                    )
                ]
            builder.agent(
                ModelResponse(content_text(item.get("content")), reasoning_content=thought), calls
            )
            thought = None
    return builder.finish(status="completed")


KIND: Final = Kind(GymDelegationSolverConfig, GymDelegation)
