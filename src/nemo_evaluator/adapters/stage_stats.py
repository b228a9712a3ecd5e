"""The counts of the proxy and of interceptors as types.

The types cost nothing at run time: import them under ``TYPE_CHECKING``.
"""

from typing import TypedDict

from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.models.traffic_counts import TransportCounts


class ReasoningStats(TypedDict):
    """How many answers had reasoning, and how long it was."""

    answers: int
    with_reasoning: int
    unfinished: int
    mean_reasoning_words: float | None


class ReplayStats(TypedDict):
    """How many assistant messages had remembered reasoning, and how many did not."""

    hits: int
    misses: int
    entries: int


class ResponseStats(TypedDict):
    """Answers, tokens and latencies; also the file of the interceptor ``response_stats``."""

    count: int
    total_tokens: int
    mean_latency_ms: float | None
    max_latency_ms: float
    latency_ms_sum: float
    statuses: dict[str, int]
    finish_reasons: dict[str, int]


class TurnStats(TypedDict):
    """The number of sessions, and of requests refused because of the limit."""

    sessions: int
    ended: int


class PairStats(TypedDict):
    """The number of pairs of request and reply that were kept and left out, and of replies per status."""

    kept: int
    left_out: int
    statuses: dict[str, int]


class ProxyStats(TypedDict):
    """Counts of the proxy, the transport, and each stage by its name."""

    service: str
    sessions: int
    in_flight: int
    statuses: dict[str, int]
    transport: TransportCounts
    stages: JsonDict
