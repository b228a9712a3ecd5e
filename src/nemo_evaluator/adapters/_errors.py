"""Errors as an agent sees them: in the shape of its protocol, with a status that names the cause."""

from dataclasses import dataclass
from typing import Final

from nemo_evaluator.core.errors import (
    BudgetError,
    ContextExceededError,
    NelError,
    RateLimitError,
    TransportError,
)
from nemo_evaluator.core.json_coerce import as_dict
from nemo_evaluator.core.secrets import scrub
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.models.budget import BudgetExhausted
from nemo_evaluator.models.faults import SESSION_BUDGET, message_of
from nemo_evaluator.models.types import ModelReply

#: The proxy has retried already; a client that retries again would only multiply the requests.
FINAL: Final = {"x-should-retry": "false"}
_INVALID: Final = "invalid_request_error"
_KINDS: Final = {
    400: _INVALID,
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
}


class Refused(Exception):
    """A request that the proxy answers itself, with an error.

    Attributes:
        status: The HTTP status of the answer.
        headers: Further headers of the answer.
    """

    def __init__(
        self,
        status: int,
        text: str,
        kind: str = _INVALID,
        code: str | None = None,
        param: str | None = None,
    ) -> None:
        """Describe the error.

        Args:
            status: The HTTP status.
            text: The message.
            kind: The type of the error, in OpenAI's terms.
            code: The code of the error, in OpenAI's terms.
            param: The field of the request that caused it.
        """
        super().__init__(text)
        self.status = status
        self.headers: dict[str, str] = {}
        self._error = {"message": text, "type": kind, "code": code, "param": param}

    def body(self, path: str) -> JsonDict:
        """The body of the answer, in the shape of the protocol of ``path``."""
        return as_error(path, ModelReply(self.status, {"error": self._error}))


@dataclass(frozen=True, slots=True)
class _ErrorShape:
    """How an error of the pipeline looks to an agent."""

    status: int
    kind: str
    code: str | None = None


def refused_by(error: NelError) -> Refused:
    """The answer to an agent whose request failed in the pipeline."""
    shape = _shape_of(error)
    text = error.message
    if error.hint:
        text += f" ({error.hint})"
    refused = Refused(shape.status, scrub(text), shape.kind, code=shape.code)
    refused.headers = FINAL
    return refused


def _shape_of(error: NelError) -> _ErrorShape:
    """Choose the status, type and code of an error in the pipeline."""
    status: int | None = getattr(error, "status", None)
    if isinstance(error, BudgetError):
        return _ErrorShape(429, _INVALID, SESSION_BUDGET)
    if isinstance(error, BudgetExhausted):
        return _ErrorShape(429, "insufficient_quota", "run_budget_exhausted")
    if isinstance(error, RateLimitError):
        return _ErrorShape(429, "rate_limit_error")
    if isinstance(error, ContextExceededError):
        return _ErrorShape(status or 400, _INVALID, "context_length_exceeded")
    if isinstance(error, TransportError) and status is None:
        if "(timeouts." in error.message:
            return _ErrorShape(504, "timeout")
        return _ErrorShape(502, "upstream_error")
    status = status or 500
    return _ErrorShape(status, _KINDS.get(status, "server_error"))


def as_error(path: str, reply: ModelReply) -> JsonDict:
    """The body of an error reply, in the shape of the protocol that the agent uses."""
    error = reply.body.get("error")
    if path == "/messages":
        kind = _KINDS.get(reply.status) or as_dict(error).get("type") or "api_error"
        return {"type": "error", "error": {"type": kind, "message": message_of(reply)}}
    if isinstance(error, dict):
        return reply.body
    kind = _KINDS.get(reply.status, "server_error")
    return {"error": {"message": message_of(reply), "type": kind, "code": None, "param": None}}
