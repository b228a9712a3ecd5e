"""The model for agents outside of this process: the proxy of a service, with a session for every attempt at a problem.

What an agent sends through its session belongs to that attempt: it spends the step's budgets, counts its turns, and
becomes its trajectory and usage. The key is valid for that session alone, and only during the attempt.
"""

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
    """One attempt of one agent.

    Attributes:
        access: The URL, key and model for the agent.
        scope: On whose behalf the agent calls the model.
        calls: The messages and the response of every answered call.
        fault: Why the last call got no answer; None if it got one.
    """

    access: ModelAccess
    scope: CallScope
    calls: list[tuple[list[JsonDict], ModelResponse]] = field(default_factory=list)
    fault: BoundaryError | None = None

    @property
    def broken(self) -> TransportError | None:
        """Why the agent's last connection to the model did not leave its sandbox; None if it did."""
        reason = why_broken(self.access.url)
        if reason:
            return TransportError(
                f"the agent's connection to the model broke on this side: {reason}"
            )
        return None

    @property
    def spent(self) -> str | None:
        """The limit of the step that the agent has reached, if any."""
        for budget in self.scope.budgets:
            if budget.step and budget.ended:
                return budget.ended
        return None

    def usage(self) -> ModelResponse | None:
        """All calls combined into one response; None if there were none."""
        if self.calls:
            return together([reply for _, reply in self.calls])
        return None


class AgentProxy:
    """The proxy of one service for the agents of one benchmark.

    Attributes:
        generation: The generation settings of the service, which the agents set in their requests.
    """

    def __init__(self, endpoint: Endpoint, *, host: str = "127.0.0.1") -> None:
        """Set up the proxy; ``start`` listens.

        Args:
            endpoint: The endpoint of the service.
            host: The IP address that the agents can reach.
        """
        self._ledger = _Ledger()
        self._proxy = Proxy(endpoint, host=host, sessions_only=True, stages=(self._ledger,))
        self._model = endpoint.model
        self.generation = endpoint.generation

    async def start(self) -> None:
        """Listen."""
        await self._proxy.start()

    async def close(self) -> None:
        """Stop listening and cancel open requests."""
        await self._proxy.stop()

    @contextmanager
    def session(self, scope: CallScope) -> Iterator[AgentSession]:
        """A session for one attempt; its key becomes invalid afterwards."""
        url = self._proxy.session(scope)
        access = ModelAccess(url, self._proxy.key_of(scope.session), self._model)
        session = AgentSession(access, scope)
        self._ledger.sessions[scope.session] = session
        try:
            yield session
        finally:
            del self._ledger.sessions[scope.session]
            mended(url)
            self._proxy.forget(scope.session)


class _Ledger(base.Observer):
    """Adds every call to its session."""

    place = base.Place.TRAFFIC

    def __init__(self) -> None:
        self.sessions: dict[str, AgentSession] = {}

    def on_reply(self, request: ModelRequest, reply: ModelReply) -> None:
        """Store the call in its session, or the error."""
        session = self.sessions.get(request.session or "")
        if session is None:
            return
        mended(session.access.url)
        if not reply.ok:
            session.fault = error_of(reply, self._endpoint)
            return
        session.fault = None
        messages = _messages_of(reply.sent or request.body)
        session.calls.append((messages, self._response(reply)))

    def on_error(self, request: ModelRequest, error: BoundaryError) -> None:
        """Store the error in its session."""
        session = self.sessions.get(request.session or "")
        if session is not None:
            session.fault = error

    def _response(self, reply: ModelReply) -> ModelResponse:
        """Convert a reply to the response that the trajectory stores, with its cost."""
        content, reasoning, calls = texts_of(reply.body)
        tool_calls: list[ToolCallInfo] = []
        for call in calls:
            arguments = parse_arguments(call["arguments"])
            call_id = str(call["id"] or "")
            tool_calls.append(ToolCallInfo(call_id, str(call["name"] or ""), arguments))
        response = answered(
            reply.body,
            "",
            content=content,
            finish_reason=finish_reason_of(reply.body) or "",
            latency_ms=reply.latency_ms,
            queue_ms=reply.queue_ms,
            reasoning_content=reasoning or None,
            tool_calls=tool_calls,
            from_cache=reply.from_cache,
        )
        # A long session keeps the texts only, not the whole answers.
        response.raw_response = {"id": reply.body.get("id")}
        price = price_of(self._endpoint)
        if price is not None and not reply.from_cache:
            response.cost_usd = cost_of(response, price)
        return response


def _messages_of(body: JsonDict) -> list[JsonDict]:
    """The content of a request as messages, whatever its protocol."""
    content: Any = body.get("messages") or body.get("input") or body.get("prompt") or []
    if isinstance(content, str):
        return [{"role": "user", "content": content}]
    if isinstance(content, list):
        return [message for message in content if isinstance(message, dict)]
    return []
