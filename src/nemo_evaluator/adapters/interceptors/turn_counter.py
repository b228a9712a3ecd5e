"""``turn_counter``: counts the turns of a session, reminds the agent, and ends it when its turns are used up."""

import hashlib
from dataclasses import dataclass
from logging import INFO
from time import monotonic
from typing import Any, Literal

from nemo_evaluator.adapters import base
from nemo_evaluator.adapters._bodies import messages_of, put_messages, text_of
from nemo_evaluator.adapters.base import OUTSIDE
from nemo_evaluator.config.fields import Positive
from nemo_evaluator.core.errors import BudgetError
from nemo_evaluator.core.types import JsonDict, Message
from nemo_evaluator.models.types import ModelRequest

_IDLE = 900.0
# With a bound, forgetting a session would give its turns back.
_IDLE_BOUNDED = 86_400.0
_SWEEP = 300.0


@dataclass(slots=True)
class _TurnSession:
    turns: int
    seen_at: float


@dataclass(eq=False)
class Interceptor(base.Interceptor):
    """Counts per session; without ``max_turns`` it only counts."""

    talks = True
    _ended = 0
    every: Positive = 1
    max_turns: int | None = None
    position: Literal["system_message", "user_message"] = "system_message"
    trigger: Literal["threshold", "periodic"] = "threshold"
    interval: Positive = 1

    def __post_init__(self) -> None:
        if self.trigger == "threshold":
            self._speaks_from: float = 0.8 * (self.max_turns or 0)
        else:
            self._speaks_from = 0.0
        self._sessions: dict[str, _TurnSession] = {}
        self._swept = monotonic()

    async def on_request(self, request: ModelRequest) -> None:
        now = monotonic()
        scope = request.scope
        key = (scope.session if scope is not None else "") or self._key_of(request)
        session = self._sessions.get(key)
        if session is None:
            session = self._sessions[key] = _TurnSession(0, now)
        session.turns += 1
        session.seen_at = now
        if now - self._swept > _SWEEP:
            self._sweep(now)
        if session.turns % self.every == 0 and base.log.isEnabledFor(INFO):
            base.log.info(
                "session %s: turn %d%s",
                key,
                session.turns,
                f"/{self.max_turns}" if self.max_turns else "",
            )
        if self.max_turns is None or session.turns < self._speaks_from:
            return
        if session.turns > self.max_turns:
            self._ended += 1
            raise BudgetError(
                f"Turn budget exhausted: {session.turns - 1}/{self.max_turns} turns used",
                status=429,
            )
        note = self._reminder(session.turns, self.max_turns)
        if note is not None:
            self._remind(request, note)

    def stats(self) -> JsonDict:
        return {"sessions": len(self._sessions), "ended": self._ended}

    def _sweep(self, now: float) -> None:
        self._swept = now
        idle = _IDLE if self.max_turns is None else _IDLE_BOUNDED
        self._sessions = {key: s for key, s in self._sessions.items() if now - s.seen_at <= idle}

    def _key_of(self, request: ModelRequest) -> str:
        """A session for a request that has none: by its first message that is not a system message. Where turns are
        bounded, requests of outside agents count together: a first message is theirs to change."""
        if self.max_turns is not None and OUTSIDE in request.notes:
            return "outside"
        said: list[dict[str, Any]] = []
        for message in messages_of(request) or ():
            if message.get("role") != "system":
                said.append(message)
        if said:
            return hashlib.sha256(text_of(said[0].get("content")).encode()).hexdigest()[:8]
        return "unknown"

    def _reminder(self, turn: int, most: int) -> str | None:
        left = most - turn
        if self.trigger == "periodic":
            if turn % self.interval:
                return None
            return (
                f"ENVIRONMENT REMINDER: turn {turn}/{most}, {left} turns left to complete the task."
            )
        if turn >= 0.95 * most:
            return f"Turn {turn}/{most}: {left} turns remain. Give your final answer now."
        if turn >= 0.80 * most:
            return f"Turn {turn}/{most}: {left} turns remain. Begin to wrap up and prepare your final answer."
        return None

    def _remind(self, request: ModelRequest, note: str) -> None:
        messages = messages_of(request)
        if messages is None:
            return
        if self.position == "system_message":
            text = note if self.trigger == "periodic" else f"[SYSTEM] {note}"
            put_messages(request, [*messages, {"role": "system", "content": text}])
            return
        for number in range(len(messages) - 1, -1, -1):
            if messages[number].get("role") == "user":
                messages[number] = _with_note(messages[number], note)
                put_messages(request, messages)
                return


def _with_note(message: Message, note: str) -> Message:
    content = message.get("content")
    if isinstance(content, str):
        return {**message, "content": f"{content}\n\n{note}"}
    if not isinstance(content, list):
        return {**message, "content": note}
    parts = list(content)
    for number in range(len(parts) - 1, -1, -1):
        part = parts[number]
        if isinstance(part, dict) and isinstance(part.get("text"), str):
            parts[number] = {**part, "text": f"{part['text']}\n\n{note}"}
            return {**message, "content": parts}
    return {**message, "content": [*parts, {"type": "text", "text": note}]}
