"""``streaming``: requests a stream from the server, and gives the caller whole answers."""

from dataclasses import dataclass

from nemo_evaluator.adapters import base
from nemo_evaluator.models.types import ModelRequest


@dataclass(eq=False)
class Interceptor(base.Interceptor):
    """Callers get whole answers, even if they requested a stream or the server sends one.

    ``request: true`` requests a stream from the server, so that the time to the first token is measured and a long
    answer does not look like a lost connection.
    """

    place = base.Place.STREAM
    request: bool = False

    def on_request(self, request: ModelRequest) -> None:
        """Mark a request as wanting a whole answer, and make the server stream it."""
        request.whole = True
        can_stream = not request.path.endswith("/embeddings")
        if self.request and can_stream and not request.stream:
            request.body = {**request.body, "stream": True}
