"""Model calls on the wire by step, and what is counted of them."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

import orjson

from nemo_evaluator.core.failures import Cause
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.reports._words import FIELDS

Key: TypeAlias = tuple[int, int]
_EXAMPLES: Final = 5
_ERROR_CHARS: Final = 500
# Selections of the calls of a step, and how the report names what is counted of them.
_SELECTED: Final = {
    "": "last",
    "_for_trajectory_comparison": "own",
    "_all_sessions": "every",
    "_earlier": "earlier",
}


@dataclass(frozen=True, slots=True)
class StepCalls:
    """The calls of one step, in the order they were made; ``service`` is the one that answers, empty if not known."""

    every: list[JsonDict]
    service: str = ""

    @property
    def last(self) -> list[JsonDict]:
        """The calls of the attempt that the row stands on: a step that was tried again has earlier sessions."""
        results: list[dict[str, Any]] = []
        for call in self.every:
            if call.get("session_id") == self.every[-1].get("session_id"):
                results.append(call)
        return results

    @property
    def earlier(self) -> list[JsonDict]:
        results: list[dict[str, Any]] = []
        for call in self.every:
            if call.get("session_id") != self.every[-1].get("session_id"):
                results.append(call)
        return results

    @property
    def own(self) -> list[JsonDict]:
        """Those of the last attempt that a trajectory shows: not the ones of a judge."""
        results: list[dict[str, Any]] = []
        for call in self.last:
            if not self.service or call.get("service", self.service) == self.service:
                results.append(call)
        return results

    @property
    def sessions(self) -> int:
        return len({call.get("session_id") for call in self.every})


class WireCalls:
    """The calls of each step; empty when no traffic was kept. ``unreadable`` lines were torn by a kill."""

    def __init__(self, path: Path, service: str = "") -> None:
        self._path = path
        self._service = service
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
                    if line.strip():
                        record: Any | dict[Any, Any] = orjson.loads(line)
                    else:
                        record = {}
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
    return sum(
        (usage.get("prompt_tokens") or 0) + (usage.get("completion_tokens") or 0)
        for usage in usages
    )


def cause_of(call: JsonDict) -> Cause | None:
    """The boundary that a call broke, by its status; None for one that was answered."""
    if succeeded(call):
        return None
    status = call.get("status_code")
    known = {401: Cause.AUTH, 403: Cause.AUTH, 404: Cause.NOT_FOUND, 429: Cause.RATE_LIMIT}
    if not isinstance(status, int) or status >= 500:
        return Cause.TRANSPORT
    return known.get(status, Cause.REQUEST_REJECTED)


class WireCounts:
    """Sums, problems (not their repeats) and a few examples, by the names that the report has for them."""

    def __init__(self) -> None:
        self.sums: Counter[str] = Counter()
        self.problems: defaultdict[str, set[int]] = defaultdict(set)
        self._examples: defaultdict[str, dict[str, list[JsonDict]]] = defaultdict(dict)
        self._omitted: Counter[tuple[str, str]] = Counter()

    def note(self, row: JsonDict, **found: object) -> None:
        """Count the problem of a row under every name that holds."""
        for name, holds in found.items():
            if holds:
                self.problems[name].add(row.get("problem_idx", -1))

    def example(self, name: str, row: JsonDict, kind: str = "", **facts: Any) -> None:
        """Keep a row as an example, among the first few of its kind."""
        kept = self._examples[name].setdefault(kind, [])
        if len(kept) < _EXAMPLES:
            kept.append(
                {"problem_idx": row.get("problem_idx"), "repeat": row.get("repeat") or 0} | facts
            )
        else:
            self._omitted[name, kind] += 1

    def examples(self, name: str) -> list[JsonDict]:
        return self._examples[name].get("", [])

    def examples_by_kind(self, name: str) -> JsonDict:
        """The examples of each kind, and how many more there were."""
        found = self._examples[name].items()
        mapping: dict[str, Any] = {}
        for kind, kept in found:
            mapping[kind] = {"examples": kept, "omitted_examples": self._omitted[name, kind]}
        return mapping


class CallAccount(WireCounts):
    """Counts over the calls of one benchmark."""

    def __init__(self) -> None:
        super().__init__()
        self._unique: set[str] = set()
        self._statuses: defaultdict[str, Counter[str]] = defaultdict(Counter)

    def add(self, row: JsonDict, calls: StepCalls, steps: int) -> None:
        """Count the calls of a row whose trajectory has so many turns."""
        answered = [call for call in calls.own if succeeded(call)]
        hashes = [str(call["request_hash"]) for call in answered if call.get("request_hash")]
        self._unique.update(hashes)
        self.note(
            row,
            problems_with_duplicates=len(set(hashes)) < len(hashes),
            problems_with_retry_sessions=calls.sessions > 1,
            problems_with_more_wire_than_steps=len(answered) > steps,
            problems_with_fewer_wire_than_steps=0 < len(answered) < steps,
            problems_with_no_steps=not steps,
            problems_with_no_wire=not calls.every,
            problems_silent=not steps and not calls.every,
            problems_with_last_wire_non_200=calls.every
            and not succeeded((calls.own or calls.last)[-1]),
        )
        for suffix, selection in _SELECTED.items():
            chosen: list[JsonDict] = getattr(calls, selection)
            failed = [_status(call) for call in chosen if not succeeded(call)]
            found = {
                "total": len(chosen),
                "successful": len(chosen) - len(failed),
                "non_200": len(failed),
            }
            self.sums.update({f"{name}{suffix}": count for name, count in found.items()})
            self.sums[f"tokens{suffix}"] += tokens_of(chosen)
            self._statuses[suffix].update(failed)
        if calls.sessions > 1:
            self.sums.update(steps_with_retry_sessions=1, retry_sessions=calls.sessions - 1)
            self.example("retry_examples", row, sessions=calls.sessions, calls=len(calls.every))
        for call in calls.last:
            if not succeeded(call):
                said = str(call.get("error_message") or "")[:_ERROR_CHARS]
                status = _status(call)
                facts = {
                    "service": call.get("service"),
                    "status": call.get("status_code"),
                    "error": said,
                }
                self.example("non_200_examples", row, status, **facts)
                self.example(
                    "non_success_examples", row, str(call.get("error_type") or status), **facts
                )
                if call is calls.every[-1]:
                    self.example(
                        "last_non_success_examples",
                        row,
                        str(call.get("error_type") or status),
                        **facts,
                    )

    def to_dict(self) -> JsonDict:
        """The ``wire_calls`` of an entry."""
        found: JsonDict = {"selected_session_policy": "last_wire_session"}
        for suffix in ("", "_for_trajectory_comparison", "_all_sessions"):
            for name in ("total", "successful", "non_200"):
                found[name + suffix] = self.sums[name + suffix]
            found[f"non_200_by_status{suffix}"] = dict(self._statuses[suffix])
        by_status = self.examples_by_kind("non_200_examples").values()
        return found | {
            "unique": len(self._unique),
            **{name: len(self.problems[name]) for name in FIELDS["call_counters"]},
            **{name: self.sums[name] for name in ("steps_with_retry_sessions", "retry_sessions")},
            "earlier_sessions": self.sums["total_earlier"],
            "retry_examples": self.examples("retry_examples"),
            "non_200_examples": [one["examples"][0] for one in by_status],
            **{
                name: self.examples_by_kind(name)
                for name in ("non_success_examples", "last_non_success_examples")
            },
        }


def _status(call: JsonDict) -> str:
    return str(call.get("status_code") or call.get("error_type") or "none")
