"""The shared path to one endpoint with one key: its connections, its limiter and its breaker.

All clients of a process on one event loop share it. With several servers, it chooses the one for the next request.
"""

import asyncio
from time import monotonic
from typing import Final, TypeAlias
from weakref import WeakKeyDictionary

from nemo_evaluator.core.open_files import raise_limit
from nemo_evaluator.models.breaker import Breaker
from nemo_evaluator.models.endpoint import Endpoint
from nemo_evaluator.models.http.http_proxy import HttpProxy
from nemo_evaluator.models.http.pool import ConnectionPool
from nemo_evaluator.models.limiter import Limiter

# The limit without a number in the config; the engine's own limit is lower.
_DEFAULT_CONCURRENT: Final = 1024
# How many seconds a server that failed is skipped: at first, and at most.
_FIRST_PAUSE: Final = 1.0
_LONGEST_PAUSE: Final = 15.0

# URLs and key of an endpoint.
_LaneKey: TypeAlias = tuple[str, str]


class Lane:
    """The connections to the servers of an endpoint. A server that fails is skipped for a while, then tried again.

    A lane is taken with ``take`` and given back with ``leave``; the last ``leave`` closes its connections.
    """

    def __init__(self, endpoint: Endpoint, proxy: HttpProxy | None, cap: int) -> None:
        """Set up a lane; use ``take`` instead.

        Args:
            endpoint: The endpoint, with the URLs of its servers.
            proxy: The HTTP proxy on the way to them.
            cap: The largest number of simultaneous requests.
        """
        # The limiter bounds the number of requests, so the pools need no bound and no queue.
        self.pools = [ConnectionPool(url, proxy) for url in endpoint.urls]
        self.limiter = Limiter(cap)
        self.breaker = Breaker(self.limiter)
        self._holders = 0
        # For each server: until when it is skipped, and the length of its next pause.
        self._paused_until = [0.0] * len(self.pools)
        self._next_pause = [_FIRST_PAUSE] * len(self.pools)
        self._last = 0

    @classmethod
    def take(cls, endpoint: Endpoint, proxy: HttpProxy | None = None) -> "Lane":
        """The lane of an endpoint on the running loop."""
        lanes = _lanes.setdefault(asyncio.get_running_loop(), {})
        api_key = endpoint.api_key.reveal() if endpoint.api_key else ""
        key = (" ".join(endpoint.urls), api_key)
        cap = endpoint.max_concurrent or _DEFAULT_CONCURRENT
        lane = lanes.get(key)
        if lane is None:
            raise_limit()
            lane = lanes[key] = cls(endpoint, proxy, cap)
        lane.limiter.cap = max(lane.limiter.cap, cap)
        lane._holders += 1
        return lane

    async def leave(self) -> None:
        """Release the lane; the last release closes its connections."""
        self._holders -= 1
        if self._holders > 0:
            return
        lanes = _lanes.get(asyncio.get_running_loop(), {})
        own_keys = [key for key, lane in lanes.items() if lane is self]
        for key in own_keys:
            del lanes[key]
        for pool in self.pools:
            await pool.close()

    def pick(self) -> int:
        """Choose the server for the next request: the least busy one among those that answer. Returns its index."""
        count = len(self.pools)
        if count == 1:
            return 0
        now = monotonic()
        # Starting after the last one, so that equally busy servers take turns.
        order = [(self._last + step) % count for step in range(1, count + 1)]
        available = [server for server in order if self._paused_until[server] <= now]
        if available:
            self._last = min(available, key=lambda server: self.pools[server].busy)
        else:
            self._last = min(order, key=self._paused_until.__getitem__)
        return self._last

    def failed(self, server: int) -> bool:
        """Skip a server for a while. Returns whether another one is available."""
        if len(self.pools) == 1:
            return False
        now = monotonic()
        if self._paused_until[server] <= now:
            self._paused_until[server] = now + self._next_pause[server]
            self._next_pause[server] = min(2 * self._next_pause[server], _LONGEST_PAUSE)
        return any(paused_until <= now for paused_until in self._paused_until)

    def answered(self, server: int) -> None:
        """Use a server again: it has answered."""
        self._paused_until[server] = 0.0
        self._next_pause[server] = _FIRST_PAUSE


_lanes: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[_LaneKey, Lane]] = WeakKeyDictionary()
