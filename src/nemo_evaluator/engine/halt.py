"""The early stop of a benchmark: who asked for it, why, and how long requests in flight may still take."""

import asyncio
from enum import StrEnum

from nemo_evaluator.core.errors import NelError


class HaltKind(StrEnum):
    """The reason for which a benchmark stopped early."""

    INTERRUPT = "interrupt"
    ERROR = "error"
    BUDGET = "budget"
    RULE = "rule"
    DETACHED = "detach"


class Halt:
    """The request to stop a benchmark early. Only the first reason is kept.

    Attributes:
        kind: Why the benchmark stops; None while it runs normally.
        reason: The same, as a message.
        error: The exception that caused the stop, if one did.
        drain: Seconds that requests in flight may take to finish.
    """

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self.kind: HaltKind | None = None
        self.reason = ""
        self.error: BaseException | None = None
        self.drain = 0.0

    def __bool__(self) -> bool:
        """Return True once the stop has been requested."""
        return self.kind is not None

    @property
    def interrupted(self) -> bool:
        """True if a person requested the stop, with Ctrl-C or `nel eval stop`."""
        return self.kind is HaltKind.INTERRUPT

    def set(
        self, kind: HaltKind, reason: str, *, error: BaseException | None = None, drain: float = 0.0
    ) -> None:
        """Request the stop. Later requests do not change the reason.

        Args:
            kind: Why the benchmark stops.
            reason: The same, as a message.
            error: The exception that caused the stop.
            drain: Seconds that requests in flight may take to finish.
        """
        if self.kind is None:
            self.kind = kind
            self.reason = reason
            self.error = error
            self.drain = drain
        self._event.set()

    def set_error(self, error: NelError) -> None:
        """Request the stop because of an error.

        Args:
            error: The error, whose message becomes the reason.
        """
        self.set(HaltKind.ERROR, error.message, error=error)

    def hurry(self) -> None:
        """Stop waiting for requests in flight."""
        self.drain = 0.0
        self._event.set()

    async def wait(self) -> None:
        """Wait until the stop is requested."""
        await self._event.wait()
