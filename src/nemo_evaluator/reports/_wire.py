"""The recorded model calls of each step (its "wire calls"), and the counts that reports take from them."""

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
# The properties of StepCalls that are counted, by the suffix of their counts in the report.
_SELECTED: Final = {
    "": "last",
    "_for_trajectory_comparison": "own",
    "_all_sessions": "every",
    "_earlier": "earlier",
}


@dataclass(frozen=True, slots=True)
class StepCalls:
    """The calls of one step.

    Attributes:
        every: All calls, in the order in which they were made.
        service: The service that answers problems; empty if unknown.
    """

    every: list[JsonDict]
    service: str = ""

    @property
    def last(self) -> list[JsonDict]:
        """The calls of the last session, from which the row results; a retried step has earlier sessions."""
        calls: list[dict[str, Any]] = []
        for call in self.every:
            if call.get("session_id") == self.every[-1].get("session_id"):
                calls.append(call)
        return calls

    @property
    def earlier(self) -> list[JsonDict]:
        """The calls of sessions before the last one."""
        calls: list[dict[str, Any]] = []
        for call in self.every:
            if call.get("session_id") != self.every[-1].get("session_id"):
                calls.append(call)
        return calls

    @property
    def own(self) -> list[JsonDict]:
        """The calls of the last session that a trajectory shows, without those of a judge."""
        calls: list[dict[str, Any]] = []
        for call in self.last:
            if not self.service or call.get("service", self.service) == self.service:
                calls.append(call)
        return calls

    @property
    def sessions(self) -> int:
        """In how many sessions the step was tried."""
        return len({call.get("session_id") for call in self.every})


class WireCalls:
    """The recorded calls of each step of a task; empty when no traffic was recorded.

    Attributes:
        unreadable: Number of lines that are not valid JSON, such as the last line of a killed run.
    """

    def __init__(self, path: Path, service: str = "") -> None:
        """Index the file of traffic by step.

        Args:
            path: The file; it may be missing.
            service: The service that answers problems; empty if unknown.
        """
        self._path = path
        self._service = service
        self._places: dict[Key, list[int]] = {}
        self.unreadable = 0
        if path.is_file():
            for key, offset in self._scan():
                self._places.setdefault(key, []).append(offset)

    def __bool__(self) -> bool:
        return bool(self._places)

    def of(self, key: Key) -> StepCalls:
        """Read the calls of one step.

        Args:
            key: The problem and repeat of the step.
        """
        calls: list[JsonDict] = []
        if key in self._places:
            with self._path.open("rb") as file:
                for offset in self._places[key]:
                    file.seek(offset)
                    calls.append(orjson.loads(file.readline()))
        return StepCalls(calls, self._service)

    def _scan(self) -> Iterator[tuple[Key, int]]:
        """The step and the file offset of each call."""
        with self._path.open("rb") as file:
            offset = 0
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
                    yield (record["problem_idx"], record.get("repeat") or 0), offset
                offset += len(line)


def succeeded(call: JsonDict) -> bool:
    """Whether the call got a response without an error status."""
    status = call.get("status_code")
    return isinstance(status, int) and 200 <= status < 400


def tokens_of(calls: list[JsonDict]) -> int:
    """Prompt and completion tokens of the calls that succeeded."""
    usages = [call.get("usage") or {} for call in calls if succeeded(call)]
    return sum(
        (usage.get("prompt_tokens") or 0) + (usage.get("completion_tokens") or 0)
        for usage in usages
    )


def cause_of(call: JsonDict) -> Cause | None:
    """The cause of failure that the status of a call implies; None for a call that succeeded."""
    if succeeded(call):
        return None
    status = call.get("status_code")
    cause_of_status = {
        401: Cause.AUTH,
        403: Cause.AUTH,
        404: Cause.NOT_FOUND,
        429: Cause.RATE_LIMIT,
    }
    if not isinstance(status, int) or status >= 500:
        return Cause.TRANSPORT
    return cause_of_status.get(status, Cause.REQUEST_REJECTED)


