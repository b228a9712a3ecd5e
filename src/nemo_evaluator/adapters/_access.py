"""What a key permits: the session it belongs to, the routes of the proxy, and the models a request may name."""

import hashlib
import hmac
import re
import secrets
from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

from nemo_evaluator.adapters._errors import Refused
from nemo_evaluator.adapters.convert import ROUTES
from nemo_evaluator.core.secrets import Secret
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.models.types import CallScope

RawHeaders = Sequence[tuple[bytes, bytes]]

_SESSION: Final = re.compile(r"/s/([A-Za-z0-9_-]{1,128})(/.*)?")
# Headers of an agent that are forwarded: none that chooses an account, a route or a key upstream.
_FORWARDED: Final = frozenset({b"x-request-id", b"idempotency-key", b"traceparent", b"tracestate"})
# Fields by which gateways take further models.
_MORE_MODELS: Final = ("models", "fallbacks")

_OPENING_BYTES: Final = 6


class Caller(NamedTuple):
    """Who sends a request.

    Attributes:
        scope: On whose behalf the model is called; None for calls outside of any session and scope.
        trusted: Whether the key is the token of the proxy.
    """

    scope: CallScope | None
    trusted: bool


class Access:
    """Keys and sessions of one proxy.

    The key of a session contains its name and a number of its opening, and is signed with the token: its holder can use
    neither another session, nor a later one of the same name.
    """

    def __init__(self, token: Secret, scope: CallScope | None, *, sessions_only: bool) -> None:
        """Start without sessions.

        Args:
            token: The token of the proxy; it may use everything.
            scope: On whose behalf calls with the token, outside of any session, are made.
            sessions_only: Refuse calls outside of sessions.
        """
        self.opened: dict[str, CallScope] = {}
        self._openings: dict[str, str] = {}
        self._token = token.reveal().encode()
        self._scope = scope
        self._sessions_only = sessions_only

    def open(self, scope: CallScope) -> None:
        """Open the session of a scope, with a new key; one that is open already keeps its key."""
        if scope.session not in self.opened:
            self._openings[scope.session] = secrets.token_hex(_OPENING_BYTES)
        self.opened[scope.session] = scope

    def close(self, session: str) -> None:
        """Close a session; its key is never valid again."""
        self.opened.pop(session, None)
        self._openings.pop(session, None)

    def key_of(self, session: str) -> str:
        """The key of a session that is open."""
        return self._signed(session, self._openings.get(session, ""))

    def _signed(self, session: str, opening: str) -> str:
        signed_text = f"{session}.{opening}".encode()
        signature = hmac.new(self._token, signed_text, hashlib.sha256).hexdigest()
        return f"{session}.{opening}{signature[:40]}"

    def caller(self, key: str, session: str | None) -> Caller:
        """Find out who sends a request.

        Args:
            key: The key of the request.
            session: The session that the path names, if it names one.

        Raises:
            Refused: The key is wrong, or is not valid for this session.
        """
        own_session, _, opening_and_signature = key.rpartition(".")
        opening = opening_and_signature[: 2 * _OPENING_BYTES]
        signed_key = self._signed(own_session, opening)
        if own_session and hmac.compare_digest(key.encode(), signed_key.encode()):
            is_open = own_session in self.opened and self._openings.get(own_session) == opening
            if session not in (None, own_session) or not is_open:
                text = f"this key is for session {own_session!r} alone, while it is open"
                raise Refused(403, text, "permission_error")
            return Caller(self.opened[own_session], trusted=False)
        if not hmac.compare_digest(key.encode(), self._token):
            text = "the proxy's token is missing or wrong: give it as the API key"
            raise Refused(401, text, "authentication_error")
        if session is None:
            return Caller(self._scope, trusted=True)
        if session not in self.opened:
            text = f"there is no session {session!r}: sessions are opened where the proxy is started (--session)"
            raise Refused(404, text, "not_found_error")
        return Caller(self.opened[session], trusted=True)

    def is_open(self, scope: CallScope | None) -> bool:
        """Whether a caller may still send requests: its session may have been closed since its key was checked."""
        if scope is None or scope is self._scope:
            return True
        return self.opened.get(scope.session) is scope

    def check(self, scope: CallScope | None, path: str) -> None:
        """Check that a route exists and that the caller may use it.

        Raises:
            Refused: The path is not a route of a protocol, or the proxy answers only inside sessions.
        """
        if path not in ROUTES:
            routes = ", ".join(f"/v1{route}" for route in ROUTES)
            raise Refused(404, f"no such route: POST one of {routes}", code="unknown_url")
        in_session = scope is not None and scope.session in self.opened
        if self._sessions_only and not in_session:
            text = "this proxy answers inside its sessions only: /s/<session>/v1/..."
            raise Refused(403, text, "permission_error")


def split_path(path: str) -> tuple[str | None, str]:
    """Return the session in a path, if any, and the path without session and version."""
    session: str | None = None
    unversioned_path: str | None = path
    match = _SESSION.fullmatch(path)
    if match is not None:
        session, unversioned_path = match.groups()
    route = (unversioned_path or "").rstrip("/") or "/"
    if route.startswith("/v1/"):
        route = route[3:]
    return session, route


def pin_model(body: JsonDict, own: str, allowed: Collection[str]) -> None:
    """Fill in the model of a request that names none.

    Args:
        body: The request; it is changed.
        own: The model of the service.
        allowed: Further models that the config allows.

    Raises:
        Refused: The request names another model.
    """
    if own and not body.get("model"):
        body["model"] = own
    named_models = [("model", body.get("model"))]
    for field in _MORE_MODELS:
        named_models += [(field, model) for model in _items(body.get(field))]
    for field, model in named_models:
        is_allowed = model == own or (isinstance(model, str) and model in allowed)
        if is_allowed:
            continue
        allowed_models = ", ".join(repr(name) for name in dict.fromkeys((own, *allowed)))
        text = f"the model {str(model)[:100]!r} is not served here; use {allowed_models} (more: proxy.allowed_models)"
        raise Refused(404, text, code="model_not_found", param=field)


def _items(value: object) -> Sequence[object]:
    """The items of a list; any other value is the only item."""
    if value is None:
        return ()
    if isinstance(value, list):
        return value
    return (value,)


def token_of(headers: RawHeaders) -> str:
    """The key of a request, from any of the headers where clients put it."""
    for name, value in headers:
        if name == b"authorization":
            return value.decode("latin-1").removeprefix("Bearer ").strip()
        if name in (b"x-api-key", b"api-key"):
            return value.decode("latin-1")
    return ""


def passed_headers(headers: RawHeaders) -> dict[str, str]:
    """The headers of a request that are forwarded to the service."""
    forwarded: dict[str, str] = {}
    for name, value in headers:
        if name in _FORWARDED:
            forwarded[name.decode("latin-1")] = value.decode("latin-1")
    return forwarded
