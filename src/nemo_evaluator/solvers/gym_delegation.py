"""``gym_delegation``: a Gym server that runs its own agent against the model."""

from __future__ import annotations

import asyncio
import uuid
from typing import TYPE_CHECKING, Final, Literal
from urllib.parse import urlsplit

import orjson
from pydantic import Field

from nemo_evaluator.config.fields import GymName, ServiceName
from nemo_evaluator.config.solver_base import SolverBase
from nemo_evaluator.core.errors import NotFoundError, OutageError, SolverError, TransportError
from nemo_evaluator.core.json_coerce import as_dict, as_list
from nemo_evaluator.core.kinds import Kind
from nemo_evaluator.core.types import (
    REWARD_OF,
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

if TYPE_CHECKING:
    from nemo_evaluator.core.trajectory_document import TrajectoryDocument

# Agents with their own request format: it names the model, and the task by its id.
_MINISWE: Final = "miniswe"
_TAKES_MODEL: Final = ("openhands", "swebench", _MINISWE)
_AGENTS: Final = "responses_api_agents"
# The fields in which servers return the change that an agent made to a repository.
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
    """Sends each problem to ``POST /run`` of a Gym agent and takes the answer from its reply.

    With ``trust_reward`` the reward is taken from the reply too; otherwise the answer is verified as any other.
    """

    needs = frozenset({MODEL, SANDBOX})

    def __init__(self, settings: GymDelegationSolverConfig, context: SolverContext) -> None:
        """Prepare a client for the Gym service; nothing is sent yet.

        Args:
            settings: The config of the solver.
            context: The addresses of the config's services.
        """
        self._settings = settings
        self._agent = (settings.gym_agent or "").lower()
        service = settings.gym_service
        self._head = GymClient(context.base_urls[service], lost=context.lost.get(service))
        self._clients = {self._head.base: self._head}
        # The address of the agent, once it is found.
        self._agent_url = ""
        self._finding = asyncio.Lock()

    async def solve(
        self, task: SeedResult, sandbox: Sandbox | None = None, model: ModelAccess | None = None
    ) -> SolveResult:
        """Run one rollout on the Gym server.

        The agent works in its own environment. Where our verifier inspects a workspace, the agent's patch is applied
        there.

        Args:
            task: The problem.
            sandbox: The workspace that is verified, if the benchmark has one.
            model: URL and key of the model, for agents that take them.

        Raises:
            TransportError: The server failed, or its reply has no response.
            OutageError: The head server stopped responding.
            SolverError: The workspace is to be verified, and the reply has no patch.
        """
        client = await self._find()
        try:
            reply = await client.post("/run", self._body(task, model), new_jar())
        except OutageError as error:
            if client is self._head:
                raise
            # Restarted servers have new addresses; the head server lists them once it is back.
            self._agent_url = ""
            raise TransportError(error.message) from error
        response = _response_of(reply, client.base)
        result = SolveResult(assistant_text(response), trajectory=_trajectory(task, response))
        # For an agent that uses our model URL, the usage is counted there.
        if not self._names_model(task):
            result.model_response = _usage(response)
        verdict = verdict_of(reply) if self._settings.trust_reward else None
        if verdict is not None:
            result.reward = verdict.reward
            result.scoring_details[REWARD_OF] = f"the Gym agent {self._agent}".rstrip()
            result.scoring_details["gym"] = verdict.scoring_details
        elif sandbox is not None and task.capture_cmd is not None:
            patch_applied = await _apply(_patch_of(reply, response), sandbox)
            result.scoring_details["patch_applied"] = patch_applied
        return result

    def describe(self) -> JsonDict:
        """Return the settings that change answers."""
        return {"class": "gym_delegation", **self._settings.model_dump(exclude={"type", "service"})}

    async def close(self) -> None:
        """Close the connections to the head server and the agents."""
        for client in self._clients.values():
            await client.close()

    def _names_model(self, task: SeedResult) -> bool:
        """Return whether the request to this agent names the model to use."""
        if not self._agent:
            return "instance_id" in task.metadata
        return self._agent in _TAKES_MODEL

    def _body(self, task: SeedResult, model: ModelAccess | None) -> JsonDict:
        """Build the body of ``POST /run`` in the format that the agent expects."""
        if not self._names_model(task):
            return native_row(task)
        model_name = "evaluator"
        access: dict[str, str] = {}
        if model:
            model_name = model.model
            access = {"model_url": model.url, "api_key": model.api_key.reveal()}
        if self._agent == _MINISWE:
            return _miniswe_body(task, model_name, access)
        return _openhands_body(task, model_name, access)

    async def _find(self) -> GymClient:
        """Return a client for the agent: at the address the head server lists, or else at the configured one."""
        async with self._finding:
            if not self._agent_url:
                try:
                    instances = await self._head.get("/server_instances")
                except NotFoundError:
                    instances = []
                agents: list[JsonDict] = []
                for instance in instances:
                    if isinstance(instance, dict) and instance.get("server_type") == _AGENTS:
                        agents.append(instance)
                self._agent_url = self._address(agents).rstrip("/")
            return self._clients.setdefault(self._agent_url, GymClient(self._agent_url))

    def _address(self, agents: list[JsonDict]) -> str:
        """Return the address of the configured agent, or of the only one; without agents, that of the head server.

        Args:
            agents: The agents among the server's instances.

        Raises:
            NotFoundError: No agent has the configured name, or there are several and none of them is configured.
        """
        if not agents:
            return self._head.base
        names: list[str] = []
        for agent in agents:
            process_name = str(agent.get("process_name"))
            agent_name = str(agent.get("name"))
            if self._agent in (process_name.lower(), agent_name.lower()):
                return self._url_of(agent)
            names.append(process_name if agent.get("process_name") else agent_name)
        all_names = ", ".join(names)
        if self._agent and self._agent not in _TAKES_MODEL:
            raise NotFoundError(
                f"the Gym server has no agent {self._settings.gym_agent!r}",
                hint=f"it has: {all_names}",
            )
        if len(agents) > 1:
            raise NotFoundError(
                "the Gym server has several agents", hint=f"set gym_agent to one of: {all_names}"
            )
        return self._url_of(agents[0])

    def _url_of(self, agent: JsonDict) -> str:
        """Return the URL of an agent, as it is reached from this machine."""
        # A server that binds every address reports 0.0.0.0, which cannot be connected to from elsewhere.
        if agent.get("host") == "0.0.0.0":  # noqa: S104
            return f"http://{urlsplit(self._head.base).hostname}:{agent['port']}"
        if agent.get("url"):
            return str(agent["url"])
        return f"http://{agent.get('host')}:{agent['port']}"


def _miniswe_body(task: SeedResult, model_name: str, access: dict[str, str]) -> JsonDict:
    metadata = task.metadata
    return {
        "responses_create_params": {
            "temperature": 0.0,
            "top_p": 1.0,
            "input": [],
            "model": model_name,
            "metadata": access,
        },
        "instance_id": metadata.get("instance_id"),
        "subset": metadata.get("subset", "verified"),
        "split": metadata.get("split", "test"),
    }


def _openhands_body(task: SeedResult, model_name: str, access: dict[str, str]) -> JsonDict:
    metadata = task.metadata
    task_fields = {"problem_statement": task.prompt}
    for key in _SWE_FIELDS:
        if key in metadata:
            task_fields[key] = str(metadata[key])
    task_fields["instance_dict"] = orjson.dumps(metadata, default=str).decode()
    task_fields |= access
    return {
        "responses_create_params": {
            "input": [{"role": "user", "content": task.prompt}],
            "model": model_name,
            "metadata": task_fields,
        }
    }


def _response_of(reply: JsonDict, server: str) -> JsonDict | str:
    """Return the agent's response; a list of output items becomes the ``output`` of a response.

    Raises:
        TransportError: The reply has no response.
    """
    params = reply.get("responses_create_params") or {}
    response = reply.get("response") or params.get("output")
    if response is None:
        raise TransportError(f"{server}/run answered with no response: {str(reply)[:200]}")
    if isinstance(response, (dict, str)):
        return response
    return {"output": response}


def _patch_of(reply: JsonDict, response: JsonDict | str) -> str:
    """Return the change that an agent made, as a diff.

    Raises:
        SolverError: The reply has no patch.
    """
    containers = (
        reply,
        as_dict(response).get("metadata"),
        reply.get("metadata"),
        reply.get("swebench_metrics"),
    )
    for container in containers:
        fields = as_dict(container)
        for name in _PATCHES:
            if name in fields:
                return str(fields[name] or "")
    text = assistant_text(response)
    start = text.find("diff --git ")
    if start >= 0:
        return text[start:].partition("\n```")[0] + "\n"
    expected_fields = f"{', '.join(_PATCHES)}, or a diff as its answer"
    problem = f"the Gym's reply has no patch ({expected_fields}), so nothing could be verified"
    raise SolverError(problem, hint="set trust_reward: true to take the Gym's own verdict")


async def _apply(patch: str, sandbox: Sandbox) -> bool:
    """Apply an agent's patch in the workspace; return False when it does not apply."""
    if not patch.strip():
        return True
    patch_path = f"/tmp/nel-gym-{uuid.uuid4().hex}.patch"  # noqa: S108 - inside the sandbox
    await sandbox.upload(patch.encode(), patch_path)
    command = f"git apply --whitespace=nowarn {patch_path} || patch -s -p1 -i {patch_path}"
    result = await sandbox.exec(command, cwd=sandbox.spec.workdir)
    return result.ok


def _usage(response: JsonDict | str) -> ModelResponse | None:
    """Return the response as a ModelResponse with its token counts; None when it reports no usage."""
    if isinstance(response, str):
        return None
    usage = response.get("usage")
    if not isinstance(usage, dict):
        return None
    return ModelResponse(
        content=assistant_text(response),
        model=str(response.get("model") or ""),
        prompt_tokens=usage.get("input_tokens"),
        completion_tokens=usage.get("output_tokens"),
        total_tokens=usage.get("total_tokens"),
    )


def _trajectory(task: SeedResult, response: JsonDict | str) -> list[TrajectoryDocument]:
    """Convert the output items of a response into a trajectory, without repeated calls and results of unknown calls."""
    builder = TrajectoryBuilder(agent="gym", asked=task.messages or task.plain_messages)
    recorded_calls: set[str] = set()
    reasoning: str | None = None
    for item in as_list(as_dict(response).get("output")):
        if not isinstance(item, dict) or not item:
            continue
        item_type = item.get("type", "message")
        call_id = str(item.get("call_id"))
        if item_type == "reasoning":
            # It belongs to the message or call that follows.
            reasoning = content_text(item.get("summary") or item.get("content"))
        elif item_type == "function_call_output" and call_id in recorded_calls:
            builder.observe(call_id, str(item.get("output")), source="gym")
        elif item_type in ("message", "function_call"):
            calls: list[ToolCallInfo] = []
            if item_type == "function_call" and call_id not in recorded_calls:
                recorded_calls.add(call_id)
                arguments = parse_arguments(item.get("arguments"))
                calls.append(ToolCallInfo(call_id, str(item.get("name")), arguments))
            text = content_text(item.get("content"))
            reply = ModelResponse(text, reasoning_content=reasoning)
            builder.agent(reply, calls)
            reasoning = None
    return builder.finish(status="completed")


KIND: Final = Kind(GymDelegationSolverConfig, GymDelegation)
