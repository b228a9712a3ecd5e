"""``trajectories_report.json``: whether rows, trajectories and recorded model calls agree."""

from collections import Counter
from pathlib import Path
from typing import Final

from nemo_evaluator.core.files import write_json
from nemo_evaluator.core.json_coerce import as_dict
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.reports._steps import ENRICHED, StepQuality, agent_steps, enrich_task
from nemo_evaluator.reports._wire import CallAccount, WireCalls, WireCounts, tokens_of
from nemo_evaluator.runs.bundle import Bundle, load_bundle
from nemo_evaluator.runs.find import find_bundles
from nemo_evaluator.runs.row_file import read_trajectories

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
    entries = []
    written = []
    for path in find_bundles(root):
        bundle = load_bundle(path)
        task_folder = path.parent
        service = bundle.config.get("service")
        if not bundle.files.trajectories.is_file():
            continue
        wire = WireCalls(bundle.files.traffic, service if isinstance(service, str) else "")
        entry = _Account(wire).over(bundle)
        if enrich and wire:
            entry["enrichment"] = enrich_task(task_folder, wire)
            written.append(task_folder / ENRICHED)
        entries.append(entry)
    if entries:
        write_json(root / FILE, {"schema_version": VERSION, "benchmarks": entries})
        written.append(root / FILE)
    return written


class _Account(WireCounts):
    """Counts over the rows of one benchmark, its turns and its recorded calls."""

    def __init__(self, wire: WireCalls) -> None:
        super().__init__()
        self._wire = wire
        self._steps = StepQuality()
        self._calls = CallAccount()
        self._repeats: Counter[int] = Counter()
        self._categories: Counter[str] = Counter()
        self._rewards = 0.0

    def over(self, bundle: Bundle) -> JsonDict:
        """The entry of a benchmark in the report."""
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
        """The counts of rows, rewards, failures and missing fields.

        Args:
            reported: The mean reward in the bundle.
        """
        problems_by_repeats = Counter(self._repeats.values())
        return {
            "problems": len(self._repeats),
            "repeats": next(iter(problems_by_repeats))
            if len(problems_by_repeats) == 1
            else {
                str(repeats): problems for repeats, problems in sorted(problems_by_repeats.items())
            },
            "mean_reward": round(self._rewards / self.sums["rewards"], 4)
            if self.sums["rewards"]
            else None,
            "reported_mean": reported,
            "failures_by_category": dict(self._categories),
            "problems_with_empty_final_response": len(self.problems["empty"]),
            **{
                f"{name}_examples": self.examples(name)
                for name in ("failure", "timeout", "no_agent_step")
            },
            "quality": self._steps.quality(),
            "field_coverage": {
                "per_trial_missing": self._steps.trials.missing(),
                "per_agent_step_missing": self._steps.turns.missing(),
            },
        }

    def _tokens(self) -> JsonDict:
        """The tokens by turns, by trajectories and by recorded calls, and whether they agree."""
        call_sums = self._calls.sums
        step_tokens = self._steps.sums["tokens"]
        final_tokens = self.sums["final"]
        all_match = step_tokens == final_tokens == call_sums["tokens_for_trajectory_comparison"]
        all_match = (
            all_match and not self.problems["steps_differ"] and not self.problems["wire_differs"]
        )
        return {
            "per_step_sum": step_tokens,
            "final_metrics_total": final_tokens,
            "wire_total": call_sums["tokens"],
            "wire_total_for_trajectory_comparison": call_sums["tokens_for_trajectory_comparison"],
            "wire_total_all_sessions": call_sums["tokens_all_sessions"],
            "wire_total_earlier_retry_sessions": call_sums["tokens_earlier"],
            "problems_with_missing_final_metrics_tokens": len(self.problems["without_final"]),
            "problems_with_per_step_vs_final_metrics_mismatch": len(self.problems["steps_differ"]),
            "problems_with_wire_vs_final_metrics_mismatch": len(self.problems["wire_differs"]),
            # Unknown when no traffic was recorded.
            "all_sources_match": all_match if self._wire else None,
        }

    def _row(self, row: JsonDict) -> None:
        """Count one row."""
        problem = row.get("problem_idx", -1)
        self._repeats[problem] += 1
        if isinstance(row.get("reward"), int | float):
            self.sums["rewards"] += 1
            self._rewards += row["reward"]
        category = row.get("failure_category")
        if category:
            self._categories[str(category)] += 1
            error = str((row.get("failure") or {}).get("message") or row.get("model_error") or "")
            self.example("failure", row, category=category, error=error)
            if "timeout" in error:
                self.example("timeout", row, error=error)
        turns = agent_steps(row)
        if not turns:
            self.example("no_agent_step", row)
        self.note(row, empty=turns and not turns[-1].get("message"))
        calls = self._wire.of((problem, row.get("repeat") or 0))
        self._calls.add(row, calls, len(turns))
        step_tokens = self._steps.add(row)
        trajectories = row.get("trajectory")
        if trajectories:
            final_metrics = trajectories[0].get("final_metrics") or {}
            prompt_tokens = final_metrics.get("total_prompt_tokens")
            completion_tokens = final_metrics.get("total_completion_tokens")
            if prompt_tokens is None or completion_tokens is None:
                self.note(row, without_final=True)
                return
            final_tokens = prompt_tokens + completion_tokens
            self.sums["final"] += final_tokens
            self.note(
                row,
                steps_differ=step_tokens != final_tokens,
                wire_differs=calls.every and tokens_of(calls.own) != final_tokens,
            )
