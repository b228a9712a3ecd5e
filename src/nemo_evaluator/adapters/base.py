"""The contract of an interceptor: a stage that sees model requests, replies and the events of streams."""

import logging
from collections.abc import Awaitable, Mapping, Sequence
from enum import IntEnum
from typing import Any, ClassVar, Final, TypeAlias

from nemo_evaluator.core.errors import BoundaryError
from nemo_evaluator.core.logs import CleanFormatter
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.models.endpoint import Endpoint
from nemo_evaluator.models.types import ModelReply, ModelRequest

#: The note on a request that came through the proxy: what such a request says of itself cannot be trusted.
OUTSIDE: Final = "outside"
#: The log of the stages whose lines are meant to be read.
log: Final = logging.getLogger("nemo_evaluator.traffic")

#: What ``on_request`` and ``on_reply`` return: a reply or None, directly or from a coroutine.
StageResult: TypeAlias = ModelReply | Awaitable[ModelReply | None] | None


class Place(IntEnum):
    """Where a stage runs between the caller and the endpoint.

    Requests pass the places upwards, replies downwards. All stages that change requests share one place, and all that
    change only replies share another; within a place the order of the config holds. Stages that only observe, or that
    must run next to the endpoint, have places of their own.
    """

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
    """One stage of the pipeline. Override the hooks you need; the pipeline calls only those.

    ``on_request``, ``on_reply`` and ``on_error`` may be plain functions or coroutine functions; plain ones are
    cheaper. A stage changes ``request.body`` by assigning a new dict: the old one, and the lists inside it, belong to
    the caller.

    Attributes:
        place: Where the stage runs.
        observes: ``on_reply`` changes nothing, so it is also called after a stream has passed.
        best_effort: A failure of the stage is logged and does not fail the request.
        talks: The stage writes log lines that are meant to be read.
        counted: Names of the attributes that ``stats`` shows.
    """

    place: ClassVar[int] = Place.EDIT
    observes: ClassVar[bool] = False
    best_effort: ClassVar[bool] = False
    talks: ClassVar[bool] = False
    counted: ClassVar[tuple[str, ...]] = ()

    def bind(self, endpoint: Endpoint) -> None:
        """Receive the endpoint that the stage serves; called once, before the first request."""
        self._endpoint = endpoint

    def on_request(self, request: ModelRequest) -> StageResult:
        """Inspect or change a request. A returned reply is the answer: the endpoint gets no request then."""
        return None

    def on_reply(self, request: ModelRequest, reply: ModelReply) -> StageResult:
        """Inspect or change a reply of any status; a returned reply replaces it."""
        return None

    def on_event(self, request: ModelRequest, event: JsonDict) -> Sequence[JsonDict]:
        """Change one event of a stream; the returned events are sent in its place."""
        return (event,)

    def on_end(self, request: ModelRequest) -> Sequence[JsonDict]:
        """Return events to send before a stream closes: those that ``on_event`` held back."""
        return ()

    def on_error(self, request: ModelRequest, error: BoundaryError) -> Awaitable[None] | None:
        """Inspect a request that got no reply at all."""
        return None

    def stats(self) -> Mapping[str, Any]:
        """Return the counts to show at the end of a run."""
        return {name: getattr(self, name) for name in self.counted}

    async def close(self) -> None:
        """Release resources and write remaining data; called once, at the end."""


class Observer(Interceptor):
    """A stage that only observes: it changes nothing, and its own failure does not fail the request."""

    observes = True
    best_effort = True


def make_audible() -> None:
    """Print the log of the stages to stderr, unless the program has configured its own logging."""
    if not log.hasHandlers():
        handler = logging.StreamHandler()
        handler.setFormatter(CleanFormatter("%(asctime)s %(message)s", "%H:%M:%S"))
        log.addHandler(handler)
        log.setLevel(logging.INFO)
