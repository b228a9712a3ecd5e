"""From the path that a client calls to the path of the service."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final

from nemo_evaluator.adapters._streams import replay
from nemo_evaluator.adapters.convert.base import TEXT, Speech, without
from nemo_evaluator.adapters.convert.messages import MESSAGES
from nemo_evaluator.adapters.convert.responses import RESPONSES
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.models.endpoint import PATHS
from nemo_evaluator.models.http.sse import EventParser
from nemo_evaluator.models.types import Stream

SPEECH: Final = {
    "/chat/completions": Speech(),
    "/completions": TEXT,
    "/responses": RESPONSES,
    "/messages": MESSAGES,
}
#: The only paths that the proxy forwards.
ROUTES: Final = (*SPEECH, "/embeddings")


@dataclass(frozen=True, slots=True)
class Route:
    """How a client's protocol reaches a service.

    Attributes:
        path: The path of the service.
        speech: The client's protocol; None if it is the protocol of the service.
    """

    path: str
    speech: Speech | None = None

    @property
    def streams(self) -> bool:
        """Whether a stream of the service can be passed on chunk by chunk."""
        return self.speech is None or self.path == "/chat/completions"

    def request(self, body: JsonDict) -> JsonDict:
        """A client's request in the protocol of the service."""
        if self.speech is None:
            return body
        chat = self.speech.to_chat(body)
        if not self.streams:
            chat = without(chat, "stream", "stream_options")
        return SPEECH[self.path].request(chat)

    def reply(self, body: JsonDict) -> JsonDict:
        """The service's answer in the client's protocol."""
        if self.speech is None:
            return body
        chat = SPEECH[self.path].answer(body)
        return self.speech.from_chat(chat)

    def stream(self, stream: Stream) -> Stream:
        """The service's chat stream in the client's protocol."""
        if self.speech is None:
            return stream
        return Stream(self._translated(stream), closes=stream)

    def replayed(self, body: JsonDict) -> bytes:
        """Convert a whole answer of the service to the stream that the client requested."""
        assert self.speech is not None
        translator = self.speech.translator()
        chat = SPEECH[self.path].answer(body)
        stream = b"".join(replay("/chat/completions", chat, usage=True))
        events: list[bytes] = []
        for chunk in EventParser().feed(stream):
            events += translator.feed(chunk)
        events += translator.end()
        return b"".join(events)

    async def _translated(self, stream: Stream) -> AsyncIterator[bytes]:
        """Translate a chat stream of the service to the client's protocol."""
        assert self.speech is not None
        translator = self.speech.translator()
        parser = EventParser()
        async for data in stream:
            events: list[bytes] = []
            for chunk in parser.feed(data):
                events += translator.feed(chunk)
            if events:
                yield b"".join(events)
        tail: list[bytes] = []
        for chunk in parser.finish():
            tail += translator.feed(chunk)
        tail += translator.end()
        yield b"".join(tail)


def route_of(path: str, protocol: str) -> Route:
    """The route from a called path to a service.

    Args:
        path: The path; one that belongs to no protocol (such as embeddings) is forwarded unchanged.
        protocol: The protocol of the service.
    """
    service_path = PATHS[protocol]
    speech = SPEECH.get(path)
    if speech is None or path == service_path:
        return Route(path)
    return Route(service_path, speech)
