"""The recorded model calls of each step (its "wire calls"), and the counts that reports take from them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import orjson

from nemo_evaluator.core.failures import Cause
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.reports._words import FIELDS

if TYPE_CHECKING:
    from nemo_evaluator.reports._trajectory_document import ExampleGroup

Key: TypeAlias = tuple[int, int]
_EXAMPLES: Final = 5
_ERROR_CHARS: Final = 500
_CAUSE_OF_STATUS: Final = {
    401: Cause.AUTH,
    403: Cause.AUTH,
    404: Cause.NOT_FOUND,
    429: Cause.RATE_LIMIT,
}


@dataclass(frozen=True, slots=True)
class WireCall:
    """One recorded model call.

    Attributes:
        record: The call as the traffic file has it.
    """

    record: JsonDict

    @property
    def session(self) -> str | None:
        """The session in which the call was made; each try of a step has its own."""
        return self.record.get("session_id")

    @property
    def status(self) -> int | None:
        """The HTTP status; None when the call got no response."""
        status = self.record.get("status_code")
        if isinstance(status, int):
            return status
        return None

    @property
    def status_name(self) -> str:
        """The status as text; the type of the error if the call got no response."""
        return str(self.record.get("status_code") or self.record.get("error_type") or "none")

    @property
    def error_type(self) -> str:
        """The type of the error; the status if the error has no type."""
        return str(self.record.get("error_type") or self.status_name)

    @property
    def succeeded(self) -> bool:
        """Whether the call got a response without an error status."""
        return self.status is not None and 200 <= self.status < 400

    @property
    def request_hash(self) -> str:
        """The hash of the request; empty when it was not recorded."""
        return str(self.record.get("request_hash") or "")

    @property
    def tokens(self) -> int:
        """Prompt and completion tokens; 0 for a call that failed."""
        if not self.succeeded:
            return 0
        usage: JsonDict = self.record.get("usage") or {}
        prompt_tokens: int = usage.get("prompt_tokens") or 0
        completion_tokens: int = usage.get("completion_tokens") or 0
        return prompt_tokens + completion_tokens

    @property
    def cause(self) -> Cause | None:
        """The cause of failure that the status implies; None for a call that succeeded."""
        if self.succeeded:
            return None
        if self.status is None or self.status >= 500:
            return Cause.TRANSPORT
        return _CAUSE_OF_STATUS.get(self.status, Cause.REQUEST_REJECTED)


@dataclass(frozen=True, slots=True)
class StepCalls:
    """The calls of one step.

    Attributes:
        every: All calls, in the order in which they were made.
        service: The service that answers problems; empty if unknown.
    """

    every: list[WireCall]
    service: str = ""

    @property
    def last(self) -> list[WireCall]:
        """The calls of the last session, from which the row results; a retried step has earlier sessions."""
        return [call for call in self.every if call.session == self.every[-1].session]

    @property
    def earlier(self) -> list[WireCall]:
        """The calls of sessions before the last one."""
        return [call for call in self.every if call.session != self.every[-1].session]

    @property
    def own(self) -> list[WireCall]:
        """The calls of the last session that a trajectory shows, without those of a judge."""
        if not self.service:
            return self.last
        calls: list[WireCall] = []
        for call in self.last:
            service = call.record.get("service", self.service)
            if service == self.service:
                calls.append(call)
        return calls

    @property
    def sessions(self) -> int:
        """In how many sessions the step was tried."""
        return len({call.session for call in self.every})

    def selections(self) -> dict[str, list[WireCall]]:
        """The selections that a report counts, by the suffix of their counts."""
        return {
            "": self.last,
            "_for_trajectory_comparison": self.own,
            "_all_sessions": self.every,
            "_earlier": self.earlier,
        }


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
        self._offsets: dict[Key, list[int]] = {}
        self.unreadable = 0
        if path.is_file():
            for key, offset in self._scan():
                self._offsets.setdefault(key, []).append(offset)

    def __bool__(self) -> bool:
        return bool(self._offsets)

    def of(self, key: Key) -> StepCalls:
        """Read the calls of one step.

        Args:
            key: The problem and repeat of the step.
        """
        calls: list[WireCall] = []
        if key in self._offsets:
            with self._path.open("rb") as file:
                for offset in self._offsets[key]:
                    file.seek(offset)
                    calls.append(WireCall(orjson.loads(file.readline())))
        return StepCalls(calls, self._service)

    def _scan(self) -> Iterator[tuple[Key, int]]:
        """The step and the file offset of each call."""
        with self._path.open("rb") as file:
            offset = 0
            for line in file:
                key = self._key_of(line)
                if key is not None:
                    yield key, offset
                offset += len(line)

    def _key_of(self, line: bytes) -> Key | None:
        """The step of a recorded call; None for a line that is not one, which is counted if it is not JSON."""
        if not line.strip():
            return None
        try:
            record: Any = orjson.loads(line)
        except orjson.JSONDecodeError:
            self.unreadable += 1
            return None
        if not isinstance(record, dict) or not isinstance(record.get("problem_idx"), int):
            return None
        return record["problem_idx"], record.get("repeat") or 0


def tokens_of(calls: list[WireCall]) -> int:
    """Prompt and completion tokens of the calls that succeeded."""
    return sum(call.tokens for call in calls)


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

    def note(self, row: JsonDict, **marks: object) -> None:
        """Count the problem of a row.

        Args:
            row: The row.
            **marks: Whether each name applies to the row.
        """
        for name, applies in marks.items():
            if applies:
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
        if len(examples) >= _EXAMPLES:
            self._omitted[name, kind] += 1
            return
        example = {"problem_idx": row.get("problem_idx"), "repeat": row.get("repeat") or 0}
        examples.append(example | facts)

    def examples(self, name: str) -> list[JsonDict]:
        """The examples that were kept without a kind."""
        return self._examples[name].get("", [])

    def examples_by_kind(self, name: str) -> dict[str, ExampleGroup]:
        """The examples of each kind, and how many were omitted."""
        entries: dict[str, ExampleGroup] = {}
        for kind, examples in self._examples[name].items():
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
        self._mark_problem(row, calls, steps)
        for suffix, chosen in calls.selections().items():
            self._count_selection(suffix, chosen)
        if calls.sessions > 1:
            self.sums["steps_with_retry_sessions"] += 1
            self.sums["retry_sessions"] += calls.sessions - 1
            self.example("retry_examples", row, sessions=calls.sessions, calls=len(calls.every))
        for call in calls.last:
            if not call.succeeded:
                self._keep_failed(row, call, is_last=call is calls.every[-1])

    def _mark_problem(self, row: JsonDict, calls: StepCalls, steps: int) -> None:
        """Note which peculiarities of calls the problem of a row has."""
        successful = [call for call in calls.own if call.succeeded]
        hashes = [call.request_hash for call in successful if call.request_hash]
        self._unique.update(hashes)
        last_call_failed = False
        if calls.every:
            last_calls = calls.own or calls.last
            last_call_failed = not last_calls[-1].succeeded
        self.note(
            row,
            problems_with_duplicates=len(set(hashes)) < len(hashes),
            problems_with_retry_sessions=calls.sessions > 1,
            problems_with_more_wire_than_steps=len(successful) > steps,
            problems_with_fewer_wire_than_steps=0 < len(successful) < steps,
            problems_with_no_steps=steps == 0,
            problems_with_no_wire=not calls.every,
            problems_silent=steps == 0 and not calls.every,
            problems_with_last_wire_non_200=last_call_failed,
        )

    def _count_selection(self, suffix: str, chosen: list[WireCall]) -> None:
        """Add a selection of calls to the sums whose names have its suffix."""
        failed_statuses = [call.status_name for call in chosen if not call.succeeded]
        self._statuses[suffix].update(failed_statuses)
        self.sums[f"total{suffix}"] += len(chosen)
        self.sums[f"successful{suffix}"] += len(chosen) - len(failed_statuses)
        self.sums[f"non_200{suffix}"] += len(failed_statuses)
        self.sums[f"tokens{suffix}"] += tokens_of(chosen)

    def _keep_failed(self, row: JsonDict, call: WireCall, *, is_last: bool) -> None:
        """Keep a failed call as an example of its status and of its error.

        Args:
            row: The row.
            call: The call.
            is_last: Whether it is the last call of the step.
        """
        facts = {
            "service": call.record.get("service"),
            "status": call.record.get("status_code"),
            "error": str(call.record.get("error_message") or "")[:_ERROR_CHARS],
        }
        self.example("non_200_examples", row, call.status_name, **facts)
        self.example("non_success_examples", row, call.error_type, **facts)
        if is_last:
            self.example("last_non_success_examples", row, call.error_type, **facts)

    def to_dict(self) -> JsonDict:
        """The ``wire_calls`` part of a trajectories report."""
        document: JsonDict = {"selected_session_policy": "last_wire_session"}
        for suffix in ("", "_for_trajectory_comparison", "_all_sessions"):
            for name in ("total", "successful", "non_200"):
                document[name + suffix] = self.sums[name + suffix]
            document[f"non_200_by_status{suffix}"] = dict(self._statuses[suffix])
        document["unique"] = len(self._unique)
        for name in FIELDS["call_counters"]:
            document[name] = len(self.problems[name])
        document["steps_with_retry_sessions"] = self.sums["steps_with_retry_sessions"]
        document["retry_sessions"] = self.sums["retry_sessions"]
        document["earlier_sessions"] = self.sums["total_earlier"]
        document["retry_examples"] = self.examples("retry_examples")
        first_example_of_each_status: list[JsonDict] = []
        for entry in self.examples_by_kind("non_200_examples").values():
            first_example_of_each_status.append(entry["examples"][0])
        document["non_200_examples"] = first_example_of_each_status
        for name in ("non_success_examples", "last_non_success_examples"):
            document[name] = self.examples_by_kind(name)
        return document
