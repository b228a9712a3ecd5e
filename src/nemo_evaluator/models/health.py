"""How the traffic of a benchmark fares right now: what is being tried again, and which server is gone."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from nemo_evaluator.core.errors import BoundaryError
from nemo_evaluator.core.values import dataclass, field


@dataclass(slots=True)
class Outage:
    """A server that is gone, in times of ``time.monotonic``."""

    service: str
    reason: str
    next_try: float
    gives_up: float
    over: bool = False


@dataclass(slots=True)
class Health:
    """Written by transports, read by whoever shows progress, in another thread."""

    retrying: Counter[str] = field(default_factory=Counter)
    outage: Outage | None = None

    @property
    def paused(self) -> Outage | None:
        """The outage that is going on."""
        if self.outage is not None and not self.outage.over:
            return self.outage
        return None

    @contextmanager
    def retry(self, failed: BoundaryError) -> Iterator[None]:
        """A request waits for its next try."""
        why = short_reason(failed)
        self.retrying[why] += 1
        try:
            yield
        finally:
            self.retrying[why] -= 1


def short_reason(failed: BoundaryError) -> str:
    """A failure in a few words: its status, or what the wire said."""
    if failed.status is not None:
        return f"HTTP {failed.status}"
    return failed.message.partition(": ")[2] or failed.message
