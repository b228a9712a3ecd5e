"""An interceptor: puts a mark on every request."""

from __future__ import annotations

from nemo_evaluator.adapters import Interceptor
from nemo_evaluator.models import ModelReply, ModelRequest


class Stamp(Interceptor):
    """Sets ``user`` of the request."""

    def __init__(self, ink: str = "black") -> None:
        self._ink = ink

    async def on_request(self, request: ModelRequest) -> ModelReply | None:
        """Stamp it."""
        request.body = {**request.body, "user": self._ink}
        return None
