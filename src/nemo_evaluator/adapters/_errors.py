"""Errors as an agent sees them: in the shape of its protocol, with a status that says what happened."""

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

# The retries are done on this side; a client that repeats them would only multiply them.
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
    """A request goes no further."""

    def __init__(
        self,
        status: int,
        text: str,
        kind: str = _INVALID,
        code: str | None = None,
        param: str | None = None,
    ) -> None:
        super().__init__(text)
        self.status = status
        self.headers: dict[str, str] = {}
        self._error = {"message": text, "type": kind, "code": code, "param": param}

    def body(self, path: str) -> JsonDict:
        """What the agent is told, in the shape of its protocol."""
        return as_error(path, ModelReply(self.status, {"error": self._error}))


def refused_by(error: NelError) -> Refused:
    """What an agent gets for an error of the pipeline."""
    status = getattr(error, "status", None)
    if isinstance(error, BudgetError):
        said: tuple[int, str, str | None] = (429, _INVALID, SESSION_BUDGET)
    elif isinstance(error, BudgetExhausted):
        said = (429, "insufficient_quota", "run_budget_exhausted")
    elif isinstance(error, RateLimitError):
        said = (429, "rate_limit_error", None)
    elif isinstance(error, ContextExceededError):
        said = (status or 400, _INVALID, "context_length_exceeded")
    elif isinstance(error, TransportError) and status is None:
        if "(timeouts." in error.message:
            said = (504, "timeout", None)
        else:
            said = (502, "upstream_error", None)
    else:
        said = (status or 500, _KINDS.get(status or 500, "server_error"), None)
    text = scrub(error.message + (f" ({error.hint})" if error.hint else ""))
    refused = Refused(said[0], text, said[1], code=said[2])
    refused.headers = FINAL
    return refused


def as_error(path: str, reply: ModelReply) -> JsonDict:
    """The error body of a reply, in the shape of the protocol that the agent speaks."""
    error = reply.body.get("error")
    if path == "/messages":
        kind = _KINDS.get(reply.status) or as_dict(error).get("type") or "api_error"
        return {"type": "error", "error": {"type": kind, "message": message_of(reply)}}
    if isinstance(error, dict):
        return reply.body
    kind = _KINDS.get(reply.status, "server_error")
    return {"error": {"message": message_of(reply), "type": kind, "code": None, "param": None}}
