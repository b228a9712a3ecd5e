"""Errors as an agent sees them: in the shape of its protocol, with a status that says what happened."""

from typing import Final

from nemo_evaluator.core.errors import BudgetError, ContextExceededError, NelError, RateLimitError, TransportError
from nemo_evaluator.core.secrets import scrub
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.models.budget import BudgetExhausted
from nemo_evaluator.models.faults import SESSION_BUDGET, message_of
from nemo_evaluator.models.types import ModelReply

_FINAL: Final = {"x-should-retry": "false"}
_KINDS: Final = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
}


def error_reply(path: str, error: NelError) -> ModelReply:
    """What an agent gets for an error of the pipeline."""
    text = scrub(error.message + (f" ({error.hint})" if error.hint else ""))
    if isinstance(error, BudgetError):
        return _reply(path, 429, text, "invalid_request_error", SESSION_BUDGET)
    if isinstance(error, BudgetExhausted):
        return _reply(path, 429, text, "insufficient_quota", "run_budget_exhausted")
    if isinstance(error, RateLimitError):
        return _reply(path, 429, text, "rate_limit_error", None)
    if isinstance(error, ContextExceededError):
        return _reply(path, error.status or 400, text, "invalid_request_error", "context_length_exceeded")
    status = getattr(error, "status", None)
    if isinstance(error, TransportError) and status is None:
        late = "(timeouts." in error.message
        return _reply(path, 504 if late else 502, text, "timeout" if late else "upstream_error", None)
    return _reply(path, status or 500, text, _KINDS.get(status or 500, "server_error"), None)


def _reply(path: str, status: int, text: str, kind: str, code: str | None) -> ModelReply:
    body = {"error": {"message": text, "type": kind, "code": code, "param": None}}
    reply = ModelReply(status, body, _FINAL)
    reply.body = as_error(path, reply)
    return reply


def as_error(path: str, reply: ModelReply) -> JsonDict:
    """The error body of a reply, in the shape of the protocol that the agent speaks."""
    text = message_of(reply)
    error = reply.body.get("error")
    if path == "/messages":
        given = error.get("type") if isinstance(error, dict) else None
        kind = _KINDS.get(reply.status) or given or "api_error"
        return {"type": "error", "error": {"type": kind, "message": text}}
    if isinstance(error, dict):
        return reply.body
    kind = _KINDS.get(reply.status, "server_error")
    return {"error": {"message": text, "type": kind, "code": None, "param": None}}
