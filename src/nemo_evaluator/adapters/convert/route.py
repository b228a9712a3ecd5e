"""From the path an asker calls to the path its service knows."""

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
# What the proxy carries on, and nothing else.
ROUTES: Final = (*SPEECH, "/embeddings")


@dataclass(frozen=True, slots=True)
class Route:
    """How one spoken protocol reaches a service; ``speech`` is None where both are the same."""

    path: str
    speech: Speech | None = None

    def request(self, body: JsonDict) -> JsonDict:
        """The request as the service reads it."""
        if self.speech is None:
            return body
        chat = self.speech.to_chat(body)
        return SPEECH[self.path].request(
            chat if self.streams else without(chat, "stream", "stream_options")
        )

    @property
    def streams(self) -> bool:
        """Whether a stream of the service can be passed on piece by piece."""
        return self.speech is None or self.path == "/chat/completions"

    def reply(self, body: JsonDict) -> JsonDict:
        """The answer as the asker reads it."""
        if self.speech is None:
            return body
        return self.speech.from_chat(SPEECH[self.path].answer(body))

    def stream(self, stream: Stream) -> Stream:
        """The service's chat stream as the asker reads it."""
        if self.speech is None:
            return stream
        return Stream(self._translated(stream), closes=stream)

    async def _translated(self, stream: Stream) -> AsyncIterator[bytes]:
        assert self.speech is not None
        translator = self.speech.translator()
        parser = EventParser()
        async for data in stream:
            said = b"".join(
                event for chunk in parser.feed(data) for event in translator.feed(chunk)
            )
            if said:
                yield said
        tail: list[bytes] = []
        for chunk in parser.finish():
            for event in translator.feed(chunk):
                tail.append(event)
        yield b"".join((*tail, *translator.end()))

    def replayed(self, body: JsonDict) -> bytes:
        """A whole answer of the service as the stream that the asker wanted."""
        assert self.speech is not None
        translator = self.speech.translator()
        chat = SPEECH[self.path].answer(body)
        chunks = EventParser().feed(b"".join(replay("/chat/completions", chat, usage=True)))
        return b"".join(
            (*(event for chunk in chunks for event in translator.feed(chunk)), *translator.end())
        )


def route_of(path: str, protocol: str) -> Route:
    """The route of a called path to a service; paths that are no protocol (embeddings, say) go as they are."""
    own = PATHS[protocol]
    speech = SPEECH.get(path)
    if speech is None or path == own:
        return Route(path)
    return Route(own, speech)
