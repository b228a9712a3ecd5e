"""Waits between calls to a vendor, and repeated calls while the vendor cannot be reached."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import Any, Final, TypeVar

from nemo_evaluator.core.errors import (
    NotFoundError,
    OutageError,
    RateLimitError,
    TransportError,
)
from nemo_evaluator.models.batch.vendor import never_sent

T = TypeVar("T")
#: The bounds of the time between two looks at a batch, in seconds.
SHORTEST_PAUSE: Final = 0.1
LONGEST_PAUSE: Final = 60.0
#: The time before a failed call is repeated.
RETRY_PAUSE: Final = 1.0
# The state of a batch is requested after a twentieth of its age.
_SHARE_OF_AGE: Final = 20.0
# How often a pause checks whether the run was interrupted.
_SECONDS_PER_CHECK: Final = 0.25


class Patience:
    """Knows how long to wait for a vendor.

    Attributes:
        outage: After so many seconds without a reply, a call fails.
        interrupted: Returns whether the run was interrupted.
    """

    def __init__(self, outage: float) -> None:
        self.outage = outage
        self.interrupted: Callable[[], bool] = lambda: False

    async def pause(self, seconds: float) -> None:
        """Wait; an interrupt ends the wait."""
        end = monotonic() + seconds
        while (remaining := end - monotonic()) > 0:
            await asyncio.sleep(min(remaining, _SECONDS_PER_CHECK))
            if self.interrupted():
                return

    async def pause_by_age(self, began: float) -> None:
        """Wait before the next look at a batch: an older batch is looked at less often.

        Args:
            began: When the batch began, by the monotonic clock.
        """
        share_of_age = (monotonic() - began) / _SHARE_OF_AGE
        await self.pause(min(LONGEST_PAUSE, max(SHORTEST_PAUSE, share_of_age)))

    async def call(
        self, function: Callable[..., Awaitable[T]], *args: Any, submits: bool = False
    ) -> T:
        """Make a call, and repeat it while the vendor cannot be reached.

        Args:
            function: The call.
            *args: Its arguments.
            submits: The call submits a batch: it is repeated only if it certainly did not reach the vendor.

        Raises:
            OutageError: The vendor could not be reached for as long as ``outage``.
            BoundaryError: Any other failure of the call.
        """
        began = monotonic()
        while True:
            try:
                return await function(*args)
            except NotFoundError as error:
                error.hint = "is the api_key that of the account which submitted the batch?"
                raise
            except (TransportError, RateLimitError) as error:
                may_have_arrived = isinstance(error, TransportError) and not never_sent(error)
                if submits and may_have_arrived:
                    raise
                if monotonic() - began > self.outage:
                    raise OutageError(
                        error.message, hint="run the same command with --resume later"
                    ) from error
            await self.pause(RETRY_PAUSE)
