"""The counts of a client's traffic as types.

The types cost nothing at run time: import them under ``TYPE_CHECKING``.
"""

from typing import TypedDict


class TransportCounts(TypedDict):
    """The counts of one endpoint; see ``TransportStats``."""

    failures: int
    lost_answers: int
    rate_limited: int
    replies: int
    requests: int
    retries: int


class LimiterChange(TypedDict):
    """One change of a limiter's limits, and the reason for it."""

    seconds: float
    limit: int
    rate: float | None
    why: str


class LimiterSnapshot(TypedDict):
    """The current limits of a limiter, and their history."""

    limit: int
    rate: float | None
    max_in_flight: int
    history: list[LimiterChange]


class ClientCounts(TransportCounts):
    """The counts of a client; ``limiter`` is None before the first request."""

    limiter: LimiterSnapshot | None
