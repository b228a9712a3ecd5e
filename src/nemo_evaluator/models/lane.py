"""The way to one endpoint with one key, shared by all clients of a process on one event loop: the connections to its
servers, one limiter, one breaker; and which of several servers gets the next request."""

import asyncio
from time import monotonic
from typing import Final
from weakref import WeakKeyDictionary

from nemo_evaluator.core.open_files import raise_limit
from nemo_evaluator.models.breaker import Breaker
from nemo_evaluator.models.endpoint import Endpoint
from nemo_evaluator.models.http.http_proxy import HttpProxy
from nemo_evaluator.models.http.pool import ConnectionPool
from nemo_evaluator.models.limiter import Limiter

# Without a number in the config the engine decides how many requests there are at once.
_DEFAULT_CONCURRENT: Final = 1024
# How long a server that failed is left out: at first, and at most.
_FIRST_PAUSE: Final = 1.0
_LONGEST_PAUSE: Final = 15.0


class Lane:
    """A server that fails is left out for a while, then tried again. Whoever takes a lane gives it back with
    ``leave``; the last one closes its connections."""

    def __init__(self, endpoint: Endpoint, proxy: HttpProxy | None, cap: int) -> None:
        # The limiter bounds the number of requests, so the pools have no bound and nobody waits in them.
        self.pools = [ConnectionPool(url, proxy) for url in endpoint.urls]
        self.limiter = Limiter(cap)
        self.breaker = Breaker(self.limiter)
        self._holders = 0
        self._paused = [0.0] * len(self.pools)
        self._pauses = [_FIRST_PAUSE] * len(self.pools)
        self._last = 0

    @classmethod
    def take(cls, endpoint: Endpoint, proxy: HttpProxy | None = None) -> "Lane":
        """The lane of an endpoint on the running loop."""
        lanes = _lanes.setdefault(asyncio.get_running_loop(), {})
        key = (" ".join(endpoint.urls), endpoint.api_key.reveal() if endpoint.api_key else "")
        cap = endpoint.max_concurrent or _DEFAULT_CONCURRENT
        lane = lanes.get(key)
        if lane is None:
            raise_limit()
            lane = lanes[key] = cls(endpoint, proxy, cap)
        lane.limiter.cap = max(lane.limiter.cap, cap)
        lane._holders += 1
        return lane

    async def leave(self) -> None:
        """Give it back."""
        self._holders -= 1
        if self._holders == 0:
            lanes = _lanes.get(asyncio.get_running_loop(), {})
            for key in [key for key, lane in lanes.items() if lane is self]:
                del lanes[key]
            for pool in self.pools:
                await pool.close()

    def pick(self) -> int:
        """The number of the server to use: the one with the least to do among those that answer."""
        count = len(self.pools)
        if count == 1:
            return 0
        now = monotonic()
        # Beginning after the last one, so that servers with equally much to do take turns.
        order = [(self._last + step) % count for step in range(1, count + 1)]
        up = [number for number in order if self._paused[number] <= now]
        if up:
            self._last = min(up, key=lambda one: self.pools[one].busy)
        else:
            self._last = min(order, key=self._paused.__getitem__)
        return self._last

    def failed(self, number: int) -> bool:
        """Leave a server out for a while; True when there is another to use at once."""
        if len(self.pools) == 1:
            return False
        now = monotonic()
        if self._paused[number] <= now:
            self._paused[number] = now + self._pauses[number]
            self._pauses[number] = min(2 * self._pauses[number], _LONGEST_PAUSE)
        return any(paused <= now for paused in self._paused)

    def answered(self, number: int) -> None:
        """A server is well."""
        self._paused[number] = 0.0
        self._pauses[number] = _FIRST_PAUSE


_lanes: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[tuple[str, str], Lane]] = (
    WeakKeyDictionary()
)
