"""``nat``: a workflow of the NeMo Agent Toolkit that answers problems."""

from collections.abc import Iterator
from typing import Any, Final, Literal

import orjson
from pydantic import Field

from nemo_evaluator.config.fields import AgentName
from nemo_evaluator.config.solver_base import SolverBase
from nemo_evaluator.core.errors import NotFoundError, TransportError
from nemo_evaluator.core.kinds import Kind
from nemo_evaluator.core.types import JsonDict, ModelResponse, SeedResult, SolveResult, ToolCallInfo
from nemo_evaluator.core.values import replace
from nemo_evaluator.environments.schemes.gym_client import GymClient
from nemo_evaluator.models.chat import parse_arguments
from nemo_evaluator.models.usage import together
from nemo_evaluator.solvers.base import SolverContext
from nemo_evaluator.solvers.trajectory import TrajectoryBuilder

# Older versions have the second.
_PATHS: Final = ("/v1/workflow/full", "/generate/full")
_WORKFLOW: Final = "<workflow>"
_COUNTS: Final = ("prompt_tokens", "completion_tokens", "total_tokens")
_ANSWERS: Final = ("output", "value", "response")


class NatSolverConfig(SolverBase):
    """A NeMo Agent Toolkit server that answers."""

    type: Literal["nat", "nat_agent"] = "nat"
    service: AgentName = Field(description="The `nat` service.")

    @property
    def model_service(self) -> str | None:
        """None: the agent uses a model of its own, which its workflow file names."""
        return None


class NatSolver:
    """Sends each problem to the server's workflow and records the steps that the server reports."""

    def __init__(self, settings: NatSolverConfig, context: SolverContext) -> None:
        """Prepare a client for the service; nothing is sent yet.

        Args:
            settings: The config of the solver.
            context: The addresses of the config's services.
        """
        self._service = settings.service
        self._path = _PATHS[0]
        self._client = GymClient(
            context.base_urls[settings.service], lost=context.lost.get(settings.service)
        )

    async def solve(self, task: SeedResult) -> SolveResult:
        """Run the workflow once.

        Args:
            task: The problem.

        Raises:
            TransportError: The server failed, or the workflow ended without an answer.
        """
        is_single_message = task.messages is None or len(task.messages) == 1
        if is_single_message and not task.system:
            body: JsonDict = {"input_message": task.prompt}
        else:
            body = {}
        body = body or {"messages": task.messages or task.plain_messages}
        # A local copy: a concurrent request may change the path in between.
        path = self._path
        try:
            stream_text = await self._client.post_text(path, body)
        except NotFoundError:
            if path == _PATHS[1]:
                raise
            self._path = path = _PATHS[1]
            stream_text = await self._client.post_text(path, body)
        return _result(task, stream_text, f"{self._client.base}{path}")

    def describe(self) -> JsonDict:
        """Return the name of the service; the service describes its workflow itself."""
        return {"class": "nat", "service": self._service}

    async def close(self) -> None:
        """Close the connections to the server."""
        await self._client.close()


def _result(task: SeedResult, text: str, where: str) -> SolveResult:
    """Collect the answer, the usage and the trajectory from the server's stream.

    Raises:
        TransportError: The stream reports an error, or has no answer.
    """
    builder = TrajectoryBuilder(agent="nat", asked=task.messages or task.plain_messages)
    answer: str | None = None
    replies: list[ModelResponse] = []
    events = list(_events(text))
    # Some agent frameworks report tools as such; others report them as functions, beside the workflow's own function.
    if any(event.get("event_type") == "TOOL_END" for _, event in events):
        tool_end = "TOOL_END"
    else:
        tool_end = "FUNCTION_END"
    for event_name, event in events:
        data = event.get("data") or {}
        if event_name == "data":
            if "error" in event or ("code" in event and "message" in event):
                raise TransportError(f"{where} reported an error: {str(event)[:500]}")
            answer = next((_text(event[name]) for name in _ANSWERS if name in event), answer)
        elif event.get("event_type") == "LLM_END":
            usage = (event.get("usage_info") or {}).get("token_usage") or {}
            counts: JsonDict = {name: usage.get(name) for name in _COUNTS}
            if not any(counts.values()):
                counts = {}
            replies.append(
                ModelResponse(_text(data.get("output")), str(event.get("name") or ""), **counts)
            )
            builder.agent(replies[-1])
        elif event.get("event_type") == tool_end and event.get("name") != _WORKFLOW:
            call = ToolCallInfo(
                str(event.get("UUID")), str(event.get("name")), parse_arguments(data.get("input"))
            )
            builder.call(call)
            builder.observe(call.id, _text(data.get("output")), source="nat")
    if answer is None and replies:
        answer = replies[-1].content
    if answer is None:
        raise TransportError(f"{where} ended without an answer: {text[-300:]!r}")
    if not replies or replies[-1].content != answer:
        builder.message("assistant", answer)
    if replies:
        combined_reply: ModelResponse | None = replace(together(replies), content=answer)
    else:
        combined_reply = None
    return SolveResult(answer, combined_reply, builder.finish(status="completed"))


def _events(text: str) -> Iterator[tuple[str, JsonDict]]:
    """Parse the events of the stream; the payload of an intermediate step is JSON inside JSON.

    Returns:
        The name and the value of each event: ``data`` or ``intermediate_data``; an error is ``data`` with the key
        ``error``.

    Raises:
        TransportError: A line of data is not valid JSON.
    """
    for line in text.splitlines():
        # Some errors are sent as bare JSON, without an event name.
        if line.startswith("{"):
            event_name = "data"
            colon = ":"
            value_text = line
        else:
            event_name, colon, value_text = line.partition(": ")
        if not colon or event_name not in ("data", "intermediate_data", "error"):
            continue
        try:
            event: Any = orjson.loads(value_text)
            if event_name == "intermediate_data":
                payload = event.get("payload")
                if isinstance(payload, str):
                    event = orjson.loads(payload)
                else:
                    event = payload
        except (orjson.JSONDecodeError, AttributeError):
            if event_name == "intermediate_data":
                continue
            raise TransportError(
                f"the agent's stream holds something that is not JSON: {value_text[:200]}"
            ) from None
        if isinstance(event, dict):
            yield ("data", {"error": event}) if event_name == "error" else (event_name, event)


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    return orjson.dumps(value).decode()


KIND: Final = Kind(NatSolverConfig, NatSolver)
