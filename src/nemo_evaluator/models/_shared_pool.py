"""One set of connections and one limiter per endpoint and key, shared by all clients of a process on one event loop."""

import asyncio
import sys
from weakref import WeakKeyDictionary

from nemo_evaluator.core.values import dataclass
from nemo_evaluator.models.balance import Balance
from nemo_evaluator.models.breaker import Breaker
from nemo_evaluator.models.endpoint import Endpoint
from nemo_evaluator.models.http_proxy import HttpProxy
from nemo_evaluator.models.limiter import Limiter
from nemo_evaluator.models.pool import Pool

if sys.platform != "win32":
    import resource

# Without a number in the config the engine decides how many requests there are at once.
DEFAULT_CONCURRENT = 1024


@dataclass(slots=True)
class Lane:
    """The servers' pools, a limiter and a breaker, and how many clients hold them."""

    balance: Balance
    limiter: Limiter
    breaker: Breaker
    key: tuple[str, str]
    holders: int = 0


_lanes: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[tuple[str, str], Lane]] = WeakKeyDictionary()


def take_lane(endpoint: Endpoint, proxy: HttpProxy | None = None) -> Lane:
    """The lane of an endpoint on the running loop; give it back with ``leave_lane``."""
    lanes = _lanes.setdefault(asyncio.get_running_loop(), {})
    key = (" ".join(endpoint.urls), endpoint.api_key.reveal() if endpoint.api_key else "")
    cap = endpoint.max_concurrent or DEFAULT_CONCURRENT
    lane = lanes.get(key)
    if lane is None:
        _raise_file_limit(4 * cap)
        # The limiter bounds the number of requests, so the pool has no bound and nobody waits in it.
        limiter = Limiter(cap)
        balance = Balance([Pool(url, proxy) for url in endpoint.urls])
        lane = lanes[key] = Lane(balance, limiter, Breaker(limiter), key)
    lane.limiter.cap = max(lane.limiter.cap, cap)
    lane.holders += 1
    return lane


async def leave_lane(lane: Lane) -> None:
    """Give a lane back; the last holder closes its connections."""
    lane.holders -= 1
    if lane.holders == 0:
        _lanes.get(asyncio.get_running_loop(), {}).pop(lane.key, None)
        await lane.balance.close()


def _raise_file_limit(wanted: int) -> None:
    """Raise the soft limit of open files to ``wanted``, as far as the hard limit allows."""
    if sys.platform == "win32":
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    target = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (target, hard))
