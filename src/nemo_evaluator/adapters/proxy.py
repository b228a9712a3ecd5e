"""The second door: the pipeline of a service behind HTTP, for agents that live outside. It listens on loopback (or on
one named address, for containers), asks for a token or for the key of a session (``/s/<id>/v1/...``), carries the
routes of the protocols and the models of the service and nothing else, passes streams on as they come, and leaves the
service when the agent leaves."""

import secrets
from collections.abc import Sequence

from nemo_evaluator.adapters._access import Access, split_path
from nemo_evaluator.adapters._asgi import ProxyApp
from nemo_evaluator.adapters.base import Interceptor
from nemo_evaluator.adapters.http_server import HttpServer
from nemo_evaluator.adapters.in_process import Door
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.secrets import Secret, forget
from nemo_evaluator.models.endpoint import Endpoint
from nemo_evaluator.models.types import CallScope


class Proxy(HttpServer):
    """One service behind HTTP, on the running loop.

    ::

        async with Proxy(endpoint) as proxy:
            url = proxy.session(CallScope("a1b2"))      # give the agent this URL
            key = proxy.key_of("a1b2")                  # and this key, which is good for that session alone

    Calls with the token, outside of any session, are made on behalf of ``scope``; ``sessions_only`` refuses them.
    ``stages`` stand in the pipeline beside those of the service.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        token: Secret | None = None,
        scope: CallScope | None = None,
        sessions_only: bool = False,
        stages: Sequence[Interceptor] = (),
    ) -> None:
        self.door = Door(endpoint, stages)
        self._own_token = token is None
        self.token = token or Secret(secrets.token_urlsafe(24))
        self._access = Access(self.token, scope, sessions_only=sessions_only)
        app = ProxyApp(self.door, self._access)
        self.stats = app.stats
        super().__init__(app, host, port, app.leave_all)

    @property
    def url(self) -> str:
        """The versioned base URL."""
        return f"{self.root}/v1"

    def session(self, scope: CallScope) -> str:
        """Open a session and return its base URL; calls with its key are made on behalf of ``scope``."""
        check_session(scope.session)
        self._access.opened[scope.session] = scope
        return f"{self.root}/s/{scope.session}/v1"

    def key_of(self, session: str) -> Secret:
        """The key of a session: it opens that session and no other, whatever path or header it is sent with."""
        return Secret(self._access.key_of(session))

    def forget(self, session: str) -> None:
        """Close a session; its key opens nothing any more."""
        self._access.opened.pop(session, None)
        forget(self.key_of(session))

    async def stop(self) -> None:
        """Stop listening, leave every request under way, close the pipeline."""
        await super().stop()
        await self.door.close()
        for session in list(self._access.opened):
            self.forget(session)
        if self._own_token:
            forget(self.token)


def check_session(name: str) -> None:
    """Refuse a name that could not stand in a URL."""
    if split_path(f"/s/{name}/v1/models") != (name, "/models"):
        raise UsageError(f"{name!r} is not a session name", hint="up to 128 letters, digits, - and _")
