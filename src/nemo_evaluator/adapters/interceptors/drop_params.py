"""``drop_params``: removes named top-level fields from the request body."""

from __future__ import annotations

from typing import Final

from nemo_evaluator.adapters import base
from nemo_evaluator.core.kinds import Kind
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.models.types import ModelReply, ModelRequest


class Interceptor(base.Interceptor):
    """Removes ``params``."""

    def __init__(self, params: list[str]) -> None:
        self._params = frozenset(params)
        self._dropped = 0

    async def on_request(self, request: ModelRequest) -> ModelReply | None:
        """Drop the fields."""
        if not self._params.isdisjoint(request.body):
            request.body = {key: value for key, value in request.body.items() if key not in self._params}
            self._dropped += 1
        return None

    def stats(self) -> JsonDict:
        """How many requests were changed."""
        return {"requests_changed": self._dropped}


KIND: Final = Kind(build=Interceptor)
