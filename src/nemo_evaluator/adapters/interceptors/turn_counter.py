"""``turn_counter``: counts the turns of a session, reminds the agent, and ends it when its turns are used up."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from logging import INFO
from time import monotonic
from typing import Final

from nemo_evaluator.adapters import base
from nemo_evaluator.adapters._log import log
from nemo_evaluator.adapters._messages import messages_of, put_messages, text_of
from nemo_evaluator.adapters.base import OUTSIDE
from nemo_evaluator.core.errors import BudgetError, UsageError
from nemo_evaluator.core.kinds import Kind
from nemo_evaluator.core.types import JsonDict, Message
from nemo_evaluator.models.types import ModelReply, ModelRequest

_IDLE = 900.0
# With a bound, forgetting a session would give its turns back.
_IDLE_BOUNDED = 86_400.0
_SWEEP = 300.0


@dataclass(slots=True)
class _Session:
    turns: int
    seen_at: float


class Interceptor(base.Interceptor):
    """Counts per session; without ``max_turns`` it only counts."""

    talks = True

    def __init__(
        self,
        every: int = 1,
        max_turns: int | None = None,
        position: str = "system_message",
        trigger: str = "threshold",
        interval: int = 1,
    ) -> None:
        if position not in ("system_message", "user_message"):
            raise UsageError(f"unknown position {position!r} of turn_counter", hint="system_message or user_message")
        if trigger not in ("threshold", "periodic"):
            raise UsageError(f"unknown trigger {trigger!r} of turn_counter", hint="threshold or periodic")
        if interval < 1 or every < 1:
            raise UsageError("interval and every of turn_counter are at least 1")
        self._every = every
        self._max = max_turns
        self._position = position
        self._trigger = trigger
        self._interval = interval
        self._speaks_from = 0.8 * (max_turns or 0) if trigger == "threshold" else 0.0
        self._sessions: dict[str, _Session] = {}
        self._swept = monotonic()
        self._ended = 0

    async def on_request(self, request: ModelRequest) -> ModelReply | None:
        """Count, remind, or end."""
        now = monotonic()
        scope = request.scope
        key = (scope.session if scope is not None else "") or self._key_of(request)
        session = self._sessions.get(key)
        if session is None:
            session = self._sessions[key] = _Session(0, now)
        session.turns += 1
        session.seen_at = now
        if now - self._swept > _SWEEP:
            self._sweep(now)
        if session.turns % self._every == 0 and log.isEnabledFor(INFO):
            log.info("session %s: turn %d%s", key, session.turns, f"/{self._max}" if self._max else "")
        if self._max is None or session.turns < self._speaks_from:
            return None
        if session.turns > self._max:
            self._ended += 1
            raise BudgetError(f"Turn budget exhausted: {session.turns - 1}/{self._max} turns used", status=429)
        note = self._reminder(session.turns, self._max)
        if note is not None:
            self._remind(request, note)
        return None

    def stats(self) -> JsonDict:
        """Sessions seen lately and sessions that were ended."""
        return {"sessions": len(self._sessions), "ended": self._ended}

    def _sweep(self, now: float) -> None:
        self._swept = now
        idle = _IDLE if self._max is None else _IDLE_BOUNDED
        self._sessions = {key: s for key, s in self._sessions.items() if now - s.seen_at <= idle}

    def _key_of(self, request: ModelRequest) -> str:
        """A session for a request that has none: by its first message that is not a system message.

        Where turns are bounded, requests of outside agents count together: a first message is theirs to change.
        """
        return "outside" if self._max is not None and OUTSIDE in request.notes else _key_of_messages(request)

    def _reminder(self, turn: int, most: int) -> str | None:
        left = most - turn
        if self._trigger == "periodic":
            if turn % self._interval:
                return None
            return f"ENVIRONMENT REMINDER: turn {turn}/{most}, {left} turns left to complete the task."
        if turn >= 0.95 * most:
            return f"Turn {turn}/{most}: {left} turns remain. Give your final answer now."
        if turn >= 0.80 * most:
            return f"Turn {turn}/{most}: {left} turns remain. Begin to wrap up and prepare your final answer."
        return None

    def _remind(self, request: ModelRequest, note: str) -> None:
        messages = messages_of(request)
        if messages is None:
            return
        if self._position == "system_message":
            text = note if self._trigger == "periodic" else f"[SYSTEM] {note}"
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


def _key_of_messages(request: ModelRequest) -> str:
    for message in messages_of(request) or ():
        if message.get("role") != "system":
            return hashlib.sha256(text_of(message.get("content")).encode()).hexdigest()[:8]
    return "unknown"


KIND: Final = Kind(build=Interceptor)
