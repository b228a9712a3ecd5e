"""Outages: all requests wait, one at a time tests whether the server is back, and the wait is limited.

A server that never answered and cannot be connected to is given up within seconds. One that answers 5xx from the start
gets two minutes, since it may be loading. One that has answered before gets ``timeouts.outage``.
"""

from time import monotonic
from typing import Final

from nemo_evaluator.core.errors import BoundaryError, OutageError
from nemo_evaluator.core.wording import counted
from nemo_evaluator.models.endpoint import Endpoint
from nemo_evaluator.models.health import Outage, short_reason
from nemo_evaluator.models.limiter import Limiter

# An outage begins after so many attempts in a row without a connection ...
_UNCONNECTED: Final = 3
# ... or after so many different requests without an answer, over at least so many seconds.
_UNANSWERED: Final = 8
_LASTING: Final = 2.0
# Seconds between two tests of the server: at first, and at most.
_FIRST_PROBE: Final = 1.0
_LONGEST_PROBE: Final = 15.0
# Seconds for a server that never answered: one that cannot be reached, and one that is up but fails.
_NEVER_CONNECTED: Final = 3.0
_NEVER_HEALTHY: Final = 120.0


class Breaker:
    """Watches the failures of one endpoint, and opens its limiter again when an answer comes.

    Attributes:
        healthy: The server has given a good answer.
        streak: The number of failures since the last answer.
        outage: The outage; while it lasts, requests wait for the server.
    """

    def __init__(self, limiter: Limiter) -> None:
        """Watch the endpoint of a limiter."""
        self._limiter = limiter
        self._failed_requests: set[int] = set()
        self._since = 0.0
        self._next_probe_at = 0.0
        self._probe_interval = _FIRST_PROBE
        self._given_up = False
        self.healthy = False
        self.streak = 0
        self.outage: Outage | None = None

    def answered(self) -> None:
        """Note a good answer of the server."""
        self.healthy = True
        self.alive()

    def alive(self) -> None:
        """Note any answer of the server, which ends an outage."""
        self.streak = 0
        self._given_up = False
        self._failed_requests.clear()
        if self.outage is not None:
            self._end_outage()
            self._limiter.reopen()

    def failed(
        self, request: int, error: BoundaryError, endpoint: Endpoint, *, connected: bool
    ) -> None:
        """Count a failure of the server, which may begin or continue an outage.

        Args:
            request: What identifies the request.
            error: The failure.
            endpoint: The endpoint.
            connected: Whether there was a connection.

        Raises:
            OutageError: The server has been down for too long.
        """
        now = monotonic()
        if not self.streak:
            self._since = now
            self._probe_interval = _FIRST_PROBE
        self.streak += 1
        if self._given_up:
            raise self._gone(error, endpoint, now)
        if self.outage is None and not self._is_down(request, now, connected=connected):
            return
        if self.outage is not None and now < self._next_probe_at:
            # The request was sent before the pause, so its failure is no news.
            return
        gives_up_at = self._since + self._patience(endpoint, connected=connected)
        if now >= gives_up_at:
            self._given_up = True
            self._end_outage()
            self._limiter.reopen()
            raise self._gone(error, endpoint, now)
        self._next_probe_at = now + min(self._probe_interval, gives_up_at - now)
        self._probe_interval = min(2 * self._probe_interval, _LONGEST_PROBE)
        if self.outage is None:
            self.outage = Outage(endpoint.name, "", 0.0, gives_up=0.0)
        self.outage.reason = short_reason(error)
        self.outage.next_try = self._next_probe_at
        self.outage.gives_up = gives_up_at
        self._limiter.hold(self._next_probe_at)

    def _is_down(self, request: int, now: float, *, connected: bool) -> bool:
        """Whether the failures so far mean that the server is down."""
        self._failed_requests.add(request)
        if connected:
            is_lasting = now - self._since >= _LASTING
            is_down = is_lasting and len(self._failed_requests) >= _UNANSWERED
        else:
            is_down = self.streak >= _UNCONNECTED
        if is_down:
            self._failed_requests.clear()
        return is_down

    def _patience(self, endpoint: Endpoint, *, connected: bool) -> float:
        """Return how many seconds the server may be down."""
        if self.healthy:
            return endpoint.timeouts.outage
        never_answered = _NEVER_HEALTHY if connected else _NEVER_CONNECTED
        return min(endpoint.timeouts.outage, never_answered)

    def _end_outage(self) -> None:
        if self.outage is not None:
            self.outage.over = True
        self.outage = None

    def _gone(self, error: BoundaryError, endpoint: Endpoint, now: float) -> OutageError:
        """Return the error after which the run stops."""
        reason = error.message.removeprefix(f"{endpoint.name}: ")
        failures = f"{counted(self.streak, 'request')} failed in {now - self._since:.0f} s"
        if self.healthy:
            limit = f"timeouts.outage: {endpoint.timeouts.outage:g} s"
            text = f"the server is gone, {failures} ({limit}): {reason}"
        else:
            text = f"no request was answered, {failures}: {reason}"
        hint = f"make sure that a server answers at {endpoint.url}, then run the same command with --resume"
        return OutageError(
            f"{endpoint.name}: {text}", hint=hint, status=error.status, attempts=error.attempts
        )
