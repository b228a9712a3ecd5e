"""The pipeline: request stages, one that may answer early, the endpoint, and reply stages in reverse."""

from collections.abc import AsyncIterator, Sequence
from types import TracebackType
from typing import Any

from nemo_evaluator.adapters._streams import DONE, PassingStream, encode_event
from nemo_evaluator.adapters.base import Interceptor, log
from nemo_evaluator.core.errors import BoundaryError
from nemo_evaluator.core.secrets import scrub
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.models.types import ModelReply, ModelRequest, Send, Stream


class Pipeline:
    """Interceptors around a ``send``; itself a ``send``. Stages stand in the order of their places, whatever order they
    were given in; within one place the given order holds. Every reply stage sees every reply: those of the endpoint,
    early ones, and errors."""

    def __init__(self, stages: Sequence[Interceptor], endpoint: Send) -> None:
        self.stages = sorted(stages, key=lambda stage: stage.place)
        self._endpoint = endpoint
        back = self.stages[::-1]
        self._on_request = [
            (stage.on_request, _guard(stage)) for stage in _with("on_request", self.stages)
        ]
        self._on_reply = [(stage.on_reply, _guard(stage)) for stage in _with("on_reply", back)]
        self._on_event = _with("on_event", back)
        self._on_error = _with("on_error", back)
        self._observers = [stage for stage in _with("on_reply", back) if stage.observes]

    async def __call__(self, request: ModelRequest) -> ModelReply:
        """Carry a request through."""
        reply: ModelReply | None = None
        for on_request, guard in self._on_request:
            if guard is None:
                reply = await on_request(request)
            else:
                with guard:
                    reply = await on_request(request)
            if reply is not None:
                break
        if reply is None:
            try:
                reply = await self._endpoint(request)
            except BoundaryError as error:
                await self._tell(request, error)
                raise
        stream = reply.stream
        if stream is not None:
            if self._on_event or self._observers:
                tapped = self._tapped(request, reply, stream)
                reply.stream = Stream(tapped, closes=stream)
            return reply
        for on_reply, guard in self._on_reply:
            if guard is None:
                reply = await on_reply(request, reply) or reply
            else:
                with guard:
                    reply = await on_reply(request, reply) or reply
        return reply

    def stats(self) -> JsonDict:
        mapping: dict[str, Any] = {}
        for stage in self.stages:
            counts = stage.stats()
            if counts:
                mapping[type(stage).__module__.rpartition(".")[2]] = counts
        return mapping

    async def close(self) -> None:
        for stage in self.stages:
            await stage.close()

    async def _tell(self, request: ModelRequest, error: BoundaryError) -> None:
        for stage in self._on_error:
            with _Spared(stage):
                await stage.on_error(request, error)

    async def _tapped(
        self, request: ModelRequest, reply: ModelReply, stream: Stream
    ) -> AsyncIterator[bytes]:
        """A stream that passes the event stages, and that the observers see once it has passed."""
        reader = PassingStream(request.path)
        try:
            async for data in stream:
                events = reader.feed(data)
                if not self._on_event:
                    yield data
                elif changed := self._rewritten(request, events, reader, last=False):
                    yield changed
            if self._on_event and (
                tail := self._rewritten(request, reader.finish(), reader, last=True)
            ):
                yield tail
        except BoundaryError as error:
            await self._tell(request, error)
            raise
        whole = reader.whole(reply)
        for stage in self._observers:
            with _Spared(stage):
                await stage.on_reply(request, whole)

    def _rewritten(
        self,
        request: ModelRequest,
        events: Sequence[JsonDict],
        reader: PassingStream,
        *,
        last: bool,
    ) -> bytes:
        """The bytes of events after the event stages; once the server is done, also what the stages held back."""
        ending = (reader.done or last) and not reader.closed
        current = list(events)
        for stage in self._on_event:
            current = [new for event in current for new in stage.on_event(request, event)]
            if ending:
                current.extend(stage.on_end(request))
        if ending:
            reader.closed = True
        parts = [encode_event(event, named=reader.named) for event in current]
        if ending and reader.done and not reader.named:
            parts.append(DONE)
        return b"".join(parts)


class _Spared:
    """What a stage does inside must not fail the request: its own failure is logged, and the request goes on."""

    __slots__ = ("_stage",)

    def __init__(self, stage: Interceptor) -> None:
        self._stage = stage

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        if kind is None or not issubclass(kind, Exception):
            return False
        log.warning("%s: %s: %s", type(self._stage).__module__, kind.__name__, scrub(str(error)))
        return True


def _guard(stage: Interceptor) -> _Spared | None:
    if stage.best_effort:
        return _Spared(stage)
    return None


def _with(method: str, stages: Sequence[Interceptor]) -> list[Interceptor]:
    """The stages whose classes give their own ``method``."""
    results: list[Interceptor] = []
    for stage in stages:
        if getattr(type(stage), method) is not getattr(Interceptor, method):
            results.append(stage)
    return results