class WireCounts:
    """Sums, sets of problems and a few examples, by their names in the report.

    Attributes:
        sums: The sums.
        problems: For each name, the problems that it applies to; repeats are not counted separately.
    """

    def __init__(self) -> None:
        self.sums: Counter[str] = Counter()
        self.problems: defaultdict[str, set[int]] = defaultdict(set)
        self._examples: defaultdict[str, dict[str, list[JsonDict]]] = defaultdict(dict)
        self._omitted: Counter[tuple[str, str]] = Counter()

    def note(self, row: JsonDict, **found: object) -> None:
        """Count the problem of a row.

        Args:
            row: The row.
            **found: Whether each name applies to the row.
        """
        for name, holds in found.items():
            if holds:
                self.problems[name].add(row.get("problem_idx", -1))

    def example(self, name: str, row: JsonDict, kind: str = "", **facts: Any) -> None:
        """Keep a row as an example, if few of its kind have been kept; otherwise count it as omitted.

        Args:
            name: The name of the examples in the report.
            row: The row.
            kind: Examples are limited per kind.
            **facts: Further fields of the example.
        """
        examples = self._examples[name].setdefault(kind, [])
        if len(examples) < _EXAMPLES:
            examples.append(
                {"problem_idx": row.get("problem_idx"), "repeat": row.get("repeat") or 0} | facts
            )
        else:
            self._omitted[name, kind] += 1

    def examples(self, name: str) -> list[JsonDict]:
        """The examples that were kept without a kind."""
        return self._examples[name].get("", [])

    def examples_by_kind(self, name: str) -> JsonDict:
        """The examples of each kind, and how many were omitted."""
        examples_of_kind = self._examples[name].items()
        entries: dict[str, Any] = {}
        for kind, examples in examples_of_kind:
            entries[kind] = {"examples": examples, "omitted_examples": self._omitted[name, kind]}
        return entries


class CallAccount(WireCounts):
    """Counts over the recorded calls of one benchmark."""

    def __init__(self) -> None:
        super().__init__()
        self._unique: set[str] = set()
        self._statuses: defaultdict[str, Counter[str]] = defaultdict(Counter)

    def add(self, row: JsonDict, calls: StepCalls, steps: int) -> None:
        """Count the calls of one row.

        Args:
            row: The row.
            calls: Its recorded calls.
            steps: How many turns its trajectory has.
        """
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
            counts = {
                "total": len(chosen),
                "successful": len(chosen) - len(failed),
                "non_200": len(failed),
            }
            self.sums.update({f"{name}{suffix}": count for name, count in counts.items()})
            self.sums[f"tokens{suffix}"] += tokens_of(chosen)
            self._statuses[suffix].update(failed)
        if calls.sessions > 1:
            self.sums.update(steps_with_retry_sessions=1, retry_sessions=calls.sessions - 1)
            self.example("retry_examples", row, sessions=calls.sessions, calls=len(calls.every))
        for call in calls.last:
            if not succeeded(call):
                error_message = str(call.get("error_message") or "")[:_ERROR_CHARS]
                status = _status(call)
                facts = {
                    "service": call.get("service"),
                    "status": call.get("status_code"),
                    "error": error_message,
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
        """The ``wire_calls`` part of a trajectories report."""
        document: JsonDict = {"selected_session_policy": "last_wire_session"}
        for suffix in ("", "_for_trajectory_comparison", "_all_sessions"):
            for name in ("total", "successful", "non_200"):
                document[name + suffix] = self.sums[name + suffix]
            document[f"non_200_by_status{suffix}"] = dict(self._statuses[suffix])
        by_status = self.examples_by_kind("non_200_examples").values()
        return document | {
            "unique": len(self._unique),
            **{name: len(self.problems[name]) for name in FIELDS["call_counters"]},
            **{name: self.sums[name] for name in ("steps_with_retry_sessions", "retry_sessions")},
            "earlier_sessions": self.sums["total_earlier"],
            "retry_examples": self.examples("retry_examples"),
            "non_200_examples": [entry["examples"][0] for entry in by_status],
            **{
                name: self.examples_by_kind(name)
                for name in ("non_success_examples", "last_non_success_examples")
            },
        }


def _status(call: JsonDict) -> str:
    """The status of a call as text; the type of its error if it got no response."""
    return str(call.get("status_code") or call.get("error_type") or "none")
