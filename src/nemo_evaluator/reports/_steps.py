"""The steps of an agent: what trajectories lack of them, and what the wire adds (``trajectories_enriched.jsonl``)."""

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
# What a step lacks, by where it belongs, and the name that the wire has for it.
_SAID: Final = {"message": "message_content", "reasoning_content": "reasoning_content"}
_STEP: Final = {"timestamp": "timestamp", "model_name": "model", **_SAID}
_STEP_EXTRA: Final = {"status_code": "status_code"}
_COST: Final = {"cost_usd": "cost_usd"}
_USAGE: Final = {name: name for name in ("prompt_tokens", "completion_tokens")}
_USAGE_EXTRA: Final = {name: name for name in ("total_tokens", "cached_tokens", "reasoning_tokens")}
_CALL_EXTRA: Final = {name: name for name in ("latency_ms", "finish_reason")}
_FILLED: Final = (*_STEP, *_STEP_EXTRA, *_USAGE, *_COST, *_USAGE_EXTRA, *_CALL_EXTRA, "tool_calls")
# Categories that say nothing of the cause, or nothing at all.
_VAGUE: Final = frozenset({"", "model_error", "empty_response"})


def agent_steps(row: JsonDict) -> list[JsonDict]:
    """What the model said, turn by turn."""
    documents = row.get("trajectory") or []
    if documents:
        return [step for step in documents[0].get("steps") or [] if step.get("source") == "agent"]
    return []


@dataclass(slots=True)
class Presence:
    """How often each field of a set is present, and how often it is present but empty."""

    fields: list[str]
    total: int = 0
    absent: Counter[str] = field(default_factory=Counter)
    empty: Counter[str] = field(default_factory=Counter)

    def add(self, values: Mapping[str, Any], *, may_be_empty: str = "") -> None:
        self.total += 1
        for name in self.fields:
            value = values.get(name)
            if value is None:
                self.absent[name] += 1
            elif value in ("", [], {}) and name != may_be_empty:
                self.empty[name] += 1

    def missing(self) -> list[JsonDict]:
        results: list[dict[str, Any]] = []
        for name in self.fields:
            if self.absent[name] or self.empty[name]:
                results.append(
                    {"field": name, "presence": f"{self.total - self.absent[name]}/{self.total}"}
                    | ({"empty": self.empty[name]} if self.empty[name] else {})
                )
        return results


class StepQuality(WireCounts):
    """Tokens and fields of all turns."""

    def __init__(self) -> None:
        super().__init__()
        self.trials = Presence(FIELDS["trial"])
        self.turns = Presence(FIELDS["step"])

    def add(self, row: JsonDict) -> int:
        """Count a row; returns the tokens of its turns."""
        self.trials.add(row)
        steps = agent_steps(row)
        total = 0
        before = 0
        self.note(row, all=True, speaking=steps)
        for step in steps:
            metrics = step.get("metrics") or {}
            # A turn that calls tools need not say anything.
            if step.get("tool_calls"):
                silent = "message"
            else:
                silent = ""
            self.turns.add({**(metrics.get("extra") or {}), **metrics, **step}, may_be_empty=silent)
            prompt = metrics.get("prompt_tokens")
            completion = metrics.get("completion_tokens")
            missed = prompt is None or completion is None
            # Nothing was said, and the conversation did not grow.
            zero = not missed and completion == 0 and prompt in (before, 0)
            self.note(row, missed=missed, zero=zero, counting=not missed and not zero)
            self.sums.update(missed=missed, zero=zero)
            before = prompt or 0
            total += before + (completion or 0)
        self.sums["tokens"] += total
        return total

    def quality(self) -> JsonDict:
        seen = self.problems
        zero = self.problems["zero"]
        missed = self.problems["missed"]
        return {
            "clean_problems": len(seen["all"] - zero - missed),
            "dirty_problems": len(zero | missed),
            # Without a turn that counts: zero from one end to the other.
            "fully_zero_problems": len((zero & seen["speaking"]) - seen["counting"] - missed),
            "problems_with_zero_token_turns": len(zero),
            "problems_with_missed_metrics": len(missed),
            "total_zero_token_turns": self.sums["zero"],
            "total_missed_metrics": self.sums["missed"],
        }


def enrich_task(task: Path, wire: WireCalls) -> JsonDict:
    """Write the enriched file of a task folder, row by row; returns the ``enrichment`` of a trajectories report."""
    done = Counter[str]()
    filled = Counter[str]()
    after = StepQuality()
    with replacing(task / ENRICHED) as out:
        for row in read_trajectories(TaskPaths(task).trajectories):
            calls = wire.of((row.get("problem_idx", -1), row.get("repeat") or 0)).own
            done["reclassified"] += _reclassify(row, calls)
            done[_enrich(row, [call for call in calls if succeeded(call)], filled)] += 1
            after.add(row)
            out.write(dumps(row) + b"\n")
    return {
        "trials_spliced_1_to_1": done["spliced"],
        "trials_with_unmatched_calls_stashed": done["stashed"],
        "trials_with_no_wire_data": done["no_wire"],
        "steps_backfilled": {name: filled[name] for name in _FILLED},
        "rows_reclassified_from_wire_failure": done["reclassified"],
        "quality": after.quality(),
        "per_step_sum_after_enrichment": after.sums["tokens"],
        "step_field_coverage_after_enrichment_missing": after.turns.missing(),
    }


def _reclassify(row: JsonDict, calls: list[JsonDict]) -> bool:
    """Where a row without a reward does not say why, the last call may."""
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
    documents = row.get("trajectory") or []
    agents = agent_steps(row)
    if len(agents) != len(calls):
        if documents:
            place: Any | JsonDict = documents[0].setdefault("extra", {})
        else:
            place = row
        place["captured_model_calls"] = calls
        return "stashed"
    known = {call["tool_call_id"] for step in agents for call in step.get("tool_calls") or []}
    for step, call in zip(agents, calls, strict=True):
        filled.update(_fill(step, call, known))
    return "spliced"


def _fill(step: JsonDict, call: JsonDict, known: set[str]) -> Iterator[str]:
    """Put what is missing in a step; the names of what was put."""
    usage = call.get("usage") or {}
    metrics = step.setdefault("metrics", {})
    extra = metrics.setdefault("extra", {})
    places = [
        (step, call, _STEP),
        (step.setdefault("extra", {}), call, _STEP_EXTRA),
        (metrics, call, _COST),
    ]
    places += [(metrics, usage, _USAGE), (extra, usage, _USAGE_EXTRA), (extra, call, _CALL_EXTRA)]
    for into, source, names in places:
        for name, key in names.items():
            if source.get(key) is not None and into.get(name) in (None, ""):
                into[name] = source[key]
                yield name
    wanted: list[Any] = []
    for made in call.get("tool_calls_full") or []:
        if made.get("id") and made["id"] not in known:
            wanted.append(made)
    if wanted and not step.get("tool_calls"):
        given = [(made, made.get("arguments")) for made in wanted]
        step["tool_calls"] = [
            {
                "tool_call_id": made["id"],
                "function_name": str(made.get("name") or ""),
                "arguments": arguments if isinstance(arguments, dict) else {"raw": arguments},
            }
            for made, arguments in given
        ]
        known.update(made["id"] for made in wanted)
        yield "tool_calls"
