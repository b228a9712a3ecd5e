"""Several comparisons at once: a folder of benchmarks, or several candidates against one baseline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.decisions.compare.compare_runs import compare_runs
from nemo_evaluator.decisions.compare.options import CompareOptions
from nemo_evaluator.decisions.compare.report import RegressionReport
from nemo_evaluator.decisions.compare.verdict import Verdict, worst
from nemo_evaluator.decisions.match import discover_bundles, match_bundles
from nemo_evaluator.runs.bundle import Bundle

if TYPE_CHECKING:
    from nemo_evaluator.decisions.compare.comparison_document import CandidateDocument


@dataclass(frozen=True, slots=True)
class Entry:
    """One comparison of a set.

    Attributes:
        candidate: The candidate's path as given by the user.
        benchmark: The benchmark.
        folder: The folder of the candidate's bundle.
        report: The comparison.
    """

    candidate: str
    benchmark: str
    folder: Path
    report: RegressionReport


@dataclass(slots=True)
class ComparisonSet:
    """All comparisons of one call.

    Attributes:
        entries: The comparisons.
        several_candidates: Whether more than one candidate was given.
        several_benchmarks: Whether a path contains more than one benchmark.
        warnings: Benchmarks that only one side has.
    """

    entries: list[Entry]
    several_candidates: bool
    several_benchmarks: bool
    warnings: list[str] = field(default_factory=list)

    @property
    def verdict(self) -> Verdict:
        """The worst verdict of all comparisons."""
        return worst(entry.report.verdict for entry in self.entries)

    def to_dict(self) -> CandidateDocument | dict[str, CandidateDocument]:
        """The JSON of the set.

        Returns:
            The report itself for a single comparison. With several benchmarks, a mapping by benchmark; with several
            candidates, a mapping from their paths to one of these.
        """
        if not self.several_candidates:
            return self._benchmarks(self.entries)
        candidate_names = dict.fromkeys(entry.candidate for entry in self.entries)
        reports_by_candidate: dict[str, CandidateDocument] = {}
        for name in candidate_names:
            reports_by_candidate[name] = self._benchmarks(
                [entry for entry in self.entries if entry.candidate == name]
            )
        return reports_by_candidate

    def _benchmarks(self, entries: list[Entry]) -> CandidateDocument:
        """The JSON of one candidate's comparisons."""
        if self.several_benchmarks:
            return {entry.benchmark: entry.report.to_dict() for entry in entries}
        return entries[0].report.to_dict()


def compare_paths(
    baseline: Path, candidates: Sequence[Path], options: CompareOptions
) -> ComparisonSet:
    """Compare all runs under the paths.

    With several candidates, each interval is widened (Bonferroni) so that all verdicts hold together.

    Args:
        baseline: The folder of the baseline.
        candidates: The folders of the candidates; a repeated folder counts once.
        options: How to compare.

    Raises:
        UsageError: A path has no run, two runs of one benchmark, or no benchmark in common with the baseline.
    """
    candidates = list(dict.fromkeys(candidates))
    if len(candidates) > 1:
        options = replace(options, confidence=1 - (1 - options.confidence) / len(candidates))
    baseline_runs = _runs(baseline)
    several_benchmarks = False
    entries = []
    warnings = []
    for path in candidates:
        candidate_runs = _runs(path)
        several_benchmarks = several_benchmarks or len(baseline_runs) > 1 or len(candidate_runs) > 1
        matched = match_bundles(baseline_runs, candidate_runs)
        warnings += [f"{name} is only in {baseline}" for name in matched.only_baseline]
        warnings += [f"{name} is only in {path}" for name in matched.only_candidate]
        if not matched.pairs:
            benchmark_names = f"{', '.join(baseline_runs)} and {', '.join(candidate_runs)}"
            raise UsageError(
                f"{baseline} and {path} have no benchmark in common: {benchmark_names}"
            )
        for name, (baseline_run, candidate_run) in matched.pairs.items():
            entries.append(
                Entry(
                    str(path),
                    name,
                    candidate_run.path.parent,
                    report=compare_runs(baseline_run, candidate_run, options),
                )
            )
    return ComparisonSet(entries, len(candidates) > 1, several_benchmarks, warnings=warnings)


def _runs(path: Path) -> dict[str, Bundle]:
    """The runs under a path, by benchmark.

    Raises:
        UsageError: There is none, or several of one benchmark. Its exit code is 2, because 1 means BLOCK.
    """
    try:
        runs = discover_bundles(path)
        if not runs:
            hint = "give the output directory of a finished run"
            raise UsageError(f"no bundle (eval-*.json) under {path}", hint=hint)
    except UsageError as error:
        error.exit_code = 2
        raise
    return runs
