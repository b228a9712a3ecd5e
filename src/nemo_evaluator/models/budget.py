"""Budgets for money, tokens, requests and time. A call reserves its cost first and settles it afterwards."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING, Final, TypeAlias

from nemo_evaluator.core.errors import EXIT_BUDGET, BoundaryError, BudgetError
from nemo_evaluator.core.failures import Cause
from nemo_evaluator.core.wording import counted

if TYPE_CHECKING:
    from nemo_evaluator.models.budget_charges import BudgetSpent

# The cost of the next call is guessed from so many recent ones.
_RECENT: Final = 64
# The cost of one call in USD and tokens; it is one request, too.
Cost: TypeAlias = tuple[float, float]


class BudgetExhausted(BoundaryError):
    """The budget of a run or a benchmark is used up: no more calls are made, finished answers stay valid.

    The step that raises it is cancelled and gets no row, so that a later ``--resume`` with a larger budget runs it.
    """

    cause = Cause.CANCELLED
    exit_code = EXIT_BUDGET


@dataclass(slots=True)
class _SpendingAccount:
    """What is counted of one kind: requests, USD or tokens.

    Attributes:
        limit: The limit; None if this kind is not limited.
        limit_text: The limit as errors show it.
        spent: The cost of all settled calls.
        reserved: The cost of the calls under way.
        recent: The costs of recent calls.
    """

    limit: float | None
    limit_text: str
    spent: float = 0
    reserved: float = 0
    recent: deque[float] = field(default_factory=lambda: deque(maxlen=_RECENT))

    @property
    def reached(self) -> bool:
        """Whether the limit is used up."""
        return self.limit is not None and self.spent >= self.limit

    def would_exceed(self, cost: float) -> bool:
        """Whether one more call of this cost might exceed the limit."""
        return self.limit is not None and self.spent + self.reserved + cost > self.limit


class Budget:
    """Limits shared by many calls.

    A call waits while the calls under way might use up the rest, so that the total exceeds the limit by at most one
    call: until the first cost is known, calls are made one at a time. A budget of a step (``step=True``) raises
    BudgetError, after which the answer is verified as it is; any other raises BudgetExhausted.

    Attributes:
        name: The name that errors show.
        ended: The limit that was reached, as text; None before.
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
        """Start with nothing spent.

        Args:
            name: The name that errors show.
            usd: The limit in USD.
            tokens: The limit in tokens.
            requests: The largest number of requests.
            minutes: The largest duration.
            step: Whether it is the budget of one step.
        """
        self.name = name
        self.step = step
        self.usd = usd
        self.tokens = tokens
        self.requests = requests
        self.minutes = minutes
        self._requests = _SpendingAccount(requests, counted(requests or 0, "request"))
        self._usd = _SpendingAccount(usd, f"{usd or 0.0:g} USD", 0.0, reserved=0.0)
        self._tokens = _SpendingAccount(tokens, counted(tokens or 0, "token"))
        # In the order in which errors name them.
        self._accounts = (self._requests, self._usd, self._tokens)
        self._started = monotonic()
        self._waiters: deque[asyncio.Future[None]] = deque()
        self.ended: str | None = None

    def resume(
        self, *, usd: float = 0.0, tokens: float = 0, requests: float = 0, seconds: float = 0.0
    ) -> None:
        """Count what an earlier part of the same run has spent."""
        self._usd.spent += usd
        self._tokens.spent += tokens
        self._requests.spent += requests
        self._started -= seconds

    async def reserve(self, guess: Cost | None = None) -> Cost:
        """Reserve the cost of a call, waiting for other calls to settle if need be.

        Args:
            guess: The cost, if the caller knows it better than the recent calls show.

        Returns:
            The reserved cost, for ``settle``.

        Raises:
            BudgetError: The budget of the step is used up.
            BudgetExhausted: Any other budget is used up.
        """
        while True:
            limit = self.reached()
            if limit is not None:
                raise self.end(limit)
            # The most expensive of the recent calls, so that the limit is rarely exceeded.
            cost = guess or (
                max(self._usd.recent, default=0.0),
                max(self._tokens.recent, default=0.0),
            )
            exceeded_limit = self._short(cost, known=guess is not None)
            if exceeded_limit is None:
                self._requests.reserved += 1
                self._usd.reserved += cost[0]
                self._tokens.reserved += cost[1]
                return cost
            if not self._requests.reserved:
                raise self.end(exceeded_limit)
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter

    def settle(
        self, reserved: Cost, *, usd: float = 0.0, tokens: int = 0, requests: int = 0
    ) -> None:
        """Replace a reservation by the real cost of the call.

        Args:
            reserved: The reservation.
            usd: The cost in USD.
            tokens: The number of tokens.
            requests: The number of requests.
        """
        self._requests.reserved -= 1
        self._usd.reserved -= reserved[0]
        self._tokens.reserved -= reserved[1]
        # Servers may report negative numbers; a call never gives anything back.
        self._requests.spent += requests
        self._usd.spent += max(usd, 0.0)
        self._tokens.spent += max(tokens, 0)
        if usd > 0:
            self._usd.recent.append(usd)
        if tokens > 0:
            self._tokens.recent.append(tokens)
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)

    def spent(self) -> BudgetSpent:
        """The amounts spent so far, by kind."""
        return {
            "usd": self._usd.spent,
            "tokens": self._tokens.spent,
            "requests": self._requests.spent,
            "minutes": (monotonic() - self._started) / 60.0,
        }

    def reached(self) -> str | None:
        """The limit that was reached, as text; None while there is something left."""
        if self.minutes is not None and monotonic() - self._started >= 60.0 * self.minutes:
            return f"{self.minutes:g} minutes"
        for account in self._accounts:
            if account.reached:
                return account.limit_text
        return None

    def end(self, limit: str) -> BoundaryError:
        """The error to raise when a limit was reached."""
        self.ended = limit
        text = f"{self.name}: budget of {limit} is used up"
        if self.step:
            return BudgetError(text)
        hint = "raise the budget and run again with --resume: nothing is asked twice"
        return BudgetExhausted(text, hint=hint)

    def _short(self, cost: Cost, *, known: bool) -> str | None:
        """The limit that one more call might exceed, as text; until a cost is known, one call at a time is allowed."""
        if self._requests.would_exceed(1):
            return self._requests.limit_text
        for account, amount in ((self._usd, cost[0]), (self._tokens, cost[1])):
            if account.limit is None:
                continue
            if known or account.recent:
                if account.would_exceed(amount):
                    return account.limit_text
            elif self._requests.reserved:
                return account.limit_text
        return None
