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

# Agents with their own request format: it names the model, and the task by its id.
_OPENHANDS: Final = ("openhands", "swebench")
_MINISWE: Final = "miniswe"
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
        self._found = ""
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
        uses_our_model_url = self._is_told(task)
        try:
            reply = await client.post("/run", self._body(task, model), new_jar())
        except OutageError as error:
            if client is self._head:
                raise
            # Restarted servers have new addresses; the head server lists them once it is back.
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
            # For an agent that uses our model URL, the usage is counted there.
            model_response=None if uses_our_model_url else _usage(response),
            trajectory=_trajectory(task, response),
            reward=verdict.reward if verdict else None,
            scoring_details=details,
        )

    def describe(self) -> JsonDict:
        """Return the settings that change answers."""
        return {"class": "gym_delegation", **self._settings.model_dump(exclude={"type", "service"})}

    async def close(self) -> None:
        """Close the connections to the head server and the agents."""
        for client in self._clients.values():
            await client.close()

    def _is_told(self, task: SeedResult) -> bool:
        """Return whether the request to this agent names the model to use."""
        return self._agent in (*_OPENHANDS, _MINISWE) or (
            not self._agent and "instance_id" in task.metadata
        )

    def _body(self, task: SeedResult, model: ModelAccess | None) -> JsonDict:
        """Build the body of ``POST /run`` in the format that the agent expects."""
        if not self._is_told(task):
            return native_row(task)
        metadata = task.metadata
        model_name = model.model if model else "evaluator"
        if model:
            access: dict[str, str] = {"model_url": model.url, "api_key": model.api_key.reveal()}
        else:
            access = {}
        if self._agent == _MINISWE:
            params: JsonDict = {
                "temperature": 0.0,
                "top_p": 1.0,
                "input": [],
                "model": model_name,
                "metadata": access,
            }
            dataset_fields = {
                "subset": metadata.get("subset", "verified"),
                "split": metadata.get("split", "test"),
            }
            return {
                "responses_create_params": params,
                "instance_id": metadata.get("instance_id"),
                **dataset_fields,
            }
        task_fields = {"problem_statement": task.prompt} | {
            key: str(metadata[key]) for key in _SWE_FIELDS if key in metadata
        }
        task_fields |= {"instance_dict": orjson.dumps(metadata, default=str).decode(), **access}
        message = {"role": "user", "content": task.prompt}
        return {
            "responses_create_params": {
                "input": [message],
                "model": model_name,
                "metadata": task_fields,
            }
        }

    async def _find(self) -> GymClient:
        """Return a client for the agent: at the address the head server lists, or else at the configured one."""
        async with self._finding:
            if not self._found:
                try:
                    instances = await self._head.get("/server_instances")
                except NotFoundError:
                    instances = []
                self._found = self._address(
                    [instance for instance in instances if isinstance(instance, dict)]
                ).rstrip("/")
            return self._clients.setdefault(self._found, GymClient(self._found))

    def _address(self, instances: list[JsonDict]) -> str:
        """Choose the agent among the server's instances and return its address.

        Raises:
            NotFoundError: No agent has the configured name, or there are several and none of them is configured.
        """
        agents = [instance for instance in instances if instance.get("server_type") == _AGENTS]
        names = [str(instance.get("process_name") or instance.get("name")) for instance in agents]
        matching_agents: list[dict[str, Any]] = []
        for instance in agents:
            if self._agent in {str(instance.get(key)).lower() for key in ("process_name", "name")}:
                matching_agents.append(instance)
        if not agents:
            return self._head.base
        if not matching_agents and self._agent and not self._is_told(SeedResult("", "")):
            hint = f"it has: {', '.join(names)}"
            raise NotFoundError(
                f"the Gym server has no agent {self._settings.gym_agent!r}", hint=hint
            )
        if not matching_agents and len(agents) > 1:
            hint = f"set gym_agent to one of: {', '.join(names)}"
            raise NotFoundError("the Gym server has several agents", hint=hint)
        agent = (matching_agents or agents)[0]
        # A server that binds every address reports 0.0.0.0, which cannot be connected to from elsewhere.
        binds_every_address = agent.get("host") == "0.0.0.0"  # noqa: S104
        if binds_every_address:
            host: str | Any | None = urlsplit(self._head.base).hostname
        else:
            host = agent.get("host")
        if agent.get("url") and not binds_every_address:
            return str(agent["url"])
        return f"http://{host}:{agent['port']}"


def _patch_of(reply: JsonDict, response: JsonDict | str) -> str:
    """Return the change that an agent made, as a diff.

    Raises:
        SolverError: The reply has no patch.
    """
    for container in (
        reply,
        as_dict(response).get("metadata"),
        reply.get("metadata"),
        reply.get("swebench_metrics"),
    ):
        for name in _PATCHES:
            if name in (fields := as_dict(container)):
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
    return (await sandbox.exec(command, cwd=sandbox.spec.workdir)).ok


def _usage(response: JsonDict | str) -> ModelResponse | None:
    """Return the response as a ModelResponse with its token counts; None when it reports no usage."""
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
    """Convert the output items of a response into a trajectory, without repeated calls and results of unknown calls."""
    builder = TrajectoryBuilder(agent="gym", asked=task.messages or task.plain_messages)
    recorded_calls: set[str] = set()
    reasoning: str | None = None
    for item in filter(as_dict, as_list(as_dict(response).get("output"))):
        item_type = item.get("type", "message")
        call_id = str(item.get("call_id"))
        if item_type == "reasoning":
            reasoning = content_text(item.get("summary") or item.get("content"))
        elif item_type == "function_call_output" and call_id in recorded_calls:
            builder.observe(call_id, str(item.get("output")), source="gym")
        elif item_type in ("message", "function_call"):
            calls = []
            if item_type == "function_call" and call_id not in recorded_calls:
                recorded_calls.add(call_id)
                calls = [
                    ToolCallInfo(
                        call_id, str(item.get("name")), parse_arguments(item.get("arguments"))
                    )
                ]
            builder.agent(
                ModelResponse(content_text(item.get("content")), reasoning_content=reasoning), calls
            )
            reasoning = None
    return builder.finish(status="completed")


KIND: Final = Kind(GymDelegationSolverConfig, GymDelegation)
