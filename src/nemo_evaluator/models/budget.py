"""What may be spent: money, tokens, requests, time. Reserved before a call, settled after it."""

import asyncio
from collections import deque
from time import monotonic
from typing import Final, TypeAlias

from nemo_evaluator.core.errors import EXIT_BUDGET, BoundaryError, BudgetError
from nemo_evaluator.core.failures import Cause
from nemo_evaluator.core.wording import counted

_RECENT: Final = 64
# What one call may cost, in USD and tokens; it is one request, too.
Cost: TypeAlias = tuple[float, float]


class BudgetExhausted(BoundaryError):
    """The budget of a run or a benchmark is spent: no more calls are made, what is done stays valid.

    The step that raises it is cancelled (no row), so that a later ``--resume`` with a larger budget asks it.
    """

    cause = Cause.CANCELLED
    exit_code = EXIT_BUDGET


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
        self.step = step
        self.usd = usd
        self.tokens = tokens
        self.requests = requests
        self.minutes = minutes
        # The limit of each kind that has one, and how it is told.
        limits: list[tuple[str, float | None, str]] = [
            ("requests", requests, counted(requests or 0, "request")),
            ("usd", usd, f"{usd or 0.0:g} USD"),
            ("tokens", tokens, counted(tokens or 0, "token")),
        ]
        self._limits = {kind: (most, told) for kind, most, told in limits if most is not None}
        self._spent: dict[str, float] = {"usd": 0.0, "tokens": 0, "requests": 0}
        self._held: dict[str, float] = {"usd": 0.0, "tokens": 0.0, "requests": 0}
        seen: dict[str, deque[float]] = {}
        for kind in ("usd", "tokens"):
            seen[kind] = deque(maxlen=_RECENT)
        self._seen: dict[str, deque[float]] = seen
        self._started = monotonic()
        self._waiters: deque[asyncio.Future[None]] = deque()
        # The limit that was reached, in words; None while there is something left.
        self.ended: str | None = None

    def resume(
        self, *, usd: float = 0.0, tokens: int = 0, requests: int = 0, seconds: float = 0.0
    ) -> None:
        """Count what an earlier part of the same run has spent."""
        self._add(self._spent, (usd, tokens), requests)
        self._started -= seconds

    async def reserve(self, guess: Cost | None = None) -> Cost:
        """Set aside what a call may cost, waiting for others to settle if need be; raises when nothing is left.

        ``guess`` is that cost, where the caller knows better than the calls before.
        """
        while True:
            limit = self.reached()
            if limit is not None:
                raise self.end(limit)
            # The dearest of the recent calls: the end should not come by surprise.
            cost = guess or (
                max(self._seen["usd"], default=0.0),
                max(self._seen["tokens"], default=0.0),
            )
            short = self._short(cost, known=guess is not None)
            if short is None:
                self._add(self._held, cost, 1)
                return cost
            if not self._held["requests"]:
                raise self.end(short)
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter

    def settle(self, held: Cost, *, usd: float = 0.0, tokens: int = 0, requests: int = 0) -> None:
        """Replace a reservation by what the call really cost."""
        self._add(self._held, (-held[0], -held[1]), -1)
        # Whatever a server reports, a call never gives anything back.
        self._add(self._spent, (max(usd, 0.0), max(tokens, 0)), requests)
        for kind, cost in (("usd", usd), ("tokens", tokens)):
            if cost > 0:
                self._seen[kind].append(cost)
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)

    def spent(self) -> dict[str, float]:
        """What was spent so far."""
        return {**self._spent, "minutes": (monotonic() - self._started) / 60.0}

    def reached(self) -> str | None:
        """The limit that was reached, in words."""
        if self.minutes is not None and monotonic() - self._started >= 60.0 * self.minutes:
            return f"{self.minutes:g} minutes"
        return next(
            (told for kind, (most, told) in self._limits.items() if self._spent[kind] >= most), None
        )

    def _short(self, cost: Cost, *, known: bool) -> str | None:
        """The limit that one more call might break, given those under way; before a cost is known, one is enough."""
        each = {"requests": 1, "usd": cost[0], "tokens": cost[1]}
        for kind, (most, told) in self._limits.items():
            if kind == "requests" or known or self._seen[kind]:
                if self._spent[kind] + self._held[kind] + each[kind] > most:
                    return told
            elif self._held["requests"]:
                return told
        return None

    @staticmethod
    def _add(account: dict[str, float], cost: Cost, requests: int) -> None:
        account["usd"] += cost[0]
        account["tokens"] += cost[1]
        account["requests"] += requests

    def end(self, limit: str) -> BoundaryError:
        """What is raised when a limit was reached."""
        self.ended = limit
        if self.step:
            return BudgetError(f"{self.name}: budget of {limit} is used up")
        hint = "raise the budget and run again with --resume: nothing is asked twice"
        return BudgetExhausted(f"{self.name}: budget of {limit} is used up", hint=hint)
