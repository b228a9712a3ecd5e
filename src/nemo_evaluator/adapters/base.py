"""The contract of an interceptor: a stage that sees model requests, replies and the events of streams."""

import logging
from collections.abc import Sequence
from enum import IntEnum
from typing import ClassVar, Final

from nemo_evaluator.core.errors import BoundaryError
from nemo_evaluator.core.logs import CleanFormatter
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.models.endpoint import Endpoint
from nemo_evaluator.models.types import ModelReply, ModelRequest

# The note of a request that came through the proxy: what it says of itself is the agent's word.
OUTSIDE: Final = "outside"
# The log of the stages that speak.
log: Final = logging.getLogger("nemo_evaluator.traffic")


class Place(IntEnum):
    """Where a stage stands between the asker and the endpoint. Requests pass the places upwards, replies downwards. All
    stages that change what is asked share one place, and all that only change what is answered another: there the order
    of the config holds. Those that look on, or must stand next to the endpoint, have places of their own."""

    EDIT = 20
    REPLY = 60
    FINISH = 65
    STATS = 70
    STREAM = 75
    LOG = 80
    DUMP = 85
    TRAFFIC = 88
    CACHE = 90


class Interceptor:
    """One stage. Override what you need; the pipeline calls only what is overridden. A stage changes ``request.body``
    by putting a new dict in its place: the old one, and the lists inside it, belong to the asker. ``observes`` says
    that ``on_reply`` changes nothing, so that it can also be called when a stream has passed; ``best_effort`` that its
    own failure must not fail the request."""

    place: ClassVar[int] = Place.EDIT
    observes: ClassVar[bool] = False
    best_effort: ClassVar[bool] = False
    # Says that its log lines are meant to be read.
    talks: ClassVar[bool] = False
    # Attributes that count something worth showing.
    counted: ClassVar[tuple[str, ...]] = ()

    def bind(self, endpoint: Endpoint) -> None:
        """Learn which endpoint the stage stands before; called once, before the first request."""
        self._endpoint = endpoint

    async def on_request(self, request: ModelRequest) -> ModelReply | None:
        """See or change a request; a reply returned here is the answer, and nobody is asked."""
        return None

    async def on_reply(self, request: ModelRequest, reply: ModelReply) -> ModelReply | None:
        """See or change a reply of any status; one returned here takes its place."""
        return None

    def on_event(self, request: ModelRequest, event: JsonDict) -> Sequence[JsonDict]:
        """Change one event of a stream: what is returned is sent in its place."""
        return (event,)

    def on_end(self, request: ModelRequest) -> Sequence[JsonDict]:
        """Events to send before a stream closes: whatever ``on_event`` held back."""
        return ()

    async def on_error(self, request: ModelRequest, error: BoundaryError) -> None:
        """See a request that got no reply at all."""

    def stats(self) -> JsonDict:
        """Counts worth showing."""
        return {name: getattr(self, name) for name in self.counted}

    async def close(self) -> None:
        """Called once, at the end."""


class Observer(Interceptor):
    """A stage that only looks on: it changes nothing, and its own failure fails nothing."""

    observes = True
    best_effort = True


def make_audible() -> None:
    """Show the log on stderr, unless the program has set its logging up by itself."""
    if not log.hasHandlers():
        handler = logging.StreamHandler()
        handler.setFormatter(CleanFormatter("%(asctime)s %(message)s", "%H:%M:%S"))
        log.addHandler(handler)
        log.setLevel(logging.INFO)
