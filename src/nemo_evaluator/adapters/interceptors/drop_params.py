"""``drop_params``: removes named top-level fields from the request body."""

from dataclasses import dataclass

from nemo_evaluator.adapters import base
from nemo_evaluator.models.types import ModelRequest


@dataclass(eq=False)
class Interceptor(base.Interceptor):
    """Removes ``params``."""

    counted = ("requests_changed",)
    requests_changed = 0
    params: list[str]

    def on_request(self, request: ModelRequest) -> None:
        """Remove the fields from a request."""
        body = {key: value for key, value in request.body.items() if key not in self.params}
        if len(body) < len(request.body):
            request.body = body
            self.requests_changed += 1
