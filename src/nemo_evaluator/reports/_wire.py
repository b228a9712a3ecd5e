"""Model calls on the wire, by step: an index over model_traffic.jsonl that keeps places, not records."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import orjson

from nemo_evaluator.core.failures import Cause
from nemo_evaluator.core.types import JsonDict

Key: TypeAlias = tuple[int, int]


@dataclass(frozen=True, slots=True)
class StepCalls:
    """The calls of one step, in the order they were made; ``service`` is the one that answers, empty if not known."""

    every: list[JsonDict]
    service: str = ""

    @property
    def last(self) -> list[JsonDict]:
        """The calls of the attempt that the row stands on: a step that was tried again has earlier sessions."""
        return [call for call in self.every if call.get("session_id") == self.every[-1].get("session_id")]

    @property
    def earlier(self) -> list[JsonDict]:
        """The calls of earlier attempts."""
        return [call for call in self.every if call.get("session_id") != self.every[-1].get("session_id")]

    @property
    def own(self) -> list[JsonDict]:
        """Those of the last attempt that a trajectory shows: not the ones of a judge."""
        return [call for call in self.last if not self.service or call.get("service", self.service) == self.service]

    @property
    def sessions(self) -> int:
        """How often the step was tried."""
        return len({call.get("session_id") for call in self.every})


class WireCalls:
    """The calls of each step; empty when no traffic was kept. ``unreadable`` lines were torn by a kill."""

    def __init__(self, path: Path, service: str = "") -> None:
        self._path, self._service = path, service
        self._places: dict[Key, list[int]] = {}
        self.unreadable = 0
        if path.is_file():
            for key, place in self._scan():
                self._places.setdefault(key, []).append(place)

    def __bool__(self) -> bool:
        return bool(self._places)

    def of(self, key: Key) -> StepCalls:
        """Every call of a step."""
        places = self._places.get(key, [])
        calls = []
        if places:
            with self._path.open("rb") as file:
                for place in places:
                    file.seek(place)
                    calls.append(orjson.loads(file.readline()))
        return StepCalls(calls, self._service)

    def _scan(self) -> Iterator[tuple[Key, int]]:
        with self._path.open("rb") as file:
            place = 0
            for line in file:
                try:
                    record = orjson.loads(line) if line.strip() else {}
                except orjson.JSONDecodeError:
                    self.unreadable += 1
                    record = {}
                if isinstance(record, dict) and isinstance(record.get("problem_idx"), int):
                    yield (record["problem_idx"], record.get("repeat") or 0), place
                place += len(line)


def succeeded(call: JsonDict) -> bool:
    """True for a call that was answered."""
    status = call.get("status_code")
    return isinstance(status, int) and 200 <= status < 400


def tokens_of(calls: list[JsonDict]) -> int:
    """Prompt and completion tokens of the calls that were answered."""
    usages = [call.get("usage") or {} for call in calls if succeeded(call)]
    return sum((usage.get("prompt_tokens") or 0) + (usage.get("completion_tokens") or 0) for usage in usages)


def cause_of(call: JsonDict) -> Cause | None:
    """The boundary that a call broke, by its status; None for one that was answered."""
    if succeeded(call):
        return None
    status = call.get("status_code")
    known = {401: Cause.AUTH, 403: Cause.AUTH, 404: Cause.NOT_FOUND, 429: Cause.RATE_LIMIT}
    if not isinstance(status, int) or status >= 500:
        return Cause.TRANSPORT
    return known.get(status, Cause.REQUEST_REJECTED)
