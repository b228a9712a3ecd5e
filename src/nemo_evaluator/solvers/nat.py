"""``nat``: a workflow of the NeMo Agent Toolkit that answers problems."""

from collections.abc import Iterator
from dataclasses import dataclass, field
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

_PATH: Final = "/v1/workflow/full"
# Older versions of the toolkit have this path.
_OLD_PATH: Final = "/generate/full"
_WORKFLOW: Final = "<workflow>"
# The fields that may hold the answer; the first that is present counts.
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
        self._path = _PATH
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
        body = _request_body(task)
        # A local copy: a concurrent request may change the path in between.
        path = self._path
        try:
            stream_text = await self._client.post_text(path, body)
        except NotFoundError:
            if path == _OLD_PATH:
                raise
            path = _OLD_PATH
            self._path = path
            stream_text = await self._client.post_text(path, body)
        return _result(task, stream_text, f"{self._client.base}{path}")

    def describe(self) -> JsonDict:
        """Return the name of the service; the service describes its workflow itself."""
        return {"class": "nat", "service": self._service}

    async def close(self) -> None:
        """Close the connections to the server."""
        await self._client.close()


def _request_body(task: SeedResult) -> JsonDict:
    """Return the prompt alone if it is the whole conversation, else the messages."""
    is_single_message = task.messages is None or len(task.messages) == 1
    if is_single_message and not task.system:
        return {"input_message": task.prompt}
    return {"messages": task.messages or task.plain_messages}


def _result(task: SeedResult, text: str, where: str) -> SolveResult:
    """Collect the answer, the usage and the trajectory from the server's stream.

    Raises:
        TransportError: The stream reports an error, or has no answer.
    """
    events = list(_events(text))
    workflow_run = _WorkflowRun(
        where=where,
        tool_end=_tool_end(events),
        trajectory=TrajectoryBuilder(agent="nat", asked=task.messages or task.plain_messages),
    )
    for event_name, event in events:
        workflow_run.add(event_name, event)
    return workflow_run.result(text)


def _tool_end(events: list[tuple[str, JsonDict]]) -> str:
    """Return the type of the events that report the end of a tool call.

    Some agent frameworks report tools as such; others report them as functions, beside the workflow's own function.
    """
    for _, event in events:
        if event.get("event_type") == "TOOL_END":
            return "TOOL_END"
    return "FUNCTION_END"


@dataclass
class _WorkflowRun:
    """What the server's stream has reported so far.

    Attributes:
        where: The URL of the workflow, for errors.
        tool_end: The type of the events that report the end of a tool call.
        trajectory: The steps of the workflow.
        answer: The workflow's answer, if it was reported.
        replies: The replies of the workflow's model.
    """

    where: str
    tool_end: str
    trajectory: TrajectoryBuilder
    answer: str | None = None
    replies: list[ModelResponse] = field(default_factory=list)

    def add(self, event_name: str, event: JsonDict) -> None:
        """Take one event of the stream.

        Args:
            event_name: ``data`` or ``intermediate_data``.
            event: The value of the event.

        Raises:
            TransportError: The event reports an error.
        """
        event_type = event.get("event_type")
        if event_name == "data":
            self._add_answer(event)
        elif event_type == "LLM_END":
            self._add_reply(event)
        elif event_type == self.tool_end and event.get("name") != _WORKFLOW:
            self._add_tool_call(event)

    def _add_answer(self, event: JsonDict) -> None:
        if "error" in event or ("code" in event and "message" in event):
            raise TransportError(f"{self.where} reported an error: {str(event)[:500]}")
        for name in _ANSWERS:
            if name in event:
                self.answer = _text(event[name])
                return

    def _add_reply(self, event: JsonDict) -> None:
        data = event.get("data") or {}
        usage_info = event.get("usage_info") or {}
        usage = usage_info.get("token_usage") or {}
        reply = ModelResponse(_text(data.get("output")), str(event.get("name") or ""))
        # Frameworks that do not count tokens report 0 for every count.
        if (
            usage.get("prompt_tokens")
            or usage.get("completion_tokens")
            or usage.get("total_tokens")
        ):
            reply.prompt_tokens = usage.get("prompt_tokens")
            reply.completion_tokens = usage.get("completion_tokens")
            reply.total_tokens = usage.get("total_tokens")
        self.replies.append(reply)
        self.trajectory.agent(reply)

    def _add_tool_call(self, event: JsonDict) -> None:
        data = event.get("data") or {}
        call = ToolCallInfo(
            id=str(event.get("UUID")),
            name=str(event.get("name")),
            arguments=parse_arguments(data.get("input")),
        )
        self.trajectory.call(call)
        self.trajectory.observe(call.id, _text(data.get("output")), source="nat")

    def result(self, stream_text: str) -> SolveResult:
        """Return the result after the last event.

        Args:
            stream_text: The whole stream, quoted in the error.

        Raises:
            TransportError: There is no answer.
        """
        answer = self.answer
        if answer is None and self.replies:
            answer = self.replies[-1].content
        if answer is None:
            raise TransportError(f"{self.where} ended without an answer: {stream_text[-300:]!r}")
        if not self.replies or self.replies[-1].content != answer:
            self.trajectory.message("assistant", answer)
        combined_reply: ModelResponse | None = None
        if self.replies:
            combined_reply = replace(together(self.replies), content=answer)
        return SolveResult(answer, combined_reply, self.trajectory.finish(status="completed"))


def _events(text: str) -> Iterator[tuple[str, JsonDict]]:
    """Parse the events of the stream.

    Returns:
        The name and the value of each event: ``data`` or ``intermediate_data``; an error is ``data`` with the key
        ``error``.

    Raises:
        TransportError: A line of data is not valid JSON.
    """
    for line in text.splitlines():
        # Some errors are sent as bare JSON, without an event name.
        if line.startswith("{"):
            line = f"data: {line}"
        event_name, colon, value_text = line.partition(": ")
        if not colon:
            continue
        if event_name == "intermediate_data":
            event = _step_payload(value_text)
        elif event_name in ("data", "error"):
            event = _event_value(value_text)
        else:
            continue
        if not isinstance(event, dict):
            continue
        if event_name == "error":
            yield "data", {"error": event}
        else:
            yield event_name, event


def _event_value(value_text: str) -> Any:
    try:
        return orjson.loads(value_text)
    except orjson.JSONDecodeError:
        raise TransportError(
            f"the agent's stream holds something that is not JSON: {value_text[:200]}"
        ) from None


def _step_payload(value_text: str) -> Any:
    """Return the payload of an intermediate step, which is JSON inside JSON; None when it cannot be parsed."""
    try:
        step = orjson.loads(value_text)
        if not isinstance(step, dict):
            return None
        payload = step.get("payload")
        if isinstance(payload, str):
            return orjson.loads(payload)
        return payload
    except orjson.JSONDecodeError:
        return None


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    return orjson.dumps(value).decode()


KIND: Final = Kind(NatSolverConfig, NatSolver)
