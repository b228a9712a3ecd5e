"""The steps of an agent: the fields that trajectories lack, and those that recorded traffic adds to them
(``trajectories_enriched.jsonl``).
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from nemo_evaluator.core.files import dumps, replacing
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.reports._wire import WireCalls, WireCounts, cause_of, succeeded
from nemo_evaluator.reports._words import FIELDS
from nemo_evaluator.runs.row_file import read_trajectories
from nemo_evaluator.store.layout import TaskPaths

ENRICHED: Final = "trajectories_enriched.jsonl"
# The fields that a call can add to a step, by the part of the step they belong to, with their names in the call.
_SAID: Final = {"message": "message_content", "reasoning_content": "reasoning_content"}
_STEP: Final = {"timestamp": "timestamp", "model_name": "model", **_SAID}
_STEP_EXTRA: Final = {"status_code": "status_code"}
_COST: Final = {"cost_usd": "cost_usd"}
_USAGE: Final = {name: name for name in ("prompt_tokens", "completion_tokens")}
_USAGE_EXTRA: Final = {name: name for name in ("total_tokens", "cached_tokens", "reasoning_tokens")}
_CALL_EXTRA: Final = {name: name for name in ("latency_ms", "finish_reason")}
_FILLED: Final = (*_STEP, *_STEP_EXTRA, *_USAGE, *_COST, *_USAGE_EXTRA, *_CALL_EXTRA, "tool_calls")
# Categories that do not state a cause.
_VAGUE: Final = frozenset({"", "model_error", "empty_response"})


def agent_steps(row: JsonDict) -> list[JsonDict]:
    """The model's turns in the first trajectory of a row."""
    trajectories = row.get("trajectory") or []
    if trajectories:
        return [
            step for step in trajectories[0].get("steps") or [] if step.get("source") == "agent"
        ]
    return []


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

    def missing(self) -> list[JsonDict]:
        """One entry for each field that was ever absent or empty."""
        entries: list[dict[str, Any]] = []
        for name in self.fields:
            if self.absent[name] or self.empty[name]:
                entries.append(
                    {"field": name, "presence": f"{self.total - self.absent[name]}/{self.total}"}
                    | ({"empty": self.empty[name]} if self.empty[name] else {})
                )
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
        tokens = 0
        previous_prompt = 0
        self.note(row, all=True, speaking=steps)
        for step in steps:
            metrics = step.get("metrics") or {}
            # A turn that calls tools may have no message.
            if step.get("tool_calls"):
                optional_field = "message"
            else:
                optional_field = ""
            self.turns.add(
                {**(metrics.get("extra") or {}), **metrics, **step}, may_be_empty=optional_field
            )
            prompt = metrics.get("prompt_tokens")
            completion = metrics.get("completion_tokens")
            unmeasured = prompt is None or completion is None
            # Nothing was generated, and the prompt did not grow.
            zero_tokens = not unmeasured and completion == 0 and prompt in (previous_prompt, 0)
            self.note(
                row,
                missed=unmeasured,
                zero=zero_tokens,
                counting=not unmeasured and not zero_tokens,
            )
            self.sums.update(missed=unmeasured, zero=zero_tokens)
            previous_prompt = prompt or 0
            tokens += previous_prompt + (completion or 0)
        self.sums["tokens"] += tokens
        return tokens

    def quality(self) -> JsonDict:
        """How many problems have turns without token counts, or with counts of zero."""
        problems_by_mark = self.problems
        zero_token_problems = self.problems["zero"]
        unmeasured_problems = self.problems["missed"]
        return {
            "clean_problems": len(
                problems_by_mark["all"] - zero_token_problems - unmeasured_problems
            ),
            "dirty_problems": len(zero_token_problems | unmeasured_problems),
            # Problems that have turns, all of them without tokens.
            "fully_zero_problems": len(
                (zero_token_problems & problems_by_mark["speaking"])
                - problems_by_mark["counting"]
                - unmeasured_problems
            ),
            "problems_with_zero_token_turns": len(zero_token_problems),
            "problems_with_missed_metrics": len(unmeasured_problems),
            "total_zero_token_turns": self.sums["zero"],
            "total_missed_metrics": self.sums["missed"],
        }


