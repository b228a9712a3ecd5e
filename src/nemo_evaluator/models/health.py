"""The current state of a benchmark's traffic: waiting retries and outages."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from nemo_evaluator.core.errors import BoundaryError
from nemo_evaluator.core.values import dataclass, field


@dataclass(slots=True)
class Outage:
    """A server that stopped responding. Times are those of ``time.monotonic``."""

    service: str
    reason: str
    next_try: float
    gives_up: float
    over: bool = False


@dataclass(slots=True)
class Health:
    """Retries and outages; transports write them, and the progress display reads them in another thread."""

    retrying: Counter[str] = field(default_factory=Counter)
    outage: Outage | None = None

    @property
    def paused(self) -> Outage | None:
        """The current outage, if there is one."""
        if self.outage is not None and not self.outage.over:
            return self.outage
        return None

    @contextmanager
    def retry(self, failed: BoundaryError) -> Iterator[None]:
        """Count a request that waits for its next attempt."""
        reason = short_reason(failed)
        self.retrying[reason] += 1
        try:
            yield
        finally:
            self.retrying[reason] -= 1


def short_reason(failed: BoundaryError) -> str:
    """A failure in a few words: its status, or its message without the name of the service."""
    if failed.status is not None:
        return f"HTTP {failed.status}"
    return failed.message.partition(": ")[2] or failed.message
