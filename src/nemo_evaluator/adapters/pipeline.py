"""The pipeline: request stages, a stage that may answer early, the endpoint, and the reply stages in reverse order."""

from collections.abc import AsyncIterator, Sequence

from nemo_evaluator.adapters._streams import DONE, PassingStream, encode_event
from nemo_evaluator.adapters.base import Interceptor, log
from nemo_evaluator.core.errors import BoundaryError
from nemo_evaluator.core.secrets import scrub
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.models.types import ModelReply, ModelRequest, Send, Stream


class Pipeline:
    """Interceptors around a ``send`` function; a pipeline is a ``send`` function itself.

    Stages run in the order of their places, whatever order they were passed in; stages of one place keep the order
    they were passed in. Every reply stage sees every reply: replies of the endpoint, early replies, and errors.
    """

    def __init__(self, stages: Sequence[Interceptor], endpoint: Send) -> None:
        """Sort the stages and find out which hooks each of them overrides.

        Args:
            stages: The interceptors, in the order of the config.
            endpoint: What answers a request that no stage has answered.
        """
        self.stages = sorted(stages, key=lambda stage: stage.place)
        self._endpoint = endpoint
        reversed_stages = self.stages[::-1]
        # The bound methods are looked up once here instead of in every request.
        self._on_request = [(stage, stage.on_request) for stage in _with("on_request", self.stages)]
        self._on_reply = [(stage, stage.on_reply) for stage in _with("on_reply", reversed_stages)]
        self._on_event = _with("on_event", reversed_stages)
        self._on_error = _with("on_error", reversed_stages)
        self._observers = [stage for stage, _ in self._on_reply if stage.observes]

    async def __call__(self, request: ModelRequest) -> ModelReply:
        """Send a request through the stages to the endpoint, and its reply back through them.

        Raises:
            BoundaryError: The endpoint gave no reply, or a stage refused the request.
        """
        # Most stages are plain functions. Only the result of a coroutine function is awaited: a coroutine for
        # each of five stages costs about 0.5 µs per request, and a context manager for their failures as much.
        reply: ModelReply | None = None
        for stage, on_request in self._on_request:
            try:
                early_reply = on_request(request)
                if early_reply is not None and not isinstance(early_reply, ModelReply):
                    early_reply = await early_reply
            except Exception as error:
                if not stage.best_effort:
                    raise
                _log_failure(stage, error)
                continue
            if early_reply is not None:
                reply = early_reply
                break
        if reply is None:
            try:
                reply = await self._endpoint(request)
            except BoundaryError as error:
                await self._report_error(request, error)
                raise
        if reply.stream is not None:
            if self._on_event or self._observers:
                events = self._tapped(request, reply, reply.stream)
                reply.stream = Stream(events, closes=reply.stream)
            return reply
        for stage, on_reply in self._on_reply:
            try:
                changed_reply = on_reply(request, reply)
                if changed_reply is not None and not isinstance(changed_reply, ModelReply):
                    changed_reply = await changed_reply
            except Exception as error:
                if not stage.best_effort:
                    raise
                _log_failure(stage, error)
                continue
            if changed_reply is not None:
                reply = changed_reply
        return reply

    def stats(self) -> JsonDict:
        """The counts of every stage that has any, by the name of the stage's module."""
        stats: JsonDict = {}
        for stage in self.stages:
            counts = stage.stats()
            if counts:
                name = type(stage).__module__.rpartition(".")[2]
                stats[name] = counts
        return stats

    async def close(self) -> None:
        """Close every stage."""
        for stage in self.stages:
            await stage.close()

    async def _report_error(self, request: ModelRequest, error: BoundaryError) -> None:
        """Show an error of the endpoint to the stages; their own failures are only logged."""
        for stage in self._on_error:
            try:
                outcome = stage.on_error(request, error)
                if outcome is not None:
                    await outcome
            except Exception as failure:  # noqa: BLE001 - the endpoint's error must reach the caller
                _log_failure(stage, failure)

    async def _tapped(
        self, request: ModelRequest, reply: ModelReply, stream: Stream
    ) -> AsyncIterator[bytes]:
        """Pass a stream through the event stages; the observers get the whole reply after its end."""
        reader = PassingStream(request.path)
        try:
            async for data in stream:
                events = reader.feed(data)
                if not self._on_event:
                    yield data
                    continue
                rewritten_data = self._rewritten(request, events, reader, last=False)
                if rewritten_data:
                    yield rewritten_data
            if self._on_event:
                tail = self._rewritten(request, reader.finish(), reader, last=True)
                if tail:
                    yield tail
        except BoundaryError as error:
            await self._report_error(request, error)
            raise
        whole_reply = reader.whole(reply)
        for stage in self._observers:
            try:
                outcome = stage.on_reply(request, whole_reply)
                if outcome is not None and not isinstance(outcome, ModelReply):
                    await outcome
            except Exception as failure:  # noqa: BLE001 - the stream has been delivered already
                _log_failure(stage, failure)

    def _rewritten(
        self,
        request: ModelRequest,
        events: Sequence[JsonDict],
        reader: PassingStream,
        *,
        last: bool,
    ) -> bytes:
        """Run events through the event stages.

        Args:
            request: The request that the stream answers.
            events: The events that have just arrived.
            reader: What reads the stream.
            last: Whether the stream has ended.

        Returns:
            The bytes to send. Once the server is done, they include the events that stages had held back.
        """
        ending = (reader.done or last) and not reader.closed
        current = list(events)
        for stage in self._on_event:
            new_events: list[JsonDict] = []
            for event in current:
                new_events += stage.on_event(request, event)
            if ending:
                new_events += stage.on_end(request)
            current = new_events
        if ending:
            reader.closed = True
        parts = [encode_event(event, named=reader.named) for event in current]
        if ending and reader.done and not reader.named:
            parts.append(DONE)
        return b"".join(parts)


def _log_failure(stage: Interceptor, error: Exception) -> None:
    """Log the failure of a stage that must not fail the request."""
    log.warning("%s: %s: %s", type(stage).__module__, type(error).__name__, scrub(str(error)))


def _with(method: str, stages: Sequence[Interceptor]) -> list[Interceptor]:
    """The stages whose class overrides ``method``."""
    overriding: list[Interceptor] = []
    for stage in stages:
        if getattr(type(stage), method) is not getattr(Interceptor, method):
            overriding.append(stage)
    return overriding