def enrich_task(task: Path, wire: WireCalls) -> JsonDict:
    """Write the enriched trajectories of a task folder, row by row.

    Args:
        task: The task folder.
        wire: Its recorded model calls.

    Returns:
        The ``enrichment`` part of a trajectories report.
    """
    outcomes = Counter[str]()
    filled = Counter[str]()
    quality_after = StepQuality()
    with replacing(task / ENRICHED) as enriched_file:
        for row in read_trajectories(TaskPaths(task).trajectories):
            calls = wire.of((row.get("problem_idx", -1), row.get("repeat") or 0)).own
            outcomes["reclassified"] += _reclassify(row, calls)
            outcomes[_enrich(row, [call for call in calls if succeeded(call)], filled)] += 1
            quality_after.add(row)
            enriched_file.write(dumps(row) + b"\n")
    return {
        "trials_spliced_1_to_1": outcomes["spliced"],
        "trials_with_unmatched_calls_stashed": outcomes["stashed"],
        "trials_with_no_wire_data": outcomes["no_wire"],
        "steps_backfilled": {name: filled[name] for name in _FILLED},
        "rows_reclassified_from_wire_failure": outcomes["reclassified"],
        "quality": quality_after.quality(),
        "per_step_sum_after_enrichment": quality_after.sums["tokens"],
        "step_field_coverage_after_enrichment_missing": quality_after.turns.missing(),
    }


def _reclassify(row: JsonDict, calls: list[JsonDict]) -> bool:
    """Take the cause of a row without a positive reward from its last call, if the row states none.

    Returns:
        Whether the row's cause was changed.
    """
    reward = row.get("reward")
    if (isinstance(reward, int | float) and reward > 0) or (
        row.get("failure_category") or ""
    ) not in _VAGUE:
        return False
    if calls:
        cause = cause_of(calls[-1])
    else:
        cause = None
    if cause is not None:
        row["failure_category"] = cause
    return cause is not None


def _enrich(row: JsonDict, calls: list[JsonDict], filled: Counter[str]) -> str:
    """Attach the calls of a row to its steps; returns the outcome."""
    if not calls:
        return "no_wire"
    trajectories = row.get("trajectory") or []
    turns = agent_steps(row)
    if len(turns) != len(calls):
        if trajectories:
            container: Any | JsonDict = trajectories[0].setdefault("extra", {})
        else:
            container = row
        container["captured_model_calls"] = calls
        return "stashed"
    known_call_ids = {
        call["tool_call_id"] for step in turns for call in step.get("tool_calls") or []
    }
    for step, call in zip(turns, calls, strict=True):
        filled.update(_fill(step, call, known_call_ids))
    return "spliced"


def _fill(step: JsonDict, call: JsonDict, known: set[str]) -> Iterator[str]:
    """Add the fields that a step lacks from its call.

    Args:
        step: The step, which is changed.
        call: Its call.
        known: The ids of tool calls that some step has already; new ones are added.

    Yields:
        The names of the fields that were added.
    """
    usage = call.get("usage") or {}
    metrics = step.setdefault("metrics", {})
    extra = metrics.setdefault("extra", {})
    transfers = [
        (step, call, _STEP),
        (step.setdefault("extra", {}), call, _STEP_EXTRA),
        (metrics, call, _COST),
    ]
    transfers += [
        (metrics, usage, _USAGE),
        (extra, usage, _USAGE_EXTRA),
        (extra, call, _CALL_EXTRA),
    ]
    for target, source, key_of_name in transfers:
        for name, key in key_of_name.items():
            if source.get(key) is not None and target.get(name) in (None, ""):
                target[name] = source[key]
                yield name
    new_tool_calls: list[Any] = []
    for tool_call in call.get("tool_calls_full") or []:
        if tool_call.get("id") and tool_call["id"] not in known:
            new_tool_calls.append(tool_call)
    if new_tool_calls and not step.get("tool_calls"):
        calls_with_arguments = [
            (tool_call, tool_call.get("arguments")) for tool_call in new_tool_calls
        ]
        step["tool_calls"] = [
            {
                "tool_call_id": tool_call["id"],
                "function_name": str(tool_call.get("name") or ""),
                "arguments": arguments if isinstance(arguments, dict) else {"raw": arguments},
            }
            for tool_call, arguments in calls_with_arguments
        ]
        known.update(tool_call["id"] for tool_call in new_tool_calls)
        yield "tool_calls"
