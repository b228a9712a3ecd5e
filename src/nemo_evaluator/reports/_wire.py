"""Model calls on the wire by step, and whether the trajectories show the same."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

import orjson

from nemo_evaluator.core.failures import Cause
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.reports._fields import FIELDS

Key: TypeAlias = tuple[int, int]
_EXAMPLES: Final = 5
_ERROR_CHARS: Final = 500


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
        return [call for call in self.every if call.get("session_id") != self.every[-1].get("session_id")]

    @property
    def own(self) -> list[JsonDict]:
        """Those of the last attempt that a trajectory shows: not the ones of a judge."""
        return [call for call in self.last if not self.service or call.get("service", self.service) == self.service]

    @property
    def sessions(self) -> int:
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
        calls: list[JsonDict] = []
        if key in self._places:
            with self._path.open("rb") as file:
                for place in self._places[key]:
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


@dataclass(slots=True)
class Examples:
    """A few of a kind, and how many more there were."""

    kept: list[JsonDict] = field(default_factory=list)
    omitted: int = 0

    def add(self, row: JsonDict, **facts: Any) -> None:
        if len(self.kept) < _EXAMPLES:
            self.kept.append(_step(row) | facts)
        else:
            self.omitted += 1

    def to_dict(self) -> JsonDict:
        return {"examples": self.kept, "omitted_examples": self.omitted}


@dataclass(slots=True)
class _Tally:
    """Calls of one selection."""

    total: int = 0
    successful: int = 0
    tokens: int = 0
    statuses: Counter[str] = field(default_factory=Counter)

    def add(self, calls: list[JsonDict]) -> None:
        self.total += len(calls)
        self.successful += sum(map(succeeded, calls))
        self.tokens += tokens_of(calls)
        self.statuses.update(_status(call) for call in calls if not succeeded(call))

    def to_dict(self, suffix: str) -> JsonDict:
        return {
            f"total{suffix}": self.total,
            f"successful{suffix}": self.successful,
            f"non_200{suffix}": self.total - self.successful,
            f"non_200_by_status{suffix}": dict(self.statuses),
        }


class CallAccount:
    """Counts over the calls of one benchmark."""

    def __init__(self) -> None:
        self.last, self.own, self.every, self.earlier = _Tally(), _Tally(), _Tally(), _Tally()
        self._unique: set[str] = set()
        self._retried = self._retry_sessions = 0
        # By counter name, the problems it counts.
        self._problems: defaultdict[str, set[int]] = defaultdict(set)
        self._by_status: dict[str, JsonDict] = {}
        self._failed: defaultdict[str, Examples] = defaultdict(Examples)
        self._failed_last: defaultdict[str, Examples] = defaultdict(Examples)
        self._retries = Examples()

    def add(self, row: JsonDict, calls: StepCalls, steps: int) -> None:
        """Count the calls of a row whose trajectory has so many turns."""
        problem = row.get("problem_idx", -1)
        self._compare(problem, calls, steps)
        if not calls.every:
            return
        tallies = self.every, self.last, self.own, self.earlier
        for tally, chosen in zip(tallies, (calls.every, calls.last, calls.own, calls.earlier), strict=True):
            tally.add(chosen)
        self._errors(row, calls)
        hashes = [str(call.get("request_hash")) for call in calls.own if succeeded(call) and call.get("request_hash")]
        self._unique.update(hashes)
        if len(set(hashes)) < len(hashes):
            self._problems["problems_with_duplicates"].add(problem)
        if calls.sessions > 1:
            self._retried += 1
            self._retry_sessions += calls.sessions - 1
            self._problems["problems_with_retry_sessions"].add(problem)
            self._retries.add(row, sessions=calls.sessions, calls=len(calls.every))

    def _compare(self, problem: int, calls: StepCalls, steps: int) -> None:
        answered = sum(map(succeeded, calls.own))
        found = {
            "problems_with_more_wire_than_steps": answered > steps,
            "problems_with_fewer_wire_than_steps": 0 < answered < steps,
            "problems_with_no_steps": not steps,
            "problems_with_no_wire": not calls.every,
            "problems_silent": not steps and not calls.every,
            "problems_with_last_wire_non_200": bool(calls.every) and not succeeded((calls.own or calls.last)[-1]),
        }
        for name, holds in found.items():
            if holds:
                self._problems[name].add(problem)

    def _errors(self, row: JsonDict, calls: StepCalls) -> None:
        chosen = calls.last
        for call in chosen:
            if succeeded(call):
                continue
            said, status = str(call.get("error_message") or "")[:_ERROR_CHARS], _status(call)
            facts = {"service": call.get("service"), "status": call.get("status_code"), "error": said}
            kind = str(call.get("error_type") or status)
            self._by_status.setdefault(status, _step(row) | facts)
            self._failed[kind].add(row, **facts)
            if call is chosen[-1]:
                self._failed_last[kind].add(row, **facts)

    def to_dict(self) -> JsonDict:
        """The ``wire_calls`` of an entry."""
        return {
            "selected_session_policy": "last_wire_session",
            **self.last.to_dict(""),
            **self.own.to_dict("_for_trajectory_comparison"),
            **self.every.to_dict("_all_sessions"),
            "unique": len(self._unique),
            **{name: len(self._problems[name]) for name in FIELDS["call_counters"]},
            "steps_with_retry_sessions": self._retried,
            "retry_sessions": self._retry_sessions,
            "earlier_sessions": self.earlier.total,
            "retry_examples": self._retries.kept,
            "non_200_examples": list(self._by_status.values()),
            "non_success_examples": {kind: found.to_dict() for kind, found in self._failed.items()},
            "last_non_success_examples": {kind: found.to_dict() for kind, found in self._failed_last.items()},
        }


def _step(row: JsonDict) -> JsonDict:
    return {"problem_idx": row.get("problem_idx"), "repeat": row.get("repeat") or 0}


def _status(call: JsonDict) -> str:
    return str(call.get("status_code") or call.get("error_type") or "none")
