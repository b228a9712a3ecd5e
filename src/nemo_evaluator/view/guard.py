"""Who may use the viewer: requests with the token in the URL that name a loopback host."""

import hmac
from typing import Final

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from nemo_evaluator.adapters.guard import LOOPBACK, refusal

CONTENT_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; style-src-attr 'unsafe-inline'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'"
)
_HEADERS: Final = {
    "content-security-policy": f"{CONTENT_POLICY}; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


class Guard:
    """Accepts requests that name a loopback host and have the token as the first part of their path."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        """Guard ``app`` with ``token``."""
        self._app = app
        self._token = token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse a request, or pass it on with the token removed from the path."""
        token, _, remaining_path = scope["path"].removeprefix("/").partition("/")

        async def send_with_headers(message: Message) -> None:
            """Add the security headers to a response."""
            if message["type"] == "http.response.start":
                headers = list(message["headers"])
                for name, value in _HEADERS.items():
                    headers.append((name.encode(), value.encode()))
                message["headers"] = headers
            await send(message)

        inner_scope = {**scope, "path": f"/{remaining_path}", "raw_path": None, "root_path": ""}
        app = self._refusal(scope, token) or self._app
        await app(inner_scope, receive, send_with_headers)

    def _refusal(self, scope: Scope, token: str) -> PlainTextResponse | None:
        """Return the response to a request that is refused, else None."""
        refused = refusal(scope["headers"], LOOPBACK)
        if refused is not None:
            status, reason = refused
            return PlainTextResponse(reason, status)
        if hmac.compare_digest(token.encode(), self._token):
            return None
        return PlainTextResponse(
            "The token is missing or wrong: open the URL that `nel view` printed.", 403
        )
