"""Which failures are tried again, and after how long."""

import random
from collections.abc import Collection

from nemo_evaluator.core.errors import BoundaryError, RateLimitError
from nemo_evaluator.core.failures import POLICY
from nemo_evaluator.core.values import dataclass


@dataclass(slots=True)
class RetryConfig:
    """How often a failed request is tried again. ``retry_on_status`` of None means 408, 429 and every 5xx."""

    max_retries: int = 3
    base_delay: float = 1.0
    max_delay: float = 60.0
    retry_on_status: Collection[int] | None = None
    jitter: bool = True

    def wants(self, error: BoundaryError, attempt: int) -> bool:
        """Whether a request that failed with ``error`` at try number ``attempt`` is tried again."""
        if attempt > self.max_retries:
            return False
        if self.retry_on_status is not None and error.status is not None:
            return error.status in self.retry_on_status
        return POLICY[error.cause].retry

    def delay(self, error: BoundaryError, attempt: int) -> float:
        """Return the seconds to wait after try number ``attempt``; at least as long as the server requested."""
        wait = min(self.base_delay * 2.0 ** (attempt - 1), self.max_delay)
        if self.jitter:
            wait *= random.uniform(0.5, 1.5)
        if isinstance(error, RateLimitError) and error.retry_after is not None:
            # A little more than asked, and not all at the same moment.
            wait = error.retry_after + min(wait, 0.25) * random.random()
        return wait
