"""``response_stats``: running counts of answers, statuses, finish reasons, tokens and latency."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from nemo_evaluator.adapters import base
from nemo_evaluator.adapters._bodies import finish_reason_of
from nemo_evaluator.config.fields import Positive
from nemo_evaluator.core.files import read_json, write_json
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.models.types import ModelReply, ModelRequest
from nemo_evaluator.models.usage import usage_of


@dataclass(eq=False)
class Interceptor(base.Observer):
    """Logs its counts every ``every`` answers; with ``stats_path`` they live in a file and go on after a restart."""

    talks = True
    place = base.Place.STATS
    every: Positive = 100
    stats_path: str | None = None

    def __post_init__(self) -> None:
        if self.stats_path:
            self._path: Path | None = Path(self.stats_path)
        else:
            self._path = None
        if self._path is not None and self._path.is_file():
            old: JsonDict = read_json(self._path)
        else:
            old = {}
        self._count = int(old.get("count", 0))
        self._tokens = int(old.get("total_tokens", 0))
        self._latency = float(old.get("latency_ms_sum", 0.0))
        self._longest = float(old.get("max_latency_ms", 0.0))
        self._statuses = Counter(
            {int(status): int(count) for status, count in old.get("statuses", {}).items()}
        )
        self._finishes: Counter[str] = Counter(old.get("finish_reasons", {}))

    async def on_reply(self, request: ModelRequest, reply: ModelReply) -> None:
        self._count += 1
        usage = reply.body.get("usage")
        if usage:
            if isinstance(usage, dict):
                total = usage.get("total_tokens")
            else:
                total = None
            self._tokens += total if total.__class__ is int else usage_of(reply.body).total or 0
        self._latency += reply.latency_ms
        self._longest = max(self._longest, reply.latency_ms)
        self._statuses[reply.status] += 1
        reason = finish_reason_of(reply.body)
        if reason:
            self._finishes[reason] += 1
        if self._count % self.every == 0:
            mean = self._latency / self._count
            base.log.info(
                "%d answers, %d tokens, mean latency %.0f ms", self._count, self._tokens, mean
            )
            await self.close()

    def stats(self) -> JsonDict:
        return {
            "count": self._count,
            "total_tokens": self._tokens,
            "mean_latency_ms": round(self._latency / self._count, 2) if self._count else None,
            "max_latency_ms": round(self._longest, 2),
            "latency_ms_sum": round(self._latency, 2),
            "statuses": {str(status): count for status, count in self._statuses.items()},
            "finish_reasons": dict(self._finishes),
        }

    async def close(self) -> None:
        if self._path is not None:
            write_json(self._path, self.stats())
