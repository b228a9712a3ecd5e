"""``trajectories_report.json``: do rows, conversations and the wire tell the same story?"""

from collections import Counter, defaultdict
from pathlib import Path
from typing import Final

from nemo_evaluator.core.files import write_json
from nemo_evaluator.core.json_coerce import as_dict
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.reports._steps import ENRICHED, StepQuality, agent_steps, enrich_task
from nemo_evaluator.reports._wire import CallAccount, Examples, WireCalls, tokens_of
from nemo_evaluator.runs.bundle import Bundle, load_bundle
from nemo_evaluator.runs.find import find_bundles
from nemo_evaluator.runs.row_file import read_trajectories

VERSION: Final = "trajectories_report-v0.1"
FILE: Final = "trajectories_report.json"


def write_trajectories_report(output_dir: Path | str, *, enrich: bool = True) -> list[Path]:
    """Write the report for every benchmark under a folder, and the enriched trajectories where traffic was kept."""
    root = Path(output_dir)
    entries, written = [], []
    for path in find_bundles(root):
        bundle = load_bundle(path)
        task, service = path.parent, bundle.config.get("service")
        if not bundle.files.trajectories.is_file():
            continue
        wire = WireCalls(bundle.files.traffic, service if isinstance(service, str) else "")
        entry = _Account(wire).over(bundle)
        if enrich and wire:
            entry["enrichment"] = enrich_task(task, wire).to_dict()
            written.append(task / ENRICHED)
        entries.append(entry)
    if entries:
        write_json(root / FILE, {"schema_version": VERSION, "benchmarks": entries})
        written.append(root / FILE)
    return written


class _Account:
    """Counts over the rows of one benchmark. What is called ``problems_…`` counts problems, not their repeats."""

    def __init__(self, wire: WireCalls) -> None:
        self._wire = wire
        self._repeats: Counter[int] = Counter()
        self._categories: Counter[str] = Counter()
        self._final_tokens, self._rewards, self._reward_sum = 0, 0, 0.0
        # Problems by what is wrong with them.
        self._problems: defaultdict[str, set[int]] = defaultdict(set)
        self._steps, self._calls = StepQuality(), CallAccount()
        self._failures, self._timeouts, self._no_step = Examples(), Examples(), Examples()

    def over(self, bundle: Bundle) -> JsonDict:
        for row in read_trajectories(bundle.files.trajectories):
            self._row(row)
        summary = as_dict(as_dict(bundle.benchmark.get("scores")).get("summary"))
        return {
            "bench": bundle.path.parent.name,
            "trajectories": self._trajectories(summary.get("mean")),
            "tokens_stats": self._tokens(),
            "wire_calls": self._calls.to_dict() | {"unreadable_lines": self._wire.unreadable},
        }

    def _trajectories(self, reported: float | None) -> JsonDict:
        uneven = Counter(self._repeats.values())
        return {
            "problems": len(self._repeats),
            "repeats": next(iter(uneven)) if len(uneven) == 1 else {str(k): v for k, v in sorted(uneven.items())},
            "mean_reward": round(self._reward_sum / self._rewards, 4) if self._rewards else None,
            "reported_mean": reported,
            "failures_by_category": dict(self._categories),
            "problems_with_empty_final_response": len(self._problems["empty"]),
            "failure_examples": self._failures.kept,
            "timeout_examples": self._timeouts.kept,
            "no_agent_step_examples": self._no_step.kept,
            "quality": self._steps.quality(),
            "field_coverage": {
                "per_trial_missing": self._steps.trials.missing(),
                "per_agent_step_missing": self._steps.turns.missing(),
            },
        }

    def _tokens(self) -> JsonDict:
        calls = self._calls
        same = self._steps.tokens == self._final_tokens == calls.own.tokens
        same = same and not self._problems["steps_differ"] and not self._problems["wire_differs"]
        return {
            "per_step_sum": self._steps.tokens,
            "final_metrics_total": self._final_tokens,
            "wire_total": calls.last.tokens,
            "wire_total_for_trajectory_comparison": calls.own.tokens,
            "wire_total_all_sessions": calls.every.tokens,
            "wire_total_earlier_retry_sessions": calls.earlier.tokens,
            "problems_with_missing_final_metrics_tokens": len(self._problems["without_final"]),
            "problems_with_per_step_vs_final_metrics_mismatch": len(self._problems["steps_differ"]),
            "problems_with_wire_vs_final_metrics_mismatch": len(self._problems["wire_differs"]),
            # Not known when no traffic was kept to compare with.
            "all_sources_match": same if self._wire else None,
        }

    def _row(self, row: JsonDict) -> None:
        problem = row.get("problem_idx", -1)
        self._repeats[problem] += 1
        if isinstance(row.get("reward"), int | float):
            self._rewards += 1
            self._reward_sum += row["reward"]
        self._failure(row)
        agents = agent_steps(row)
        if not agents:
            self._no_step.add(row)
        elif not agents[-1].get("message"):
            self._problems["empty"].add(problem)
        calls = self._wire.of((problem, row.get("repeat") or 0))
        self._calls.add(row, calls, len(agents))
        self._totals(row, problem, self._steps.add(row), tokens_of(calls.own) if calls.every else None)

    def _totals(self, row: JsonDict, problem: int, steps: int, wire: int | None) -> None:
        documents = row.get("trajectory") or []
        if not documents:
            return
        final = documents[0].get("final_metrics") or {}
        prompt, completion = final.get("total_prompt_tokens"), final.get("total_completion_tokens")
        if prompt is None or completion is None:
            self._problems["without_final"].add(problem)
            return
        total = prompt + completion
        self._final_tokens += total
        if steps != total:
            self._problems["steps_differ"].add(problem)
        if wire is not None and wire != total:
            self._problems["wire_differs"].add(problem)

    def _failure(self, row: JsonDict) -> None:
        category = row.get("failure_category")
        if not category:
            return
        self._categories[str(category)] += 1
        error = str((row.get("failure") or {}).get("message") or row.get("model_error") or "")
        self._failures.add(row, category=category, error=error)
        if "timeout" in error:
            self._timeouts.add(row, error=error)
