"""Several comparisons at once: a folder of benchmarks, or several candidates against one baseline."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.decisions.compare.compare_runs import CompareOptions, compare_runs
from nemo_evaluator.decisions.compare.report import RegressionReport
from nemo_evaluator.decisions.compare.verdict import Verdict, worst
from nemo_evaluator.decisions.match import discover_bundles, match_bundles
from nemo_evaluator.runs.bundle import Bundle


@dataclass(frozen=True, slots=True)
class Entry:
    """One comparison of a set."""

    candidate: str
    benchmark: str
    folder: Path
    report: RegressionReport


@dataclass(slots=True)
class ComparisonSet:
    """All comparisons of one call; the verdict is the worst of theirs."""

    entries: list[Entry]
    several_candidates: bool
    several_benchmarks: bool
    warnings: list[str] = field(default_factory=list)

    @property
    def verdict(self) -> Verdict:
        return worst(entry.report.verdict for entry in self.entries)

    def to_dict(self) -> JsonDict:
        """One report as it is; several benchmarks by name; several candidates by path."""
        if not self.several_candidates:
            return self._benchmarks(self.entries)
        names = dict.fromkeys(entry.candidate for entry in self.entries)
        mapping: dict[str, Any] = {}
        for name in names:
            mapping[name] = self._benchmarks([e for e in self.entries if e.candidate == name])
        return mapping

    def _benchmarks(self, entries: list[Entry]) -> JsonDict:
        if self.several_benchmarks:
            return {entry.benchmark: entry.report.to_dict() for entry in entries}
        return entries[0].report.to_dict()


def compare_paths(
    baseline: Path, candidates: Sequence[Path], options: CompareOptions
) -> ComparisonSet:
    """Compare everything the paths hold. With several candidates each interval is widened (Bonferroni), so that all
    verdicts hold together."""
    candidates = list(dict.fromkeys(candidates))
    if len(candidates) > 1:
        options = replace(options, confidence=1 - (1 - options.confidence) / len(candidates))
    left = _runs(baseline)
    several = False
    entries = []
    warnings = []
    for path in candidates:
        right = _runs(path)
        several = several or len(left) > 1 or len(right) > 1
        matched = match_bundles(left, right)
        warnings += [f"{name} is only in {baseline}" for name in matched.only_baseline]
        warnings += [f"{name} is only in {path}" for name in matched.only_candidate]
        if not matched.pairs:
            names = f"{', '.join(left)} and {', '.join(right)}"
            raise UsageError(f"{baseline} and {path} have no benchmark in common: {names}")
        for name, (one, two) in matched.pairs.items():
            entries.append(
                Entry(str(path), name, two.path.parent, report=compare_runs(one, two, options))
            )
    return ComparisonSet(entries, len(candidates) > 1, several, warnings=warnings)


def _runs(path: Path) -> dict[str, Bundle]:
    """The runs of a path; a path that leads nowhere ends with 2, so that it is not taken for a BLOCK."""
    try:
        runs = discover_bundles(path)
        if not runs:
            hint = "give the output directory of a finished run"
            raise UsageError(f"no bundle (eval-*.json) under {path}", hint=hint)
    except UsageError as error:
        error.exit_code = 2
        raise
    return runs
