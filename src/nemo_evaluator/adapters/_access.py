"""What a key opens: which session it speaks for, which routes there are, which models may be asked."""

import hashlib
import hmac
import re
from collections.abc import Collection, Sequence
from typing import Final

from nemo_evaluator.adapters._errors import Refused
from nemo_evaluator.adapters.convert import ROUTES
from nemo_evaluator.core.secrets import Secret
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.models.types import CallScope

RawHeaders = Sequence[tuple[bytes, bytes]]

_SESSION: Final = re.compile(r"/s/([A-Za-z0-9_-]{1,128})(/.*)?")
# What of an agent's headers goes on: nothing that chooses an account, a route or a key upstream.
_PASSED: Final = frozenset({b"x-request-id", b"idempotency-key", b"traceparent", b"tracestate"})
# Fields by which gateways take further models.
_MORE_MODELS: Final = ("models", "fallbacks")


class Access:
    """Keys and sessions of one proxy. The key of a session names it and is signed with the token, so that whoever
    holds it cannot speak for another session."""

    def __init__(self, token: Secret, scope: CallScope | None, *, sessions_only: bool) -> None:
        self.opened: dict[str, CallScope] = {}
        self._token = token.reveal().encode()
        self._scope = scope
        self._sessions_only = sessions_only

    def key_of(self, session: str) -> str:
        return (
            f"{session}.{hmac.new(self._token, session.encode(), hashlib.sha256).hexdigest()[:40]}"
        )

    def caller(self, given: str, session: str | None) -> tuple[CallScope | None, bool]:
        """On whose behalf a key asks, on a path that names ``session`` or none; is it the token? Raises Refused."""
        own = given.rpartition(".")[0]
        if own and hmac.compare_digest(given.encode(), self.key_of(own).encode()):
            if session not in (None, own) or own not in self.opened:
                raise Refused(
                    403,
                    f"this key is for session {own!r} alone, while it is open",
                    "permission_error",
                )
            return self.opened[own], False
        if not hmac.compare_digest(given.encode(), self._token):
            text = "the proxy's token is missing or wrong: give it as the API key"
            raise Refused(401, text, "authentication_error")
        if session is None:
            return self._scope, True
        if session not in self.opened:
            text = f"there is no session {session!r}: sessions are opened where the proxy is started (--session)"
            raise Refused(404, text, "not_found_error")
        return self.opened[session], True

    def is_open(self, caller: CallScope | None) -> bool:
        """Whether a caller may still ask: a session may have been closed since its key was looked at."""
        return caller is None or caller is self._scope or self.opened.get(caller.session) is caller

    def check(self, caller: CallScope | None, path: str) -> None:
        """Only the routes of the protocols are carried on, and questions answered only inside of sessions, if any."""
        if path not in ROUTES:
            text = f"no such route: POST one of {', '.join(f'/v1{known}' for known in ROUTES)}"
            raise Refused(404, text, code="unknown_url")
        if self._sessions_only and (caller is None or caller.session not in self.opened):
            raise Refused(
                403,
                "this proxy answers inside its sessions only: /s/<session>/v1/...",
                "permission_error",
            )


def split_path(path: str) -> tuple[str | None, str]:
    """The session of a path, if it names one, and the path without session and version."""
    match = _SESSION.fullmatch(path)
    session, rest = match.groups() if match is not None else (None, path)
    rest = (rest or "").rstrip("/") or "/"
    return session, rest[3:] if rest.startswith("/v1/") else rest


def pin_model(body: JsonDict, own: str, allowed: Collection[str]) -> None:
    """Fill the model in where none is named; refuse one that is not the service's nor allowed by its config."""
    if own and not body.get("model"):
        body["model"] = own
    named = [("model", body.get("model"))]
    for field in _MORE_MODELS:
        for item in _each(body.get(field)):
            named.append((field, item))
    for field, model in named:
        if model != own and not (isinstance(model, str) and model in allowed):
            known = ", ".join(repr(name) for name in dict.fromkeys((own, *allowed)))
            text = f"the model {str(model)[:100]!r} is not served here; use {known} (more: proxy.allowed_models)"
            raise Refused(404, text, code="model_not_found", param=field)


def _each(value: object) -> Sequence[object]:
    if value is None:
        return ()
    if isinstance(value, list):
        return value
    return (value,)


def token_of(headers: RawHeaders) -> str:
    """The key that an agent gives, in either of the places where clients put it."""
    for name, value in headers:
        if name == b"authorization":
            return value.decode("latin-1").removeprefix("Bearer ").strip()
        if name in (b"x-api-key", b"api-key"):
            return value.decode("latin-1")
    return ""


def passed_headers(headers: RawHeaders) -> dict[str, str]:
    mapping: dict[str, str] = {}
    for name, value in headers:
        if name in _PASSED:
            mapping[name.decode("latin-1")] = value.decode("latin-1")
    return mapping
