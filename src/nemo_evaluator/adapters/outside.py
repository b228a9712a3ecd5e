"""The door for agents that live outside: the proxy of a service, with a session for every attempt at a problem. What an
agent sends through its session is that step's traffic: it spends the step's budgets, counts its turns, and becomes its
trajectory and usage. The key opens that session alone, and nothing once the attempt is over."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from nemo_evaluator.adapters import base
from nemo_evaluator.adapters._bodies import finish_reason_of, texts_of
from nemo_evaluator.adapters.proxy import Proxy
from nemo_evaluator.core.broken_ways import mended, why_broken
from nemo_evaluator.core.errors import BoundaryError, TransportError
from nemo_evaluator.core.types import JsonDict, ModelAccess, ModelResponse, ToolCallInfo
from nemo_evaluator.models.chat import answered, parse_arguments
from nemo_evaluator.models.cost import cost_of, price_of
from nemo_evaluator.models.endpoint import Endpoint
from nemo_evaluator.models.faults import error_of
from nemo_evaluator.models.types import CallScope, ModelReply, ModelRequest
from nemo_evaluator.models.usage import together


@dataclass(slots=True)
class AgentSession:
    """One attempt of one agent, and what it sent and got."""

    access: ModelAccess
    scope: CallScope
    calls: list[tuple[list[JsonDict], ModelResponse]] = field(default_factory=list)
    # Why the last call got no answer; None when it got one.
    fault: BoundaryError | None = None

    @property
    def broken(self) -> TransportError | None:
        """Why the agent's last connection to the model did not get out of its sandbox; None when it did."""
        why = why_broken(self.access.url)
        if why:
            return TransportError(f"the agent's connection to the model broke on this side: {why}")
        return None

    @property
    def spent(self) -> str | None:
        """The limit of the step that the agent ran into."""
        return next(
            (budget.ended for budget in self.scope.budgets if budget.step and budget.ended), None
        )

    def usage(self) -> ModelResponse | None:
        """All calls as one: what the agent's work cost."""
        if self.calls:
            return together([reply for _, reply in self.calls])
        return None


class AgentDoor:
    """The proxy of one service for the agents of one benchmark."""

    def __init__(self, endpoint: Endpoint, *, host: str = "127.0.0.1") -> None:
        self._ledger = _Ledger()
        self._proxy = Proxy(endpoint, host=host, sessions_only=True, stages=(self._ledger,))
        self._model = endpoint.model

    async def start(self) -> None:
        await self._proxy.start()

    async def close(self) -> None:
        await self._proxy.stop()

    @contextmanager
    def session(self, scope: CallScope) -> Iterator[AgentSession]:
        """A session for one attempt; afterwards its key opens nothing."""
        url = self._proxy.session(scope)
        access = ModelAccess(url, self._proxy.key_of(scope.session), self._model)
        opened = self._ledger.sessions[scope.session] = AgentSession(access, scope)
        try:
            yield opened
        finally:
            del self._ledger.sessions[scope.session]
            mended(url)
            self._proxy.forget(scope.session)


class _Ledger(base.Observer):
    """Writes every call into the session that made it."""

    place = base.Place.TRAFFIC

    def __init__(self) -> None:
        self.sessions: dict[str, AgentSession] = {}

    def on_reply(self, request: ModelRequest, reply: ModelReply) -> None:
        session = self.sessions.get(request.session or "")
        if session is None:
            return
        mended(session.access.url)
        if reply.ok:
            session.fault = None
        else:
            session.fault = error_of(reply, self._endpoint)
        if reply.ok:
            session.calls.append((_sent(reply.sent or request.body), self._response(reply)))

    def on_error(self, request: ModelRequest, error: BoundaryError) -> None:
        session = self.sessions.get(request.session or "")
        if session is not None:
            session.fault = error

    def _response(self, reply: ModelReply) -> ModelResponse:
        content, reasoning, calls = texts_of(reply.body)
        response = answered(
            reply.body,
            "",
            content=content,
            finish_reason=finish_reason_of(reply.body) or "",
            latency_ms=reply.latency_ms,
            queue_ms=reply.queue_ms,
            reasoning_content=reasoning or None,
            tool_calls=[
                ToolCallInfo(
                    str(c["id"] or ""), str(c["name"] or ""), parse_arguments(c["arguments"])
                )
                for c in calls
            ],
            from_cache=reply.from_cache,
        )
        # Of a long session the texts are kept, not the whole answers.
        response.raw_response = {"id": reply.body.get("id")}
        price = price_of(self._endpoint)
        if price is not None and not reply.from_cache:
            response.cost_usd = cost_of(response, price)
        return response


def _sent(body: JsonDict) -> list[JsonDict]:
    """What was asked, as messages, whichever protocol it was asked in."""
    asked: Any = body.get("messages") or body.get("input") or body.get("prompt") or []
    if isinstance(asked, str):
        return [{"role": "user", "content": asked}]
    if isinstance(asked, list):
        return [message for message in asked if isinstance(message, dict)]
    return []
