"""The steps of an agent: what trajectories lack of them, and what the wire adds (``trajectories_enriched.jsonl``)."""

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from nemo_evaluator.core.files import dumps, replacing
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.reports._fields import FIELDS
from nemo_evaluator.reports._wire import StepCalls, WireCalls, cause_of, succeeded
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
    return [step for step in documents[0].get("steps") or [] if step.get("source") == "agent"] if documents else []


@dataclass(slots=True)
class Presence:
    """How often each field of a set is there, and how often it is there and empty."""

    fields: tuple[str, ...]
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
        return [
            {"field": name, "presence": f"{self.total - self.absent[name]}/{self.total}"}
            | ({"empty": self.empty[name]} if self.empty[name] else {})
            for name in self.fields
            if self.absent[name] or self.empty[name]
        ]


class StepQuality:
    """Tokens and fields of all turns. What is called ``problems_…`` counts problems, not their repeats."""

    def __init__(self) -> None:
        self.tokens = self._zero_turns = self._missed = 0
        # Problems by what was seen of them: those without a turn that counts are zero from one end to the other.
        self._problems: defaultdict[str, set[int]] = defaultdict(set)
        self.trials, self.turns = Presence(FIELDS["trial"]), Presence(FIELDS["step"])

    def add(self, row: JsonDict) -> int:
        """Count a row; returns the tokens of its turns."""
        problem = row.get("problem_idx", -1)
        self._problems["all"].add(problem)
        self.trials.add(row)
        total = before = 0
        for step in agent_steps(row):
            self._problems["speaking"].add(problem)
            metrics = step.get("metrics") or {}
            # A turn that calls tools need not say anything.
            silent = "message" if step.get("tool_calls") else ""
            self.turns.add({**(metrics.get("extra") or {}), **metrics, **step}, may_be_empty=silent)
            prompt, completion = metrics.get("prompt_tokens"), metrics.get("completion_tokens")
            if prompt is None or completion is None:
                self._missed += 1
                self._problems["missed"].add(problem)
            elif completion == 0 and (prompt == before or prompt == 0):
                # Nothing was said, and the conversation did not grow.
                self._zero_turns += 1
                self._problems["zero"].add(problem)
            else:
                self._problems["counting"].add(problem)
            before = prompt or 0
            total += (prompt or 0) + (completion or 0)
        self.tokens += total
        return total

    def quality(self) -> JsonDict:
        seen, zero, missed = self._problems, self._problems["zero"], self._problems["missed"]
        return {
            "clean_problems": len(seen["all"] - zero - missed),
            "dirty_problems": len(zero | missed),
            "fully_zero_problems": len((zero & seen["speaking"]) - seen["counting"] - missed),
            "problems_with_zero_token_turns": len(zero),
            "problems_with_missed_metrics": len(missed),
            "total_zero_token_turns": self._zero_turns,
            "total_missed_metrics": self._missed,
        }


@dataclass(slots=True)
class Enrichment:
    """What enriching did."""

    spliced: int = 0
    stashed: int = 0
    no_wire: int = 0
    reclassified: int = 0
    backfilled: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_FILLED, 0))
    after: StepQuality = field(default_factory=StepQuality)

    def to_dict(self) -> JsonDict:
        """The ``enrichment`` of a trajectories report."""
        return {
            "trials_spliced_1_to_1": self.spliced,
            "trials_with_unmatched_calls_stashed": self.stashed,
            "trials_with_no_wire_data": self.no_wire,
            "steps_backfilled": self.backfilled,
            "rows_reclassified_from_wire_failure": self.reclassified,
            "quality": self.after.quality(),
            "per_step_sum_after_enrichment": self.after.tokens,
            "step_field_coverage_after_enrichment_missing": self.after.turns.missing(),
        }


def enrich_task(task: Path, wire: WireCalls) -> Enrichment:
    """Write the enriched file of a task folder, row by row."""
    done = Enrichment()
    with replacing(task / ENRICHED) as out:
        for row in read_trajectories(TaskPaths(task).trajectories):
            calls = wire.of((row.get("problem_idx", -1), row.get("repeat") or 0))
            _reclassify(row, calls, done)
            _enrich(row, [call for call in calls.own if succeeded(call)], done)
            done.after.add(row)
            out.write(dumps(row) + b"\n")
    return done


def _reclassify(row: JsonDict, calls: StepCalls, done: Enrichment) -> None:
    """Where a row without a reward does not say why, the last call may."""
    reward = row.get("reward")
    if (isinstance(reward, int | float) and reward > 0) or (row.get("failure_category") or "") not in _VAGUE:
        return
    cause = cause_of(calls.own[-1]) if calls.own else None
    if cause is not None:
        row["failure_category"] = cause
        done.reclassified += 1


def _enrich(row: JsonDict, calls: list[JsonDict], done: Enrichment) -> None:
    if not calls:
        done.no_wire += 1
        return
    documents = row.get("trajectory") or []
    agents = agent_steps(row)
    if len(agents) != len(calls):
        done.stashed += 1
        place = documents[0].setdefault("extra", {}) if documents else row
        place["captured_model_calls"] = calls
        return
    done.spliced += 1
    known = {call["tool_call_id"] for step in agents for call in step.get("tool_calls") or []}
    for step, call in zip(agents, calls, strict=True):
        for name in _fill(step, call, known):
            done.backfilled[name] += 1


def _fill(step: JsonDict, call: JsonDict, known: set[str]) -> list[str]:
    """Put what is missing in a step; returns the names of what was put."""
    usage = call.get("usage") or {}
    metrics = step.setdefault("metrics", {})
    extra = metrics.setdefault("extra", {})
    places = [(step, call, _STEP), (step.setdefault("extra", {}), call, _STEP_EXTRA), (metrics, call, _COST)]
    places += [(metrics, usage, _USAGE), (extra, usage, _USAGE_EXTRA), (extra, call, _CALL_EXTRA)]
    filled = [
        name for into, source, names in places for name, key in names.items() if _put(into, name, source.get(key))
    ]
    wanted = [made for made in call.get("tool_calls_full") or [] if made.get("id") and made["id"] not in known]
    if wanted and not step.get("tool_calls"):
        step["tool_calls"] = [_tool_call(made) for made in wanted]
        known.update(made["id"] for made in wanted)
        filled.append("tool_calls")
    return filled


def _put(into: JsonDict, name: str, value: Any) -> bool:
    missing = value is not None and into.get(name) in (None, "")
    if missing:
        into[name] = value
    return missing


def _tool_call(made: JsonDict) -> JsonDict:
    arguments = made.get("arguments")
    shaped = arguments if isinstance(arguments, dict) else {"raw": arguments}
    return {"tool_call_id": made["id"], "function_name": str(made.get("name") or ""), "arguments": shaped}
