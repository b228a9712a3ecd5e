"""``log_tokens``: one log line with the tokens of each answer."""

from nemo_evaluator.adapters import base
from nemo_evaluator.models.types import ModelReply, ModelRequest
from nemo_evaluator.models.usage import usage_of


class Interceptor(base.Observer):
    """Logs and sums tokens."""

    talks = True
    place = base.Place.STATS
    counted = ("prompt_tokens", "completion_tokens")
    prompt_tokens = 0
    completion_tokens = 0

    def on_reply(self, request: ModelRequest, reply: ModelReply) -> None:
        """Add the tokens of an answer, and log them."""
        usage = usage_of(reply.body)
        if usage.total is not None:
            self.prompt_tokens += usage.prompt or 0
            self.completion_tokens += usage.completion or 0
            base.log.info(
                "model %s: prompt %s, completion %s, total %s tokens, %.0f ms",
                reply.body.get("model", "?"),
                usage.prompt,
                usage.completion,
                usage.total,
                reply.latency_ms,
            )
