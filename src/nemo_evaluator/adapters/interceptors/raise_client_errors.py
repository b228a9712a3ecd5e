"""``raise_client_errors``: a 4xx other than 408 and 429 is raised as an error, with its status and message."""

from nemo_evaluator.adapters import base
from nemo_evaluator.models.faults import error_of
from nemo_evaluator.models.types import ModelReply, ModelRequest


class Interceptor(base.Interceptor):
    """Raises the typed error of a reply."""

    place = base.Place.REPLY

    def on_reply(self, request: ModelRequest, reply: ModelReply) -> None:
        """Raise the BoundaryError of a client error."""
        if 400 <= reply.status < 500 and reply.status not in (408, 429):
            raise error_of(reply, self._endpoint)
