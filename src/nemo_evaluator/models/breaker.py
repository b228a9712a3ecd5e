"""What is done about a server that is gone: all wait, one request at a time looks whether it is back, not for ever.

A server that never answered and cannot be connected to is given up within seconds; one that answers 5xx from the
start gets two minutes, since it may be loading; one that did answer before gets ``timeouts.outage``.
"""

from time import monotonic
from typing import Final

from nemo_evaluator.core.errors import BoundaryError, OutageError
from nemo_evaluator.core.wording import counted
from nemo_evaluator.models.endpoint import Endpoint
from nemo_evaluator.models.health import Outage, short_reason
from nemo_evaluator.models.limiter import Limiter

# So many tries in a row without a connection, or so many requests (for at least so long) without an answer.
_UNCONNECTED: Final = 3
_UNANSWERED: Final = 8
_LASTING: Final = 2.0
_FIRST_PROBE: Final = 1.0
_LONGEST_PROBE: Final = 15.0
# The patience with a server that never answered: that cannot be reached, and that is there but fails.
_NEVER_THERE: Final = 3.0
_NEVER_WELL: Final = 120.0


class Breaker:
    """Watches the failures of one endpoint; opens its limiter again when an answer comes."""

    def __init__(self, limiter: Limiter) -> None:
        self._limiter = limiter
        self._asked: set[int] = set()
        self._since = self._probed_at = 0.0
        self._probe = _FIRST_PROBE
        self._given_up = False
        self.healthy = False
        self.streak = 0
        # While it lasts, requests wait for the server to come back.
        self.outage: Outage | None = None

    def answered(self) -> None:
        """A good answer came."""
        self.healthy = True
        self.alive()

    def alive(self) -> None:
        """The server is there, whatever it says."""
        self.streak = 0
        self._given_up = False
        self._asked.clear()
        if self.outage is not None:
            self._close()
            self._limiter.reopen()

    def failed(
        self, request: int, error: BoundaryError, endpoint: Endpoint, *, connected: bool
    ) -> None:
        """Count a failure of the server. Raises OutageError when it was waited for long enough."""
        now = monotonic()
        if not self.streak:
            self._since = now
            self._probe = _FIRST_PROBE
        self.streak += 1
        if self._given_up:
            raise self._gone(error, endpoint, now)
        if self.outage is None:
            self._asked.add(request)
            lasting = len(self._asked) >= _UNANSWERED and now - self._since >= _LASTING
            if not (lasting if connected else self.streak >= _UNCONNECTED):
                return
            self._asked.clear()
        elif now < self._probed_at:
            return  # It was sent before the pause; only those sent since then tell something.
        patience = endpoint.timeouts.outage
        if not self.healthy:
            patience = min(patience, _NEVER_WELL if connected else _NEVER_THERE)
        left = self._since + patience - now
        if left <= 0:
            self._given_up = True
            self._close()
            self._limiter.reopen()
            raise self._gone(error, endpoint, now)
        self._probed_at = now + min(self._probe, left)
        self._probe = min(2 * self._probe, _LONGEST_PROBE)
        if self.outage is None:
            self.outage = Outage(endpoint.name, "", 0.0, gives_up=0.0)
        self.outage.reason = short_reason(error)
        self.outage.next_try = self._probed_at
        self.outage.gives_up = self._since + patience
        self._limiter.hold(self._probed_at)

    def _close(self) -> None:
        if self.outage is not None:
            self.outage.over = True
        self.outage = None

    def _gone(self, error: BoundaryError, endpoint: Endpoint, now: float) -> OutageError:
        said = error.message.removeprefix(f"{endpoint.name}: ")
        tries = f"{counted(self.streak, 'request')} failed in {now - self._since:.0f} s"
        if self.healthy:
            text = f"the server is gone, {tries} (timeouts.outage: {endpoint.timeouts.outage:g} s): {said}"
        else:
            text = f"no request was answered, {tries}: {said}"
        hint = f"make sure that a server answers at {endpoint.url}, then run the same command with --resume"
        return OutageError(
            f"{endpoint.name}: {text}", hint=hint, status=error.status, attempts=error.attempts
        )
