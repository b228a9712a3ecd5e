"""The steps of an agent: the fields that trajectories lack, and those that recorded traffic adds to them
(``trajectories_enriched.jsonl``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from nemo_evaluator.core.files import dumps, replacing
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.reports._wire import WireCall, WireCalls, WireCounts
from nemo_evaluator.reports._words import FIELDS
from nemo_evaluator.runs.row_file import read_trajectories
from nemo_evaluator.store.layout import TaskPaths

if TYPE_CHECKING:
    from nemo_evaluator.reports._trajectory_document import (
        EnrichmentEntry,
        MissingField,
        QualityEntry,
    )

ENRICHED: Final = "trajectories_enriched.jsonl"
# The fields that a call can add to a step, by the part of the step they belong to, with their names in the call.
_MESSAGE: Final = {"message": "message_content", "reasoning_content": "reasoning_content"}
_STEP: Final = {"timestamp": "timestamp", "model_name": "model", **_MESSAGE}
_STEP_EXTRA: Final = {"status_code": "status_code"}
_COST: Final = {"cost_usd": "cost_usd"}
_USAGE: Final = {name: name for name in ("prompt_tokens", "completion_tokens")}
_USAGE_EXTRA: Final = {name: name for name in ("total_tokens", "cached_tokens", "reasoning_tokens")}
_CALL_EXTRA: Final = {name: name for name in ("latency_ms", "finish_reason")}
_FILLED: Final = (*_STEP, *_STEP_EXTRA, *_USAGE, *_COST, *_USAGE_EXTRA, *_CALL_EXTRA, "tool_calls")
# Categories that do not state a cause.
_VAGUE: Final = frozenset({"", "model_error", "empty_response"})


class CallMatch(Enum):
    """How the recorded calls of a row relate to the turns of its trajectory."""

    SPLICED = "one call for each turn, whose fields were added to the turns"
    STASHED = "another number of calls than turns; the calls were stored next to the turns"
    NO_CALLS = "no call that succeeded"


def agent_steps(row: JsonDict) -> list[JsonDict]:
    """The model's turns in the first trajectory of a row."""
    trajectories = row.get("trajectory")
    if not trajectories:
        return []
    steps = trajectories[0].get("steps") or []
    return [step for step in steps if step.get("source") == "agent"]


@dataclass(slots=True)
class Presence:
    """How often each field of a set is present, and how often it is present but empty.

    Attributes:
        fields: The names of the fields.
        total: How many mappings were counted.
        absent: How often each field was absent.
        empty: How often each field was present but empty.
    """

    fields: list[str]
    total: int = 0
    absent: Counter[str] = field(default_factory=Counter)
    empty: Counter[str] = field(default_factory=Counter)

    def add(self, values: Mapping[str, Any], *, may_be_empty: str = "") -> None:
        """Count the fields of one mapping.

        Args:
            values: The mapping.
            may_be_empty: A field that is not counted when it is empty.
        """
        self.total += 1
        for name in self.fields:
            value = values.get(name)
            if value is None:
                self.absent[name] += 1
            elif value in ("", [], {}) and name != may_be_empty:
                self.empty[name] += 1

    def missing(self) -> list[MissingField]:
        """One entry for each field that was ever absent or empty."""
        entries: list[MissingField] = []
        for name in self.fields:
            if not self.absent[name] and not self.empty[name]:
                continue
            present = self.total - self.absent[name]
            entry: MissingField = {"field": name, "presence": f"{present}/{self.total}"}
            if self.empty[name]:
                entry["empty"] = self.empty[name]
            entries.append(entry)
        return entries


class StepQuality(WireCounts):
    """Token counts and missing fields of all turns."""

    def __init__(self) -> None:
        super().__init__()
        self.trials = Presence(FIELDS["trial"])
        self.turns = Presence(FIELDS["step"])

    def add(self, row: JsonDict) -> int:
        """Count a row.

        Returns:
            The tokens of its turns.
        """
        self.trials.add(row)
        steps = agent_steps(row)
        self.note(row, all=True, speaking=steps)
        tokens = 0
        previous_prompt = 0
        for step in steps:
            metrics = step.get("metrics") or {}
            extra_metrics = metrics.get("extra") or {}
            # A turn that calls tools may have no message.
            optional_field = "message" if step.get("tool_calls") else ""
            self.turns.add({**extra_metrics, **metrics, **step}, may_be_empty=optional_field)
            prompt = metrics.get("prompt_tokens")
            completion = metrics.get("completion_tokens")
            unmeasured = prompt is None or completion is None
            # Nothing was generated, and the prompt did not grow.
            zero_tokens = not unmeasured and completion == 0 and prompt in (previous_prompt, 0)
            counted = not unmeasured and not zero_tokens
            self.note(row, missed=unmeasured, zero=zero_tokens, counting=counted)
            self.sums["missed"] += unmeasured
            self.sums["zero"] += zero_tokens
            previous_prompt = prompt or 0
            tokens += previous_prompt + (completion or 0)
        self.sums["tokens"] += tokens
        return tokens

    def quality(self) -> QualityEntry:
        """How many problems have turns without token counts, or with counts of zero."""
        zero_problems = self.problems["zero"]
        unmeasured_problems = self.problems["missed"]
        dirty_problems = zero_problems | unmeasured_problems
        clean_problems = self.problems["all"] - dirty_problems
        # Problems that have turns, all of them without tokens.
        fully_zero_problems = zero_problems & self.problems["speaking"]
        fully_zero_problems -= self.problems["counting"] | unmeasured_problems
        return {
            "clean_problems": len(clean_problems),
            "dirty_problems": len(dirty_problems),
            "fully_zero_problems": len(fully_zero_problems),
            "problems_with_zero_token_turns": len(zero_problems),
            "problems_with_missed_metrics": len(unmeasured_problems),
            "total_zero_token_turns": self.sums["zero"],
            "total_missed_metrics": self.sums["missed"],
        }


