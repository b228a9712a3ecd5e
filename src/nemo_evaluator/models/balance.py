"""Which of several servers gets the next request: the one with the least to do among those that answer."""

from collections.abc import Sequence
from time import monotonic
from typing import Final

from nemo_evaluator.models.pool import Pool

# How long a server that failed is left out: at first, and at most.
_FIRST_PAUSE: Final = 1.0
_LONGEST_PAUSE: Final = 15.0


class Balance:
    """The pools of all servers of a service. A server that fails is left out for a while, then tried again."""

    __slots__ = ("_last", "_paused", "_pauses", "pools")

    def __init__(self, pools: Sequence[Pool]) -> None:
        self.pools = pools
        self._paused = [0.0] * len(pools)
        self._pauses = [_FIRST_PAUSE] * len(pools)
        self._last = 0

    def pick(self) -> int:
        """The number of the server to use."""
        count = len(self.pools)
        if count == 1:
            return 0
        now = monotonic()
        # Beginning after the last one, so that servers with equally much to do take turns.
        order = [(self._last + step) % count for step in range(1, count + 1)]
        up = [number for number in order if self._paused[number] <= now]
        self._last = min(up, key=self._busy) if up else min(order, key=self._paused.__getitem__)
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
        self._paused[number], self._pauses[number] = 0.0, _FIRST_PAUSE

    async def close(self) -> None:
        """Drop every connection."""
        for pool in self.pools:
            await pool.close()

    def _busy(self, number: int) -> int:
        return self.pools[number].busy
