"""The limits of an endpoint, in simultaneous requests and in requests per second, tuned automatically.

The number of simultaneous requests starts low and doubles every round while there are no errors. A wave of 429s or
failures halves it, and it then grows by a tenth per round. A wave of 429s also pauses all requests for as long as the
server asks (at most ``LONGEST_PAUSE``) and turns on a limit in requests per second: a server that answers quickly and
counts requests cannot be satisfied by fewer simultaneous requests. A single 429 reduces the number by a half.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from time import monotonic
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from nemo_evaluator.models.traffic_counts import LimiterChange, LimiterSnapshot

_START: Final = 8
_SHORTEST_ROUND: Final = 0.05
_HOLD_ROUNDS: Final = 8
# The longest pause that a server can impose on all requests, in seconds.
LONGEST_PAUSE: Final = 300.0
# A wave: an eighth of the simultaneous requests (and two more) get a 429 without an answer in between, or this share of
# the last few rounds. 429s arrive earlier than answers, so a burst begins with all its 429s.
_WAVE: Final = 2
_WAVE_SHARE: Final = 0.08
_MEMORY: Final = 100.0


class Limiter:
    """Admits requests to one endpoint and key. Not thread-safe: for one event loop.

    Attributes:
        cap: The largest number of simultaneous requests.
        limit: The current limit of simultaneous requests.
        in_flight: The number of open requests.
        max_in_flight: The largest number of open requests so far.
        rate: The limit in requests per second, if there is one.
        history: The changes of the limits.
    """

    def __init__(self, cap: int, *, start: int = _START) -> None:
        self.cap = max(1, cap)
        self.limit = float(min(start, self.cap))
        self.in_flight = 0
        self.max_in_flight = 0
        self.rate: float | None = None
        self.history: deque[LimiterChange] = deque(maxlen=200)
        self._loop = asyncio.get_running_loop()
        self._born = monotonic()
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._alarm: asyncio.TimerHandle | None = None
        self._paused_until = 0.0
        # During an outage: one request at a time, each held until the one before it has failed.
        self._one_by_one = False
        self._slow_start = True
        self._cut_at = -1.0
        self._limited_share = 0.0
        self._limited_streak = 0
        # The round: completions since the last adjustment.
        self._round_at = self._born
        self._done = 0
        self._bad = 0
        self._latency = 0.0
        self._hold = 0
        self._best = (0.0, 0.0)
        # The pace.
        self._tokens = 0.0
        self._refilled = 0.0
        self._ceiling = 0.0
        self._second = 0
        self._sent_now = 0
        self._sent_before = 0

    def enter(self, now: float) -> bool:
        """Admit a request if that is possible immediately."""
        if self._waiters or not self._free(now):
            return False
        self._admit(now)
        return True

    async def wait(self) -> None:
        """Wait until a request may be sent."""
        waiter = self._loop.create_future()
        self._waiters.append(waiter)
        self._wake()
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():
                self.in_flight -= 1
                self._wake()
            elif waiter in self._waiters:
                self._waiters.remove(waiter)
            raise

    def leave(self, sent_at: float, now: float) -> None:
        """Count an answer that is neither a 429 nor a failure."""
        self.in_flight -= 1
        self._done += 1
        self._latency += now - sent_at
        if self._limited_share:
            self._limited_share *= 1.0 - 1.0 / max(_MEMORY, 2.0 * self.limit)
            self._limited_streak = 0
        if self._done >= self.limit:
            self._end_round(now)
        if self._waiters:
            self._wake()

    def leave_failed(self, sent_at: float, now: float) -> None:
        """Count a request that failed in a way that may mean overload: 5xx, reset, timeout."""
        self._bad += 1
        self.leave(sent_at, now)

    def leave_cancelled(self) -> None:
        """Count a cancelled request, which indicates nothing about the server."""
        self.in_flight -= 1
        if self._one_by_one:
            self._paused_until = 0.0
        self._wake()

    def leave_limited(self, sent_at: float, now: float, retry_after: float | None) -> None:
        """Count a request that got a 429: a single one reduces the limit a little, a wave pauses all requests."""
        self.in_flight -= 1
        self._roll(now)
        self._sent_now = max(0, self._sent_now - 1)
        is_recent = sent_at > self._cut_at
        if is_recent:
            self._limited_share += (1.0 - self._limited_share) / max(_MEMORY, 2.0 * self.limit)
            self._limited_streak += 1
        short_streak = self._limited_streak < _WAVE + self.limit / 8
        if is_recent and short_streak and self._limited_share <= _WAVE_SHARE:
            self.limit = max(1.0, self.limit - 0.5)
        else:
            if retry_after:
                self._paused_until = max(self._paused_until, now + min(retry_after, LONGEST_PAUSE))
            if is_recent:
                self._cut_rate(now)
                self._halve(now, "429")
                self._limited_share = 0.0
                self._limited_streak = 0
        self._wake()

    def hold(self, until: float) -> None:
        """Admit no request before ``until``, then a single one, until the next ``hold`` or ``reopen``."""
        self._one_by_one = True
        self._paused_until = until
        self._wake()

    def reopen(self) -> None:
        """Continue as at the start, because the server is back."""
        self._one_by_one = False
        self._paused_until = 0.0
        self.limit = max(self.limit, float(min(_START, self.cap)))
        self._slow_start = True
        self._note(monotonic(), "back")
        self._wake()

    def snapshot(self) -> LimiterSnapshot:
        """Return the current limits and their history."""
        return {
            "limit": int(self.limit),
            "rate": self.rate,
            "max_in_flight": self.max_in_flight,
            "history": list(self.history),
        }

    def _free(self, now: float) -> bool:
        """Return whether a request may be sent now."""
        if now < self._paused_until:
            return False
        if self._one_by_one:
            return True
        if self.in_flight >= int(self.limit):
            return False
        if self.rate is None:
            return True
        self._refill(now)
        return self._tokens >= 1.0

    def _admit(self, now: float) -> None:
        """Count a request that is sent now."""
        self.in_flight += 1
        if self._one_by_one:
            self._paused_until = math.inf
        if self.in_flight > self.max_in_flight:
            self.max_in_flight = self.in_flight
        if self.rate is not None:
            self._tokens -= 1.0
        if int(now) != self._second:
            self._roll(now)
        self._sent_now += 1

    def _wake(self) -> None:
        """Admit waiting requests as far as the limits allow, and set an alarm for the next one."""
        if not self._waiters:
            return
        now = monotonic()
        while self._waiters and self._free(now):
            waiter = self._waiters.popleft()
            if not waiter.done():
                self._admit(now)
                waiter.set_result(None)
        if (
            self._waiters
            and self._alarm is None
            and (self._one_by_one or self.in_flight < int(self.limit))
        ):
            when = max(self._paused_until, now)
            if when == math.inf:
                return
            if self.rate is not None:
                when = max(when, now + (1.0 - self._tokens) / self.rate)
            self._alarm = self._loop.call_later(when - now + 0.001, self._ring)

    def _ring(self) -> None:
        self._alarm = None
        self._wake()

    def _end_round(self, now: float) -> None:
        """Raise or halve the limit at the end of a round, by how its requests went."""
        length = now - self._round_at
        if length < _SHORTEST_ROUND:
            return
        busy = bool(self._waiters) or self.in_flight + 1 >= self.limit / 2
        if self._bad >= 3 and self._bad > self._done / 4:
            self._halve(now, "failures")
        elif busy and self.limit < self.cap and not self._held(self._latency / self._done):
            if self._slow_start:
                grown = self.limit * 2
            else:
                grown = max(self.limit + 1, self.limit * 1.1)
            self.limit = min(float(self.cap), grown)
            if self._slow_start or self.limit == self.cap:
                self._note(now, "grow")
        self._begin_round(now)

    def _begin_round(self, now: float) -> None:
        self._done = self._bad = 0
        self._latency = 0.0
        self._round_at = now

    def _held(self, latency: float) -> bool:
        """Return whether more simultaneous requests have only made each of them slower."""
        if self._hold > 0:
            self._hold -= 1
            return True
        limit, best = self._best
        through = self.limit / max(latency, 1e-9)
        if limit and self.limit >= 2 * limit and through < 1.1 * best and latency > 0.25:
            self._hold = _HOLD_ROUNDS
            self._best = (self.limit, through)
            return True
        if through > best:
            self._best = (self.limit, through)
        return False

    def _halve(self, now: float, why: str) -> None:
        self._slow_start = False
        self._cut_at = now
        self.limit = max(1.0, self.limit / 2)
        self._begin_round(now)
        self._note(now, why)

    def _cut_rate(self, now: float) -> None:
        """Reduce the rate below that of the last seconds, after a 429."""
        self._roll(now)
        recent_rate = self._sent_now + self._sent_before * (1.0 - now % 1.0)
        if self.rate is None:
            self.rate = max(4.0, 0.9 * recent_rate)
            self._ceiling = max(4.0, recent_rate)
        else:
            self._ceiling = self.rate
            self.rate = max(0.2, 0.5 * self.rate, min(0.9 * self.rate, recent_rate))
        self._tokens = 0.0
        self._refilled = now

    def _refill(self, now: float) -> None:
        """Add the tokens of the time that has passed, and raise the rate slowly."""
        rate = self.rate
        assert rate is not None
        passed = now - self._refilled
        if passed <= 0:
            return
        if now >= self._paused_until:
            # Quickly back to where the server last complained, then feel the way.
            growth = 0.2 if rate < 0.9 * self._ceiling else 0.01
            if now - self._cut_at > 15.0:
                growth = 0.05
            rate *= 1.0 + growth * min(passed, 1.0)
            self.rate = rate
        self._tokens = min(max(1.0, 0.02 * rate), self._tokens + passed * rate)
        self._refilled = now

    def _roll(self, now: float) -> None:
        second = int(now)
        if second != self._second:
            self._sent_before = self._sent_now if second == self._second + 1 else 0
            self._sent_now = 0
            self._second = second

    def _note(self, now: float, why: str) -> None:
        rate = self.rate and round(self.rate, 2)
        self.history.append(
            {
                "seconds": round(now - self._born, 3),
                "limit": int(self.limit),
                "rate": rate,
                "why": why,
            }
        )