def enrich_task(task: Path, wire: WireCalls) -> EnrichmentEntry:
    """Write the enriched trajectories of a task folder, row by row.

    Args:
        task: The task folder.
        wire: Its recorded model calls.

    Returns:
        The ``enrichment`` part of a trajectories report.
    """
    reclassified = 0
    matches: Counter[CallMatch] = Counter()
    filled: Counter[str] = Counter()
    quality_after = StepQuality()
    with replacing(task / ENRICHED) as enriched_file:
        for row in read_trajectories(TaskPaths(task).trajectories):
            key = (row.get("problem_idx", -1), row.get("repeat") or 0)
            calls = wire.of(key).own
            reclassified += _reclassify(row, calls)
            successful_calls = [call for call in calls if call.succeeded]
            matches[_enrich(row, successful_calls, filled)] += 1
            quality_after.add(row)
            enriched_file.write(dumps(row) + b"\n")
    return {
        "trials_spliced_1_to_1": matches[CallMatch.SPLICED],
        "trials_with_unmatched_calls_stashed": matches[CallMatch.STASHED],
        "trials_with_no_wire_data": matches[CallMatch.NO_CALLS],
        "steps_backfilled": {name: filled[name] for name in _FILLED},
        "rows_reclassified_from_wire_failure": reclassified,
        "quality": quality_after.quality(),
        "per_step_sum_after_enrichment": quality_after.sums["tokens"],
        "step_field_coverage_after_enrichment_missing": quality_after.turns.missing(),
    }


def _reclassify(row: JsonDict, calls: list[WireCall]) -> bool:
    """Take the cause of a row without a positive reward from its last call, if the row states none.

    Returns:
        Whether the row's cause was changed.
    """
    reward = row.get("reward")
    if isinstance(reward, int | float) and reward > 0:
        return False
    category = row.get("failure_category") or ""
    if category not in _VAGUE or not calls:
        return False
    cause = calls[-1].cause
    if cause is None:
        return False
    row["failure_category"] = cause
    return True


def _enrich(row: JsonDict, calls: list[WireCall], filled: Counter[str]) -> CallMatch:
    """Attach the calls of a row to its steps.

    Args:
        row: The row, which is changed.
        calls: Its calls that succeeded.
        filled: How often each field was added; updated.
    """
    if not calls:
        return CallMatch.NO_CALLS
    turns = agent_steps(row)
    if len(turns) != len(calls):
        trajectories = row.get("trajectory")
        container = trajectories[0].setdefault("extra", {}) if trajectories else row
        container["captured_model_calls"] = [call.record for call in calls]
        return CallMatch.STASHED
    known_call_ids: set[str] = set()
    for turn in turns:
        for tool_call in turn.get("tool_calls") or []:
            known_call_ids.add(tool_call["tool_call_id"])
    for turn, call in zip(turns, calls, strict=True):
        filled.update(_fill(turn, call.record, known_call_ids))
    return CallMatch.SPLICED


def _fill(step: JsonDict, call: JsonDict, known: set[str]) -> list[str]:
    """Add the fields that a step lacks from its call.

    Args:
        step: The step, which is changed.
        call: The record of its call.
        known: The ids of tool calls that some step has already; new ones are added.

    Returns:
        The names of the fields that were added.
    """
    usage = call.get("usage") or {}
    metrics = step.setdefault("metrics", {})
    metrics_extra = metrics.setdefault("extra", {})
    step_extra = step.setdefault("extra", {})
    added = _copy_missing(call, step, _STEP)
    added += _copy_missing(call, step_extra, _STEP_EXTRA)
    added += _copy_missing(call, metrics, _COST)
    added += _copy_missing(usage, metrics, _USAGE)
    added += _copy_missing(usage, metrics_extra, _USAGE_EXTRA)
    added += _copy_missing(call, metrics_extra, _CALL_EXTRA)
    if not step.get("tool_calls"):
        new_tool_calls = _new_tool_calls(call, known)
        if new_tool_calls:
            step["tool_calls"] = new_tool_calls
            known.update(tool_call["tool_call_id"] for tool_call in new_tool_calls)
            added.append("tool_calls")
    return added


def _copy_missing(source: JsonDict, target: JsonDict, key_of_name: dict[str, str]) -> list[str]:
    """Copy the values that the target lacks.

    Args:
        source: Has the values.
        target: Gets the values that it does not have, or has as an empty text.
        key_of_name: The keys in the source, by the names in the target.

    Returns:
        The names of the values that were copied.
    """
    copied_names: list[str] = []
    for name, key in key_of_name.items():
        value = source.get(key)
        if value is not None and target.get(name) in (None, ""):
            target[name] = value
            copied_names.append(name)
    return copied_names


def _new_tool_calls(call: JsonDict, known: set[str]) -> list[JsonDict]:
    """The tool calls of a recorded call that no step has yet, in the form of a trajectory."""
    new_tool_calls: list[JsonDict] = []
    for tool_call in call.get("tool_calls_full") or []:
        call_id = tool_call.get("id")
        if not call_id or call_id in known:
            continue
        arguments = tool_call.get("arguments")
        if not isinstance(arguments, dict):
            arguments = {"raw": arguments}
        new_tool_calls.append(
            {
                "tool_call_id": call_id,
                "function_name": str(tool_call.get("name") or ""),
                "arguments": arguments,
            }
        )
    return new_tool_calls
