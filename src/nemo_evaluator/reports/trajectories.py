"""``trajectories_report.json``: do rows, conversations and the wire tell the same story?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from nemo_evaluator.core.files import iter_jsonl, read_json, write_json
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.reports._wire import WireCalls, last_session, succeeded
from nemo_evaluator.reports.enrich import enrich_task
from nemo_evaluator.store.find import find_bundles

VERSION: Final = "trajectories_report-v0.1"
FILE: Final = "trajectories_report.json"
_EXAMPLES: Final = 5
_STEP_FIELDS: Final = ("timestamp", "model_name", "prompt_tokens", "completion_tokens", "latency_ms", "finish_reason")


def write_trajectories_report(output_dir: Path | str, *, enrich: bool = True) -> list[Path]:
    """Write the report for every benchmark under a folder, and the enriched trajectories where traffic was kept."""
    root = Path(output_dir)
    entries, written = [], []
    for bundle in find_bundles(root):
        task = bundle.parent
        if not (task / "trajectories.jsonl").is_file():
            continue
        wire = WireCalls(task / "model_traffic.jsonl")
        entry = _Account(wire).over(task, bundle)
        if enrich and wire:
            entry["enrichment"] = asdict(enrich_task(task, wire))
            written.append(task / "trajectories_enriched.jsonl")
        entries.append(entry)
    if entries:
        write_json(root / FILE, {"schema_version": VERSION, "benchmarks": entries})
        written.append(root / FILE)
    return written


@dataclass(slots=True)
class _Account:
    """Counts over the rows of one benchmark."""

    wire: WireCalls
    repeats: Counter[int] = field(default_factory=Counter)
    rewards: int = 0
    reward_sum: float = 0.0
    categories: Counter[str] = field(default_factory=Counter)
    empty: set[int] = field(default_factory=set)
    zero_token_turns: int = 0
    dirty: set[int] = field(default_factory=set)
    missed: Counter[str] = field(default_factory=Counter)
    agent_steps: int = 0
    step_tokens: int = 0
    final_tokens: int = 0
    wire_tokens: int = 0
    earlier_tokens: int = 0
    disagree: set[int] = field(default_factory=set)
    statuses: Counter[str] = field(default_factory=Counter)
    calls: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[JsonDict]] = field(default_factory=dict)

    def over(self, task: Path, bundle: Path) -> JsonDict:
        """The entry of a benchmark."""
        for row in iter_jsonl(task / "trajectories.jsonl"):
            self._row(row)
        summary = ((read_json(bundle).get("benchmark") or {}).get("scores") or {}).get("summary") or {}
        uneven = Counter(self.repeats.values())
        problems = len(self.repeats)
        return {
            "bench": task.name,
            "trajectories": {
                "problems": problems,
                "repeats": next(iter(uneven)) if len(uneven) == 1 else {str(k): v for k, v in sorted(uneven.items())},
                "mean_reward": round(self.reward_sum / self.rewards, 4) if self.rewards else None,
                "reported_mean": summary.get("mean"),
                "failures_by_category": dict(self.categories),
                "problems_with_empty_final_response": len(self.empty),
                "failure_examples": self.examples.get("failure", []),
                "no_agent_step_examples": self.examples.get("no_agent_step", []),
                "quality": {
                    "clean_problems": problems - len(self.dirty),
                    "dirty_problems": len(self.dirty),
                    "total_zero_token_turns": self.zero_token_turns,
                },
                "field_coverage": {
                    "per_agent_step_missing": [
                        {"field": name, "presence": f"{self.agent_steps - self.missed[name]}/{self.agent_steps}"}
                        for name in _STEP_FIELDS
                        if self.missed[name]
                    ]
                },
            },
            "tokens_stats": {
                "per_step_sum": self.step_tokens,
                "final_metrics_total": self.final_tokens,
                "wire_total": self.wire_tokens,
                "wire_total_earlier_retry_sessions": self.earlier_tokens,
                "problems_with_per_step_vs_final_metrics_mismatch": len(self.disagree),
                "all_sources_match": self._match(),
            },
            "wire_calls": {
                "total": self.calls["total"],
                "successful": self.calls["ok"],
                "non_200": self.calls["total"] - self.calls["ok"],
                "non_200_by_status": dict(self.statuses),
                "earlier_sessions": self.calls["earlier"],
                "selected_session_policy": "last_wire_session",
                "non_200_examples": self.examples.get("wire", []),
            },
        }

    def _match(self) -> bool | None:
        """Whether steps, totals and wire agree; None when no traffic was kept to compare with."""
        if not self.wire:
            return None
        return self.step_tokens == self.final_tokens == self.wire_tokens and not self.disagree

    def _row(self, row: JsonDict) -> None:
        problem = row.get("problem_idx", -1)
        self.repeats[problem] += 1
        if isinstance(row.get("reward"), int | float):
            self.rewards += 1
            self.reward_sum += row["reward"]
        category = row.get("failure_category")
        if category:
            self.categories[str(category)] += 1
            self._example("failure", row, error=row.get("model_error"))
        documents = row.get("trajectory") or []
        agents = [step for step in documents[0]["steps"] if step.get("source") == "agent"] if documents else []
        if not agents:
            self._example("no_agent_step", row)
        elif not agents[-1].get("message"):
            self.empty.add(problem)
        steps = sum(self._step(step, problem) for step in agents)
        final = (documents[0].get("final_metrics") or {}) if documents else {}
        total = (final.get("total_prompt_tokens") or 0) + (final.get("total_completion_tokens") or 0)
        self.step_tokens += steps
        self.final_tokens += total
        if steps != total:
            self.disagree.add(problem)
        self._wire(row, problem)

    def _step(self, step: JsonDict, problem: int) -> int:
        self.agent_steps += 1
        metrics = step.get("metrics") or {}
        known = {**(metrics.get("extra") or {}), **metrics, **step}
        absent = [name for name in _STEP_FIELDS if known.get(name) in (None, "")]
        self.missed.update(absent)
        prompt, completion = metrics.get("prompt_tokens"), metrics.get("completion_tokens")
        if prompt == 0 and completion == 0:
            self.zero_token_turns += 1
            self.dirty.add(problem)
        return (prompt or 0) + (completion or 0)

    def _wire(self, row: JsonDict, problem: int) -> None:
        calls = self.wire.of((problem, row.get("repeat") or 0))
        last = last_session(calls)
        self.calls["earlier"] += len(calls) - len(last)
        session = last[0].get("session_id") if last else None
        self.earlier_tokens += sum(_tokens([call for call in calls if call.get("session_id") != session]))
        for call in last:
            self.calls["total"] += 1
            if succeeded(call):
                self.calls["ok"] += 1
                continue
            self.statuses[str(call.get("status_code") or call.get("error_type") or "none")] += 1
            self._example("wire", row, status=call.get("status_code"), error=str(call.get("error_message") or "")[:500])
        self.wire_tokens += sum(_tokens([call for call in last if succeeded(call)]))

    def _example(self, kind: str, row: JsonDict, **facts: Any) -> None:
        kept = self.examples.setdefault(kind, [])
        if len(kept) < _EXAMPLES:
            kept.append({"problem_idx": row.get("problem_idx"), "repeat": row.get("repeat") or 0, **facts})


def _tokens(calls: list[JsonDict]) -> Iterator[int]:
    for call in calls:
        usage = call.get("usage") or {}
        yield (usage.get("prompt_tokens") or 0) + (usage.get("completion_tokens") or 0)
