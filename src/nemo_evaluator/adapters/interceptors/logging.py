"""``logging``: a log line for every request and reply."""

from dataclasses import dataclass

from nemo_evaluator.adapters import base
from nemo_evaluator.core.errors import BoundaryError
from nemo_evaluator.core.files import dumps, scrub_json
from nemo_evaluator.core.secrets import scrub
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.models.types import ModelReply, ModelRequest


@dataclass(eq=False)
class Interceptor(base.Observer):
    """Logs the first ``max_requests`` and ``max_responses`` (null: all); ``log_failed`` adds every failure."""

    talks = True
    place = base.Place.LOG
    counted = ("requests", "responses")
    requests = 0
    responses = 0
    preview_chars: int = 512
    max_requests: int | None = None
    max_responses: int | None = None
    log_failed: bool = True

    def on_request(self, request: ModelRequest) -> None:
        """Log a request."""
        self.requests += 1
        if self.max_requests is None or self.requests <= self.max_requests:
            keys = ",".join(request.body)
            base.log.info("POST %s keys=%s%s", request.path, keys, self._preview(request.body))

    def on_reply(self, request: ModelRequest, reply: ModelReply) -> None:
        """Log a reply."""
        self.responses += 1
        within = self.max_responses is None or self.responses <= self.max_responses
        if within or (self.log_failed and not reply.ok):
            base.log.info(
                "%d %s %.0f ms%s",
                reply.status,
                request.path,
                reply.latency_ms,
                self._preview(reply.body),
            )

    def on_error(self, request: ModelRequest, error: BoundaryError) -> None:
        """Log a request that got no reply."""
        if self.log_failed:
            base.log.warning("%s failed: %s", request.path, scrub(error.message))

    def _preview(self, body: JsonDict) -> str:
        if not self.preview_chars:
            return ""
        # Secrets are masked before the text is cut: half of one would not be recognised.
        text = scrub_json(dumps(body))[: 4 * self.preview_chars].decode("utf-8", "replace")
        return f" {text[: self.preview_chars]}"
