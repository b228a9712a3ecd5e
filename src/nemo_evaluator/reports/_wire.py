"""Model calls on the wire, by step: an index over model_traffic.jsonl that keeps places, not records."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

import orjson

from nemo_evaluator.core.types import JsonDict

Key: TypeAlias = tuple[int, int]


class WireCalls:
    """The calls of each step, in the order they were made; empty when no traffic was kept."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._places: dict[Key, list[int]] = {}
        if path.is_file():
            for key, place in _scan(path):
                self._places.setdefault(key, []).append(place)

    def __bool__(self) -> bool:
        return bool(self._places)

    def of(self, key: Key) -> list[JsonDict]:
        """Every call of a step."""
        places = self._places.get(key)
        if not places:
            return []
        with self._path.open("rb") as file:
            calls = []
            for place in places:
                file.seek(place)
                calls.append(orjson.loads(file.readline()))
            return calls


def last_session(calls: list[JsonDict]) -> list[JsonDict]:
    """The calls of the attempt that the row stands on: a step that was tried again has earlier sessions."""
    return [call for call in calls if call.get("session_id") == calls[-1].get("session_id")] if calls else []


def succeeded(call: JsonDict) -> bool:
    """True for a call that was answered."""
    status = call.get("status_code")
    return isinstance(status, int) and 200 <= status < 400


def _scan(path: Path) -> Iterator[tuple[Key, int]]:
    with path.open("rb") as file:
        place = 0
        for line in file:
            if line.endswith(b"\n") and line.strip():
                record = orjson.loads(line)
                if isinstance(record.get("problem_idx"), int):
                    yield (record["problem_idx"], record.get("repeat") or 0), place
            place += len(line)
