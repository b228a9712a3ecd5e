"""What may be spent: money, tokens, requests, time. Reserved before a call, settled after it."""

import asyncio
from collections import deque
from time import monotonic
from typing import Final

from nemo_evaluator.core.errors import EXIT_BUDGET, BoundaryError, BudgetError
from nemo_evaluator.core.failures import Cause
from nemo_evaluator.core.values import dataclass
from nemo_evaluator.core.wording import counted

_RECENT: Final = 64


class BudgetExhausted(BoundaryError):
    """The budget of a run or a benchmark is spent: no more calls are made, what is done stays valid.

    The step that raises it is cancelled (no row), so that a later ``--resume`` with a larger budget asks it.
    """

    cause = Cause.CANCELLED
    exit_code = EXIT_BUDGET


@dataclass(slots=True)
class Reservation:
    """What one call under way may cost."""

    usd: float
    tokens: float


class Budget:
    """Limits shared by many calls. ``name`` is told when one is reached.

    A call waits while those under way might use the rest up, so that the end comes within one call's cost of the
    limit: before the first cost is known, calls go one at a time. A budget of a step (``step=True``) raises
    BudgetError, after which the answer is verified as it stands; any other raises BudgetExhausted.
    """

    def __init__(
        self,
        name: str,
        *,
        usd: float | None = None,
        tokens: int | None = None,
        requests: int | None = None,
        minutes: float | None = None,
        step: bool = False,
    ) -> None:
        self.name = name
        self.usd, self.tokens, self.requests, self.minutes = usd, tokens, requests, minutes
        self.spent_usd = 0.0
        self.spent_tokens = 0
        self.spent_requests = 0
        self.step = step
        self._started = monotonic()
        self._held_usd = self._held_tokens = 0.0
        self._held = 0
        self._usd_seen: deque[float] = deque(maxlen=_RECENT)
        self._tokens_seen: deque[int] = deque(maxlen=_RECENT)
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._ended: str | None = None

    @property
    def ended(self) -> str | None:
        """The limit that was reached, in words; None while there is something left."""
        return self._ended

    def resume(self, *, usd: float = 0.0, tokens: int = 0, requests: int = 0, seconds: float = 0.0) -> None:
        """Count what an earlier part of the same run has spent."""
        self.spent_usd += usd
        self.spent_tokens += tokens
        self.spent_requests += requests
        self._started -= seconds

    async def reserve(self, guess: tuple[float, float] | None = None) -> Reservation:
        """Set aside what a call may cost, waiting for others to settle if need be; raises when nothing is left.

        ``guess`` is that cost in USD and tokens, where the caller knows better than the calls before.
        """
        while True:
            limit = self.reached()
            if limit is not None:
                raise self.end(limit)
            usd, tokens = guess or self._guess()
            short = self._short(usd, tokens, known=guess is not None)
            if short is None:
                self._held += 1
                self._held_usd += usd
                self._held_tokens += tokens
                return Reservation(usd, tokens)
            if self._held == 0:
                raise self.end(short)
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter

    def settle(self, held: Reservation, *, usd: float = 0.0, tokens: int = 0, requests: int = 0) -> None:
        """Replace a reservation by what the call really cost."""
        self._held -= 1
        self._held_usd -= held.usd
        self._held_tokens -= held.tokens
        self.spent_requests += requests
        # Whatever a server reports, a call never gives anything back.
        self.spent_usd += max(usd, 0.0)
        self.spent_tokens += max(tokens, 0)
        if usd > 0:
            self._usd_seen.append(usd)
        if tokens > 0:
            self._tokens_seen.append(tokens)
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)

    def spent(self) -> dict[str, float]:
        """What was spent so far."""
        return {
            "usd": self.spent_usd,
            "tokens": self.spent_tokens,
            "requests": self.spent_requests,
            "minutes": (monotonic() - self._started) / 60.0,
        }

    def _guess(self) -> tuple[float, float]:
        # The dearest of the recent calls: the end should not come by surprise.
        usd = max(self._usd_seen, default=0.0) if self.usd is not None else 0.0
        tokens = max(self._tokens_seen, default=0) if self.tokens is not None else 0
        return usd, float(tokens)

    def reached(self) -> str | None:
        """The limit that was reached, in words."""
        if self.minutes is not None and monotonic() - self._started >= 60.0 * self.minutes:
            return f"{self.minutes:g} minutes"
        if self.usd is not None and self.spent_usd >= self.usd:
            return f"{self.usd:g} USD"
        if self.tokens is not None and self.spent_tokens >= self.tokens:
            return counted(self.tokens, "token")
        if self.requests is not None and self.spent_requests >= self.requests:
            return counted(self.requests, "request")
        return None

    def _short(self, usd: float, tokens: float, *, known: bool) -> str | None:
        """The limit that one more call might break, given those under way."""
        if self.requests is not None and self.spent_requests + self._held + 1 > self.requests:
            return counted(self.requests, "request")
        if self.usd is not None:
            known_usd = known or bool(self._usd_seen)
            if (not known_usd and self._held > 0) or (known_usd and self.spent_usd + self._held_usd + usd > self.usd):
                return f"{self.usd:g} USD"
        if self.tokens is not None:
            known_tokens = known or bool(self._tokens_seen)
            if (not known_tokens and self._held > 0) or (
                known_tokens and self.spent_tokens + self._held_tokens + tokens > self.tokens
            ):
                return counted(self.tokens, "token")
        return None

    def end(self, limit: str) -> BoundaryError:
        """What is raised when a limit was reached."""
        self._ended = limit
        if self.step:
            return BudgetError(f"{self.name}: budget of {limit} is used up")
        hint = "raise the budget and run again with --resume: nothing is asked twice"
        return BudgetExhausted(f"{self.name}: budget of {limit} is used up", hint=hint)
