"""``response_stats``: running counts of answers, statuses, finish reasons, tokens and latency."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from nemo_evaluator.adapters import base
from nemo_evaluator.adapters._bodies import finish_reason_of
from nemo_evaluator.config.fields import Positive
from nemo_evaluator.core.files import read_json, write_json
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.models.types import ModelReply, ModelRequest
from nemo_evaluator.models.usage import usage_of

if TYPE_CHECKING:
    from nemo_evaluator.adapters.stage_stats import ResponseStats


@dataclass(eq=False)
class Interceptor(base.Observer):
    """Logs its counts every ``every`` answers; ``stats_path`` keeps them in a file across restarts."""

    talks = True
    place = base.Place.STATS
    every: Positive = 100
    stats_path: str | None = None

    def __post_init__(self) -> None:
        """Continue the counts of an earlier session, if they were saved."""
        self._path = Path(self.stats_path) if self.stats_path else None
        saved_counts: JsonDict = {}
        if self._path is not None and self._path.is_file():
            saved_counts = read_json(self._path)
        self._count = int(saved_counts.get("count", 0))
        self._tokens = int(saved_counts.get("total_tokens", 0))
        self._latency = float(saved_counts.get("latency_ms_sum", 0.0))
        self._longest = float(saved_counts.get("max_latency_ms", 0.0))
        self._statuses: Counter[int] = Counter()
        for status, count in saved_counts.get("statuses", {}).items():
            self._statuses[int(status)] = int(count)
        self._finish_reasons: Counter[str] = Counter(saved_counts.get("finish_reasons", {}))

    def on_reply(self, request: ModelRequest, reply: ModelReply) -> None:
        """Count a reply."""
        body = reply.body
        latency = reply.latency_ms
        self._count += 1
        self._latency += latency
        if latency > self._longest:
            self._longest = latency
        self._statuses[reply.status] += 1
        usage = body.get("usage")
        if usage:
            total = usage.get("total_tokens") if isinstance(usage, dict) else None
            if type(total) is not int:
                total = usage_of(body).total or 0
            self._tokens += total
        reason = finish_reason_of(body)
        if reason:
            self._finish_reasons[reason] += 1
        if self._count % self.every == 0:
            mean = self._latency / self._count
            base.log.info(
                "%d answers, %d tokens, mean latency %.0f ms", self._count, self._tokens, mean
            )
            self._save()

    def stats(self) -> "ResponseStats":
        """All counts."""
        return {
            "count": self._count,
            "total_tokens": self._tokens,
            "mean_latency_ms": round(self._latency / self._count, 2) if self._count else None,
            "max_latency_ms": round(self._longest, 2),
            "latency_ms_sum": round(self._latency, 2),
            "statuses": {str(status): count for status, count in self._statuses.items()},
            "finish_reasons": dict(self._finish_reasons),
        }

    async def close(self) -> None:
        """Write the counts to their file."""
        self._save()

    def _save(self) -> None:
        if self._path is not None:
            write_json(self._path, self.stats())
