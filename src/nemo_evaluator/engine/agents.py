"""Agents outside this process: what caused their failures, and what their model calls add to the answer."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from nemo_evaluator.core.errors import BoundaryError, BudgetError
from nemo_evaluator.core.failures import POLICY, Cause
from nemo_evaluator.core.files import dumps
from nemo_evaluator.core.json_coerce import as_dict
from nemo_evaluator.core.types import JsonDict, ModelResponse, SolveResult, ToolCallInfo
from nemo_evaluator.solvers.trajectory import TrajectoryBuilder

if TYPE_CHECKING:
    from nemo_evaluator.adapters.outside import AgentSession
    from nemo_evaluator.core.trajectory_document import TrajectoryDocument
    from nemo_evaluator.sandbox.base import OutsideEndpoint

# The key of a row's details that holds the forbidden actions of its agent.
TRIPWIRES: Final = "tripwires"
_CHARS_AROUND: Final = 60
# The oracle solver uses the known solution, which agents must not access.
_EXEMPT: Final = "oracle"


def endpoints_of(session: AgentSession | None) -> tuple[OutsideEndpoint, ...]:
    """Return the address at which an agent calls the model, in the form that sandboxes take."""
    if session is None:
        return ()
    # Imported here, because most runs need no sandbox.
    from nemo_evaluator.sandbox.base import OutsideEndpoint  # noqa: PLC0415

    return (OutsideEndpoint(session.access.url, variables=session.access.variables()),)


def real_cause(error: BoundaryError, session: AgentSession | None) -> BoundaryError:
    """Return what actually ended an agent, such as a spent budget or a failed model, instead of its own error."""
    if session is None or error.cause is not Cause.SOLVER:
        return error
    if session.spent is not None:
        return BudgetError(f"the step's budget of {session.spent} is used up")
    if session.broken is not None:
        return session.broken
    if session.fault is not None and POLICY[session.fault.cause].retry:
        return session.fault
    if session.fault is not None and session.fault.cause is Cause.CONTEXT_EXCEEDED:
        return BudgetError(
            f"the agent's conversation outgrew the model's context: {session.fault.message}"
        )
    return error


def check_reached(answer: SolveResult, session: AgentSession | None) -> None:
    """Raise the error that kept an agent from getting any model response, since its answer would measure nothing.

    The same applies if the agent's last connection broke on our side, even if the agent handled that.
    """
    if session is not None and session.broken is not None:
        raise session.broken
    if session is None or not answer.error or session.calls:
        return
    if session.fault is not None and POLICY[session.fault.cause].retry:
        raise session.fault


def with_calls(
    answer: SolveResult, session: AgentSession | None, agent: str = "outside"
) -> SolveResult:
    """Return the answer with the usage and the trajectory of the session's calls, unless the solver set its own."""
    if session is None or not session.calls:
        return answer
    if answer.model_response is None:
        answer.model_response = session.usage()
    if not answer.trajectory:
        answer.trajectory = _trajectory(session, agent)
    return answer


class _Conversation:
    """An agent's calls as one trajectory, in which each message appears once.

    Agents append temporary notes to requests, and return tool calls under ids of their own.
    """

    def __init__(self, builder: TrajectoryBuilder) -> None:
        self._builder = builder
        # The messages of the last request, and the tool calls of its reply.
        self._last_sent: Sequence[JsonDict] = ()
        self._last_calls: Sequence[ToolCallInfo] = ()
        # The id under which a tool call is recorded, by each id that the agent uses for it.
        self._recorded_ids: dict[str, str] = {}
        # Ids and contents of the results that are in the trajectory.
        self._recorded_results: set[tuple[str, str]] = set()

    def add(self, sent: Sequence[JsonDict], reply: ModelResponse) -> None:
        """Add a request and its reply."""
        known_messages = _common_start(sent, self._last_sent)
        for message in sent[known_messages:]:
            self._match_ids(message)
            recorded_id = None
            if message.get("role") == "tool":
                recorded_id = self._recorded_ids.get(str(message.get("tool_call_id")))
            if recorded_id:
                self._add_result(recorded_id, str(message.get("content")))
            elif message.get("role") != "assistant" or not known_messages:
                self._builder.message(str(message.get("role", "user")), message.get("content"))
        self._builder.agent(reply, reply.tool_calls)
        self._last_sent = sent
        self._last_calls = reply.tool_calls
        for call in reply.tool_calls:
            self._recorded_ids[call.id] = call.id

    def _match_ids(self, message: JsonDict) -> None:
        """Record the agent's own ids of the last tool calls, which it returns in the same order."""
        calls = message.get("tool_calls")
        if not isinstance(calls, list):
            return
        for returned_call, call in zip(calls, self._last_calls, strict=False):
            own_id = str(as_dict(returned_call).get("id"))
            self._recorded_ids.setdefault(own_id, call.id)

    def _add_result(self, call_id: str, content: str) -> None:
        """Add the result of a tool call, unless an earlier request had it."""
        result = (call_id, content)
        if result in self._recorded_results:
            return
        self._recorded_results.add(result)
        self._builder.observe(call_id, content, latency_ms=0.0, is_error=False, source="agent")


def _common_start(messages: Sequence[JsonDict], others: Sequence[JsonDict]) -> int:
    """Return how many messages at the start of two conversations are equal."""
    for index, (message, counterpart) in enumerate(zip(messages, others, strict=False)):
        if message != counterpart:
            return index
    return min(len(messages), len(others))


def _trajectory(session: AgentSession, agent: str) -> list[TrajectoryDocument]:
    """Return every call of a session in order, as one trajectory."""
    builder = TrajectoryBuilder(agent=agent, model=session.access.model)
    conversation = _Conversation(builder)
    for messages, reply in session.calls:
        conversation.add(messages, reply)
    return builder.finish(calls=len(session.calls))


def tripped(wires: Mapping[str, str], trajectory: list[TrajectoryDocument]) -> dict[str, str]:
    """Find forbidden actions in what an agent did.

    Args:
        wires: What a match means, by regular expression.
        trajectory: What the agent did.

    Returns:
        Each forbidden action, with the text around its first match.
    """
    excerpts: dict[str, str] = {}
    for text in _agent_texts(trajectory):
        for pattern, deed in wires.items():
            if deed in excerpts:
                continue
            match = re.search(pattern, text)
            if match is not None:
                start = max(0, match.start() - _CHARS_AROUND)
                excerpts[deed] = text[start : match.end() + _CHARS_AROUND]
    return excerpts


def noted(details: JsonDict, more_details: JsonDict) -> JsonDict:
    """Merge two parts of a row's details, combining the tripwires of both."""
    merged = details | more_details
    tripwires = {**(details.get(TRIPWIRES) or {}), **(more_details.get(TRIPWIRES) or {})}
    if tripwires:
        merged[TRIPWIRES] = tripwires
    return merged


def _agent_texts(trajectory: list[TrajectoryDocument]) -> Iterator[str]:
    """Yield the messages and tool calls of the agent itself, but not its input."""
    for document in trajectory:
        agent = document.get("agent")
        if agent and agent.get("name") == _EXEMPT:
            continue
        for step in document.get("steps") or ():
            if step.get("source") != "agent":
                continue
            yield str(step.get("message") or "")
            for call in step.get("tool_calls") or ():
                yield dumps(call.get("arguments")).decode()
