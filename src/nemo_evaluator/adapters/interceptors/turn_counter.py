"""``turn_counter``: counts the turns of a session, reminds the agent of its limit, and ends the session there."""

import hashlib
from dataclasses import dataclass
from logging import INFO
from time import monotonic
from typing import TYPE_CHECKING, Final, Literal

from nemo_evaluator.adapters import base
from nemo_evaluator.adapters._bodies import messages_of, put_messages, text_of
from nemo_evaluator.adapters.base import OUTSIDE
from nemo_evaluator.config.fields import Positive
from nemo_evaluator.core.errors import BudgetError
from nemo_evaluator.core.types import Message
from nemo_evaluator.models.types import ModelRequest

if TYPE_CHECKING:
    from nemo_evaluator.adapters.stage_stats import TurnStats

# Seconds after which an idle session is forgotten.
_IDLE: Final = 900.0
# With a turn limit, forgetting a session would give its turns back.
_IDLE_BOUNDED: Final = 86_400.0
_SWEEP_INTERVAL: Final = 300.0
# Shares of the turn limit from which the agent is reminded.
_WRAP_UP_AT: Final = 0.80
_FINISH_AT: Final = 0.95


@dataclass(slots=True)
class _TurnSession:
    turns: int
    last_seen: float


@dataclass(eq=False)
class Interceptor(base.Interceptor):
    """Counts turns per session; without ``max_turns`` it only counts."""

    talks = True
    _ended = 0
    every: Positive = 1
    max_turns: int | None = None
    position: Literal["system_message", "user_message"] = "system_message"
    trigger: Literal["threshold", "periodic"] = "threshold"
    interval: Positive = 1

    def __post_init__(self) -> None:
        # The turn from which a request may get a reminder or be refused.
        self._first_reminder = 0.0
        if self.trigger == "threshold":
            self._first_reminder = _WRAP_UP_AT * (self.max_turns or 0)
        self._sessions: dict[str, _TurnSession] = {}
        self._next_sweep = monotonic() + _SWEEP_INTERVAL

    def on_request(self, request: ModelRequest) -> None:
        """Count a turn.

        Raises:
            BudgetError: The session has used up its turns.
        """
        now = monotonic()
        scope = request.scope
        key = (scope.session if scope is not None else "") or self._key_of(request)
        session = self._sessions.get(key)
        if session is None:
            session = self._sessions[key] = _TurnSession(0, now)
        session.turns = turns = session.turns + 1
        session.last_seen = now
        if now > self._next_sweep:
            self._sweep(now)
        most = self.max_turns
        if turns % self.every == 0 and base.log.isEnabledFor(INFO):
            limit = f"/{most}" if most else ""
            base.log.info("session %s: turn %d%s", key, turns, limit)
        if most is None or turns < self._first_reminder:
            return
        if turns > most:
            self._ended += 1
            raise BudgetError(
                f"Turn budget exhausted: {turns - 1}/{most} turns used",
                status=429,
            )
        note = self._reminder(turns, most)
        if note is not None:
            self._remind(request, note)

    def stats(self) -> "TurnStats":
        """The number of sessions, and of requests refused because of the limit."""
        return {"sessions": len(self._sessions), "ended": self._ended}

    def _sweep(self, now: float) -> None:
        """Forget sessions that have been idle for long."""
        self._next_sweep = now + _SWEEP_INTERVAL
        longest_idle = _IDLE if self.max_turns is None else _IDLE_BOUNDED
        active: dict[str, _TurnSession] = {}
        for key, session in self._sessions.items():
            if now - session.last_seen <= longest_idle:
                active[key] = session
        self._sessions = active

    def _key_of(self, request: ModelRequest) -> str:
        """The key of a request without a session: a hash of its first message that is not a system message.

        With a turn limit, all requests of outside agents share one key: an agent could change its first message.
        """
        if self.max_turns is not None and OUTSIDE in request.notes:
            return "outside"
        for message in messages_of(request) or ():
            if message.get("role") != "system":
                text = text_of(message.get("content"))
                return hashlib.sha256(text.encode()).hexdigest()[:8]
        return "unknown"

    def _reminder(self, turn: int, most: int) -> str | None:
        """The text of the reminder for a turn, if that turn gets one."""
        turns_left = most - turn
        if self.trigger == "periodic":
            if turn % self.interval:
                return None
            return f"ENVIRONMENT REMINDER: turn {turn}/{most}, {turns_left} turns left to complete the task."
        if turn >= _FINISH_AT * most:
            return f"Turn {turn}/{most}: {turns_left} turns remain. Give your final answer now."
        if turn >= _WRAP_UP_AT * most:
            return f"Turn {turn}/{most}: {turns_left} turns remain. Begin to wrap up and prepare your final answer."
        return None

    def _remind(self, request: ModelRequest, note: str) -> None:
        """Add a reminder to a request, as a system message or in its last user message."""
        messages = messages_of(request)
        if messages is None:
            return
        if self.position == "system_message":
            text = note if self.trigger == "periodic" else f"[SYSTEM] {note}"
            put_messages(request, [*messages, {"role": "system", "content": text}])
            return
        for index in reversed(range(len(messages))):
            if messages[index].get("role") == "user":
                messages[index] = _with_note(messages[index], note)
                put_messages(request, messages)
                return


def _with_note(message: Message, note: str) -> Message:
    """A copy of a message with a note at the end of its text."""
    content = message.get("content")
    if isinstance(content, str):
        return {**message, "content": f"{content}\n\n{note}"}
    if not isinstance(content, list):
        return {**message, "content": note}
    parts = list(content)
    for index in reversed(range(len(parts))):
        part = parts[index]
        if isinstance(part, dict) and isinstance(part.get("text"), str):
            parts[index] = {**part, "text": f"{part['text']}\n\n{note}"}
            return {**message, "content": parts}
    return {**message, "content": [*parts, {"type": "text", "text": note}]}
