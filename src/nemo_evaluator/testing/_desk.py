"""What a scripted server knows and counts, as its connections use it."""

import asyncio
import hashlib
from collections import Counter, deque
from collections.abc import Collection, Mapping
from typing import Any, Final, Protocol

from nemo_evaluator.testing.script import Playbook, Script, Seen, Weather

_POSTS: Final = ("/chat/completions", "/completions", "/embeddings", "/responses", "/messages")


class Caller(Protocol):
    """A connection, as the server sees it."""

    def drop(self) -> None:
        """Close without ceremony."""


class Desk:
    """The script, the rules of access, the requests so far."""

    def __init__(
        self,
        script: Script,
        answers: Mapping[str, str] | None,
        weather: Weather | None,
        api_key: str | None,
        models: Collection[str],
        record: int,
    ) -> None:
        self.book = Playbook(script, answers)
        self.weather = weather or Weather()
        self.api_key = api_key
        self.models = frozenset(models)
        self.requests: deque[Seen] = deque(maxlen=record)
        self.recording = record > 0
        self.counts: Counter[str] = Counter()
        self.statuses: Counter[str] = Counter()
        self.count = 0
        self.in_flight = 0
        self.max_in_flight = 0
        self.cancelled = 0
        self.connections: set[Caller] = set()
        self.loop: asyncio.AbstractEventLoop

    @property
    def duplicates(self) -> dict[str, int]:
        """Digests of the bodies that arrived more than once."""
        return {digest: seen for digest, seen in self.counts.items() if seen > 1}

    def note(self, seen: Seen) -> None:
        """Remember a request."""
        self.requests.append(seen)
        self.counts[hashlib.blake2b(seen.path.encode() + seen.raw, digest_size=16).hexdigest()] += 1

    def knows(self, path: str) -> bool:
        """Whether a path is one the server answers to POST."""
        return path.endswith(_POSTS)

    def stats(self) -> dict[str, Any]:
        """Counts as one JSON object; the server gives it at ``/stats``."""
        return {
            "requests": self.count,
            "statuses": dict(self.statuses),
            "max_in_flight": self.max_in_flight,
            "cancelled": self.cancelled,
            "distinct": len(self.counts),
            "duplicates": len(self.duplicates),
        }
