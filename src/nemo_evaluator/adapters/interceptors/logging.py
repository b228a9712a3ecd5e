"""``logging``: requests and replies in the log, in short."""

from dataclasses import dataclass

from nemo_evaluator.adapters import base
from nemo_evaluator.core.errors import BoundaryError
from nemo_evaluator.core.files import dumps, scrub_json
from nemo_evaluator.core.secrets import scrub
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.models.types import ModelReply, ModelRequest


@dataclass(eq=False)
class Interceptor(base.Observer):
    """Logs the first ``max_requests`` and ``max_responses`` (all, if null), and with ``log_failed`` every failure."""

    talks = True
    place = base.Place.LOG
    counted = ("requests", "responses")
    requests = responses = 0
    preview_chars: int = 512
    max_requests: int | None = None
    max_responses: int | None = None
    log_failed: bool = True

    def on_request(self, request: ModelRequest) -> None:
        self.requests += 1
        if self.max_requests is None or self.requests <= self.max_requests:
            base.log.info(
                "POST %s keys=%s%s", request.path, ",".join(request.body), self._show(request.body)
            )

    def on_reply(self, request: ModelRequest, reply: ModelReply) -> None:
        self.responses += 1
        within = self.max_responses is None or self.responses <= self.max_responses
        if within or (self.log_failed and not reply.ok):
            base.log.info(
                "%d %s %.0f ms%s",
                reply.status,
                request.path,
                reply.latency_ms,
                self._show(reply.body),
            )

    def on_error(self, request: ModelRequest, error: BoundaryError) -> None:
        if self.log_failed:
            base.log.warning("%s failed: %s", request.path, scrub(error.message))

    def _show(self, body: JsonDict) -> str:
        if not self.preview_chars:
            return ""
        # Secrets go before the cut: half of one would not be recognised.
        text = scrub_json(dumps(body))[: 4 * self.preview_chars].decode("utf-8", "replace")
        return f" {text[: self.preview_chars]}"
