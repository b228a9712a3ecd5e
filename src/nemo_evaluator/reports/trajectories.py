"""``trajectories_report.json``: whether rows, trajectories and recorded model calls agree."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Final

from nemo_evaluator.core.files import write_json
from nemo_evaluator.core.json_coerce import as_dict
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.reports._steps import ENRICHED, StepQuality, agent_steps, enrich_task
from nemo_evaluator.reports._wire import CallAccount, WireCalls, WireCounts, tokens_of
from nemo_evaluator.runs.bundle import Bundle, load_bundle
from nemo_evaluator.runs.find import find_bundles
from nemo_evaluator.runs.row_file import read_trajectories

if TYPE_CHECKING:
    from nemo_evaluator.reports._trajectory_document import (
        TokensEntry,
        TrajectoriesEntry,
        TrajectoryEntry,
    )

VERSION: Final = "trajectories_report-v0.1"
FILE: Final = "trajectories_report.json"


def write_trajectories_report(output_dir: Path | str, *, enrich: bool = True) -> list[Path]:
    """Write the report on every benchmark under a folder that has trajectories.

    Args:
        output_dir: The folder.
        enrich: Also write enriched trajectories for benchmarks with recorded traffic.

    Returns:
        The paths of the written files; empty when no benchmark has trajectories.
    """
    root = Path(output_dir)
    entries: list[TrajectoryEntry] = []
    written: list[Path] = []
    for path in find_bundles(root):
        bundle = load_bundle(path)
        if not bundle.files.trajectories.is_file():
            continue
        service = bundle.config.get("service")
        if not isinstance(service, str):
            service = ""
        wire = WireCalls(bundle.files.traffic, service)
        entry = _TrajectoryAccount(wire).entry_of(bundle)
        if enrich and wire:
            task_folder = path.parent
            entry["enrichment"] = enrich_task(task_folder, wire)
            written.append(task_folder / ENRICHED)
        entries.append(entry)
    if entries:
        write_json(root / FILE, {"schema_version": VERSION, "benchmarks": entries})
        written.append(root / FILE)
    return written


class _TrajectoryAccount(WireCounts):
    """Counts over the rows of one benchmark, its turns and its recorded calls."""

    def __init__(self, wire: WireCalls) -> None:
        super().__init__()
        self._wire = wire
        self._steps = StepQuality()
        self._calls = CallAccount()
        self._repeats: Counter[int] = Counter()
        self._categories: Counter[str] = Counter()
        self._rewards = 0.0

    def entry_of(self, bundle: Bundle) -> TrajectoryEntry:
        """The entry of a benchmark in the report."""
        for row in read_trajectories(bundle.files.trajectories):
            self._add(row)
        scores = as_dict(bundle.benchmark.get("scores"))
        summary = as_dict(scores.get("summary"))
        wire_calls = self._calls.to_dict()
        wire_calls["unreadable_lines"] = self._wire.unreadable
        return {
            "bench": bundle.path.parent.name,
            "trajectories": self._trajectories(summary.get("mean")),
            "tokens_stats": self._tokens(),
            "wire_calls": wire_calls,
        }

    def _trajectories(self, reported: float | None) -> TrajectoriesEntry:
        """The counts of rows, rewards, failures and missing fields.

        Args:
            reported: The mean reward in the bundle.
        """
        mean_reward = None
        if self.sums["rewards"]:
            mean_reward = round(self._rewards / self.sums["rewards"], 4)
        return {
            "problems": len(self._repeats),
            "repeats": self._repeats_entry(),
            "mean_reward": mean_reward,
            "reported_mean": reported,
            "failures_by_category": dict(self._categories),
            "problems_with_empty_final_response": len(self.problems["empty"]),
            "failure_examples": self.examples("failure"),
            "timeout_examples": self.examples("timeout"),
            "no_agent_step_examples": self.examples("no_agent_step"),
            "quality": self._steps.quality(),
            "field_coverage": {
                "per_trial_missing": self._steps.trials.missing(),
                "per_agent_step_missing": self._steps.turns.missing(),
            },
        }

    def _repeats_entry(self) -> int | dict[str, int]:
        """The repeats of every problem; if problems differ, how many problems have each number of repeats."""
        problems_by_repeats = Counter(self._repeats.values())
        if len(problems_by_repeats) == 1:
            return next(iter(problems_by_repeats))
        return {str(repeats): problems for repeats, problems in sorted(problems_by_repeats.items())}

    def _tokens(self) -> TokensEntry:
        """The tokens by turns, by trajectories and by recorded calls, and whether they agree."""
        call_sums = self._calls.sums
        step_tokens = self._steps.sums["tokens"]
        final_tokens = self.sums["final"]
        wire_tokens = call_sums["tokens_for_trajectory_comparison"]
        # Unknown when no traffic was recorded.
        all_match: bool | None = None
        if self._wire:
            sums_match = step_tokens == final_tokens == wire_tokens
            rows_differ = self.problems["steps_differ"] or self.problems["wire_differs"]
            all_match = sums_match and not rows_differ
        return {
            "per_step_sum": step_tokens,
            "final_metrics_total": final_tokens,
            "wire_total": call_sums["tokens"],
            "wire_total_for_trajectory_comparison": wire_tokens,
            "wire_total_all_sessions": call_sums["tokens_all_sessions"],
            "wire_total_earlier_retry_sessions": call_sums["tokens_earlier"],
            "problems_with_missing_final_metrics_tokens": len(self.problems["without_final"]),
            "problems_with_per_step_vs_final_metrics_mismatch": len(self.problems["steps_differ"]),
            "problems_with_wire_vs_final_metrics_mismatch": len(self.problems["wire_differs"]),
            "all_sources_match": all_match,
        }

    def _add(self, row: JsonDict) -> None:
        """Count one row."""
        problem = row.get("problem_idx", -1)
        self._repeats[problem] += 1
        reward = row.get("reward")
        if isinstance(reward, int | float):
            self.sums["rewards"] += 1
            self._rewards += reward
        self._add_failure(row)
        turns = agent_steps(row)
        if turns:
            self.note(row, empty=not turns[-1].get("message"))
        else:
            self.example("no_agent_step", row)
        calls = self._wire.of((problem, row.get("repeat") or 0))
        self._calls.add(row, calls, len(turns))
        step_tokens = self._steps.add(row)
        trajectories = row.get("trajectory")
        if not trajectories:
            return
        final_metrics = trajectories[0].get("final_metrics") or {}
        prompt_tokens = final_metrics.get("total_prompt_tokens")
        completion_tokens = final_metrics.get("total_completion_tokens")
        if prompt_tokens is None or completion_tokens is None:
            self.note(row, without_final=True)
            return
        final_tokens = prompt_tokens + completion_tokens
        self.sums["final"] += final_tokens
        wire_differs = bool(calls.every) and tokens_of(calls.own) != final_tokens
        self.note(row, steps_differ=step_tokens != final_tokens, wire_differs=wire_differs)

    def _add_failure(self, row: JsonDict) -> None:
        """Count the failure of a row, if it has one, and keep it as an example."""
        category = row.get("failure_category")
        if not category:
            return
        self._categories[str(category)] += 1
        failure = row.get("failure") or {}
        error = str(failure.get("message") or row.get("model_error") or "")
        self.example("failure", row, category=category, error=error)
        if "timeout" in error:
            self.example("timeout", row, error=error)
