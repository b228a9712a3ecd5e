"""The gate: GO, NO-GO or INCONCLUSIVE for a candidate under a policy.

A GO needs proof on *every* required benchmark, so it needs no correction for their number: a bad benchmark passes with
at most the error probability of its own test. A NO-GO needs proof on *any* benchmark, so there the number counts: the
policy's correction applies within each tier, so that supporting benchmarks do not dilute a critical one.
"""

from pathlib import Path

from nemo_evaluator.config.gate_policy import GATED_METRICS, GatePolicy, load_gate_policy
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.registry import nearest
from nemo_evaluator.decisions.compare.comparability import WORDS
from nemo_evaluator.decisions.gate.benchmark_evidence import BenchmarkEvidence
from nemo_evaluator.decisions.gate.data_needed import remedy_for
from nemo_evaluator.decisions.gate.decision import aggregate
from nemo_evaluator.decisions.gate.report import BenchmarkGate, GateReport, Remedy, Status
from nemo_evaluator.decisions.gate.thresholds import Measurement, settle
from nemo_evaluator.decisions.match import discover_bundles, match_bundles
from nemo_evaluator.runs.unfinished import find_unfinished


def gate_runs(
    baseline: Path | str,
    candidate: Path | str,
    policy: GatePolicy | Path | str | None = None,
    *,
    details: bool = True,
) -> GateReport:
    """Decide on a candidate.

    Args:
        baseline: The baseline's folder or one of its bundles.
        candidate: The candidate's folder or one of its bundles.
        policy: The policy or its file; None for the default policy.
        details: Attach the full comparison of each benchmark.

    Returns:
        The decision with the evidence of each benchmark.

    Raises:
        UsageError: A folder has no results, or the policy gates a metric that cannot be gated.
    """
    if isinstance(policy, GatePolicy):
        rules = policy
    elif policy:
        rules = load_gate_policy(policy)
    else:
        rules = GatePolicy()
    return _Gate(Path(baseline), Path(candidate), rules, details=details).report()


