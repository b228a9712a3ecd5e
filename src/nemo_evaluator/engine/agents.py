"""What an agent outside did during an attempt: whose fault its end was, and what its calls add to its answer."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from nemo_evaluator.core.errors import BoundaryError, BudgetError
from nemo_evaluator.core.failures import POLICY, Cause
from nemo_evaluator.core.files import dumps
from nemo_evaluator.core.json_coerce import as_dict
from nemo_evaluator.core.types import JsonDict, SolveResult, ToolCallInfo
from nemo_evaluator.solvers.trajectory import TrajectoryBuilder

if TYPE_CHECKING:
    from nemo_evaluator.adapters.outside import AgentSession
    from nemo_evaluator.sandbox.base import OutsideEndpoint


def endpoints_of(session: AgentSession | None) -> tuple[OutsideEndpoint, ...]:
    """The door to the model, as sandboxes are told of it."""
    if session is None:
        return ()
    # Here: most runs need no sandbox, and starting must stay quick.
    from nemo_evaluator.sandbox.base import OutsideEndpoint  # noqa: PLC0415

    return (OutsideEndpoint(session.access.url, variables=session.access.variables()),)


def real_cause(error: BoundaryError, session: AgentSession | None) -> BoundaryError:
    """What ended an agent: the budget it ran into or the model that was gone, rather than the error it made of it."""
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
    """Raise what kept the model from an agent that gave up without one answer of it: that measures nothing. The same
    for an agent whose last connection broke on our side, however it took that."""
    if session is not None and session.broken is not None:
        raise session.broken
    if session is not None and answer.error and not session.calls:
        fault = session.fault
    else:
        fault = None
    if fault is not None and POLICY[fault.cause].retry:
        raise fault


def with_calls(
    answer: SolveResult, session: AgentSession | None, agent: str = "outside"
) -> SolveResult:
    """The answer with the usage and the trajectory that went through the door, unless the solver brought its own."""
    if session is None or not session.calls:
        return answer
    if answer.model_response is None:
        answer.model_response = session.usage()
    if not answer.trajectory:
        answer.trajectory = _trajectory(session, agent)
    return answer


def _trajectory(session: AgentSession, agent: str) -> list[JsonDict]:
    """Every call in order. What a call repeats of the conversation before it is not told again.

    Agents close requests with notes that do not stay, and send calls back under ids of their own.
    """
    builder = TrajectoryBuilder(agent=agent, model=session.access.model)
    told: list[JsonDict] = []
    asked: Sequence[ToolCallInfo] = ()
    # The id under which a call is told, by every id it goes under.
    ids: dict[str, str] = {}
    observed: set[tuple[str, str]] = set()
    for sent, reply in session.calls:
        pairs = enumerate(zip(sent, told, strict=False))
        known = next(
            (at for at, (now, before) in pairs if now != before), min(len(sent), len(told))
        )
        for message in sent[known:]:
            made = message.get("tool_calls")
            for back, call in zip(made if isinstance(made, list) else (), asked, strict=False):
                ids.setdefault(str(as_dict(back).get("id")), call.id)
            if message.get("role") == "tool" and (
                name := ids.get(str(message.get("tool_call_id")))
            ):
                result = (name, str(message.get("content")))
                if result not in observed:
                    builder.observe(*result, latency_ms=0.0, is_error=False, source="agent")
                observed.add(result)
            elif message.get("role") != "assistant" or not known:
                builder.message(str(message.get("role", "user")), message.get("content"))
        builder.agent(reply, reply.tool_calls)
        told = sent
        asked = reply.tool_calls
        ids |= {call.id: call.id for call in asked}
    return builder.finish(calls=len(session.calls))


TRIPWIRES: Final = "tripwires"
_AROUND: Final = 60
# The known solution lies where agents must not look.
_EXEMPT: Final = "oracle"


def tripped(wires: Mapping[str, str], trajectory: list[JsonDict]) -> dict[str, str]:
    """What an agent did that it had no honest use for: each with the place where it shows first."""
    found: dict[str, str] = {}
    for text in _done(trajectory):
        for pattern, what in wires.items():
            if what not in found and (match := re.search(pattern, text)) is not None:
                found[what] = text[max(0, match.start() - _AROUND) : match.end() + _AROUND]
    return found


def noted(one: JsonDict, other: JsonDict) -> JsonDict:
    """Two parts of a row's details as one; both may have noticed something."""
    both = {**(one.get(TRIPWIRES) or {}), **(other.get(TRIPWIRES) or {})}
    return one | other | ({TRIPWIRES: both} if both else {})


def _done(trajectory: list[JsonDict]) -> Iterator[str]:
    """What the agent itself said and ordered; not what it was told."""
    for document in trajectory:
        if (document.get("agent") or {}).get("name") == _EXEMPT:
            continue
        for step in document.get("steps") or ():
            if step.get("source") == "agent":
                yield str(step.get("message") or "")
                for call in step.get("tool_calls") or ():
                    yield dumps(call.get("arguments")).decode()
