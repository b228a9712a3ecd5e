"""Stopping a benchmark before its plan is done: who asked for it, why, and how gently."""

import asyncio
from enum import StrEnum


class HaltKind(StrEnum):
    """Why a benchmark stopped early."""

    INTERRUPT = "interrupt"
    ERROR = "error"
    BUDGET = "budget"
    RULE = "rule"
    DETACHED = "detach"


class Halt:
    """Set once; the first reason stays. ``drain`` is how many seconds requests in flight may take to finish."""

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self.kind: HaltKind | None = None
        self.reason = ""
        self.error: BaseException | None = None
        self.drain = 0.0

    def __bool__(self) -> bool:
        return self.kind is not None

    @property
    def interrupted(self) -> bool:
        """True once a person, or `nel eval stop`, has asked for the stop."""
        return self.kind is HaltKind.INTERRUPT

    def set(
        self, kind: HaltKind, reason: str, *, error: BaseException | None = None, drain: float = 0.0
    ) -> None:
        """Ask for the stop."""
        if self.kind is None:
            self.kind = kind
            self.reason = reason
            self.error = error
            self.drain = drain
        self._event.set()

    def hurry(self) -> None:
        """Cancel the grace of requests in flight."""
        self.drain = 0.0
        self._event.set()

    async def wait(self) -> None:
        """Until someone asks for the stop."""
        await self._event.wait()
