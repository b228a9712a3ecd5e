"""``streaming``: asks the server for a stream, or hands a stream to an asker as a whole answer."""

from dataclasses import dataclass

from nemo_evaluator.adapters import base
from nemo_evaluator.models.types import ModelRequest


@dataclass(eq=False)
class Interceptor(base.Interceptor):
    """Askers get whole answers, even where they asked for a stream or the server sends one. With ``request: true`` the
    server is asked to stream, so that time to first token is measured and long answers do not look like silence."""

    place = base.Place.STREAM
    request: bool = False

    def on_request(self, request: ModelRequest) -> None:
        request.whole = True
        if (
            self.request
            and request.body.get("stream") is not True
            and not request.path.endswith("/embeddings")
        ):
            request.body = {**request.body, "stream": True}