class _Gate:
    """One decision: the steps of ``report``, from top to bottom, are the rules."""

    def __init__(self, baseline: Path, candidate: Path, policy: GatePolicy, details: bool) -> None:
        """Find the runs of both sides and match them by benchmark name.

        Args:
            baseline: The baseline's folder or one of its bundles.
            candidate: The candidate's folder or one of its bundles.
            policy: The policy.
            details: Attach the full comparison of each benchmark.
        """
        self._paths = (baseline, candidate)
        self._policy = policy
        self._details = details
        self._alpha = (1 - policy.confidence) / 2
        # A bundle file stands for its folder.
        folders = [path.parent if path.is_file() else path for path in self._paths]
        self._baseline = discover_bundles(folders[0])
        self._candidate = discover_bundles(folders[1])
        self._matched = match_bundles(self._baseline, self._candidate, by_name=True)
        self._warnings: list[str] = []
        self._warn_of_runs(folders)

    def _warn_of_runs(self, folders: list[Path]) -> None:
        """Add warnings about benchmarks that only one side has, and about runs that did not finish."""
        for name in self._matched.only_baseline:
            self._warnings.append(f"{name} is only in the baseline")
        for name in self._matched.only_candidate:
            self._warnings.append(f"{name} is only in the candidate")
        for side_name, folder in zip(WORDS, folders, strict=True):
            for unfinished in find_unfinished(folder):
                problem = f"{unfinished.name} did not finish: {unfinished.reason}"
                self._warnings.append(f"{side_name}: {problem}")

    def report(self) -> GateReport:
        """Measure every benchmark, give each a status, and combine them into the decision."""
        policy = self._policy
        entries = [self._entry(name) for name in self._matched.pairs]
        measurements = self._measurements(entries)
        settle(measurements, correction=policy.correction, alpha=self._alpha)
        for measurement in measurements:
            self._add_remedy(measurement, _tests_in_tier(measurements, measurement.entry.tier))
        missing = [name for name in policy.required() if name not in self._matched.pairs]
        for name in missing:
            entries.append(self._missing_entry(name))
        verdict, reasons = aggregate(entries)
        baseline, candidate = self._paths
        return GateReport(
            verdict=verdict,
            reasons=reasons,
            benchmarks=entries,
            missing=missing,
            warnings=self._warnings,
            baseline=str(baseline),
            candidate=str(candidate),
            confidence=policy.confidence,
            correction=policy.correction,
            sequential=policy.sequential,
        )

    def _measurements(self, entries: list[BenchmarkGate]) -> list[Measurement]:
        """Measure the benchmarks; those that cannot decide are left out, and their entries say why."""
        measurements: list[Measurement] = []
        for entry in entries:
            baseline, candidate = self._matched.pairs[entry.benchmark]
            evidence = BenchmarkEvidence(
                entry=entry,
                policy=self._policy,
                warnings=self._warnings,
                details=self._details,
            )
            measurement = evidence.measurement(baseline, candidate)
            if measurement is not None:
                measurements.append(measurement)
        return measurements

    def _add_remedy(self, measurement: Measurement, tests: int) -> None:
        """Add what would settle an open benchmark.

        Args:
            measurement: The measured benchmark.
            tests: The number of measured benchmarks in its tier.
        """
        entry = measurement.entry
        unproved = measurement.unproved(self._alpha)
        if entry.status is not Status.INSUFFICIENT or not unproved or measurement.rows is None:
            return
        if measurement.labelled:
            entry.remedy = Remedy(
                problems_needed=None,
                repeats_needed=None,
                words="more labels on both runs: nel judge sample RUN --replace",
            )
            return
        if self._policy.correction == "none":
            tests = 1
        # Holm's level for the first breach among all limits of the tier.
        limits_in_tier = tests * len(measurement.measured.limits)
        baseline, _ = self._matched.pairs[entry.benchmark]
        entry.remedy = remedy_for(
            measurement.pairing,
            measurement.rows,
            unproved,
            alpha=self._alpha,
            breach_alpha=self._alpha / limits_in_tier,
            available=baseline.dataset_size,
        )

    def _missing_entry(self, name: str) -> BenchmarkGate:
        """The entry of a benchmark that the policy requires and a side does not have."""
        entry = self._entry(name)
        entry.status = Status.MISSING
        missing_in: list[str] = []
        if name not in self._baseline:
            missing_in.append("baseline")
        if name not in self._candidate:
            missing_in.append("candidate")
        sides = " nor in the ".join(missing_in)
        entry.reasons.append(f"required by the policy, but not in the {sides}")
        other_names = {*self._baseline, *self._candidate} - {*self._policy.benchmarks}
        similar_name = nearest(name, sorted(other_names))
        if similar_name:
            entry.reasons.append(f"did the policy mean {similar_name!r}?")
        return entry

    def _entry(self, name: str) -> BenchmarkGate:
        """The entry of a benchmark, with its limits from the policy and no evidence yet.

        Raises:
            UsageError: The policy gates a metric that cannot be gated.
        """
        limits = self._policy.resolve(name)
        gateable = limits.metric in (None, *GATED_METRICS)
        if limits.tier != "advisory" and not gateable:
            hint = f"use {' or '.join(GATED_METRICS)}, or make the tier advisory"
            raise UsageError(f"{name}: metric {limits.metric!r} cannot be gated", hint=hint)
        return BenchmarkGate(
            benchmark=name,
            tier=limits.tier,
            status=Status.INSUFFICIENT,
            metric=limits.metric,
            direction=limits.direction,
            max_drop_threshold=limits.max_drop,
            max_relative_drop_threshold=limits.max_relative_drop,
        )


def _tests_in_tier(measurements: list[Measurement], tier: str) -> int:
    """The number of measured benchmarks in a tier."""
    return sum(measurement.entry.tier == tier for measurement in measurements)
