"""The gate: GO, NO-GO or INCONCLUSIVE for a candidate under a policy.

A GO needs proof on *every* required benchmark, so it needs no correction for their number: a bad benchmark passes with
at most the error probability of its own test. A NO-GO needs proof on *any* benchmark, so there the number counts: the
policy's correction applies within each tier, so that supporting benchmarks do not dilute a critical one.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from nemo_evaluator.config.gate_policy import (
    GATED_METRICS,
    GatePolicy,
    PolicyDefaults,
    load_gate_policy,
)
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.registry import nearest
from nemo_evaluator.core.wording import counted
from nemo_evaluator.decisions.compare.comparability import WORDS, caveats, unanswered_words
from nemo_evaluator.decisions.compare.comparison import Comparison
from nemo_evaluator.decisions.compare.options import CompareOptions
from nemo_evaluator.decisions.gate.data_needed import remedy_for
from nemo_evaluator.decisions.gate.report import (
    BenchmarkGate,
    GateReport,
    GateVerdict,
    Remedy,
    Status,
)
from nemo_evaluator.decisions.gate.thresholds import (
    Measured,
    Measurement,
    corrected,
    measure,
    settle,
)
from nemo_evaluator.decisions.match import discover_bundles, match_bundles
from nemo_evaluator.decisions.pairing import Pairing, hidden_loss, imagined, missing_rows
from nemo_evaluator.decisions.usability import rows_of_run, tampered_too_much, unfit
from nemo_evaluator.runs.bundle import Bundle
from nemo_evaluator.runs.row_table import RowTable
from nemo_evaluator.runs.unfinished import find_unfinished
from nemo_evaluator.statistics import ANYTIME


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
        for name in self._matched.only_baseline:
            self._warnings.append(f"{name} is only in the baseline")
        for name in self._matched.only_candidate:
            self._warnings.append(f"{name} is only in the candidate")
        for side_name, folder in zip(WORDS, folders, strict=True):
            for unfinished in find_unfinished(folder):
                self._warnings.append(
                    f"{side_name}: {unfinished.name} did not finish: {unfinished.reason}"
                )

    def report(self) -> GateReport:
        """Measure every benchmark, give each a status, and combine them into the decision."""
        policy = self._policy
        entries: list[BenchmarkGate] = []
        measurements: list[Measurement] = []
        for name in self._matched.pairs:
            entries.append(self._entry(name))
        for entry in entries:
            baseline, candidate = self._matched.pairs[entry.benchmark]
            measurement = self._measure(entry, baseline, candidate)
            if measurement is not None:
                measurements.append(measurement)
        settle(measurements, correction=policy.correction, alpha=self._alpha)
        for measurement in measurements:
            tier = measurement.entry.tier
            tests = sum(peer.entry.tier == tier for peer in measurements)
            self._add_remedy(measurement, tests)
        missing = [name for name in policy.required() if name not in self._matched.pairs]
        for name in missing:
            entries.append(self._missing_entry(name))
        verdict, reasons = aggregate(entries)
        return GateReport(
            verdict=verdict,
            reasons=reasons,
            benchmarks=entries,
            missing=missing,
            warnings=self._warnings,
            baseline=str(self._paths[0]),
            candidate=str(self._paths[1]),
            confidence=policy.confidence,
            correction=policy.correction,
            sequential=policy.sequential,
        )

    def _add_remedy(self, measurement: Measurement, tests: int) -> None:
        """Add what would settle an open benchmark; ``tests`` is the number of benchmarks in its tier."""
        entry = measurement.entry
        unproved = measurement.unproved(self._alpha)
        if entry.status is not Status.INSUFFICIENT or not unproved or measurement.rows is None:
            return
        if measurement.labelled:
            more_labels = "more labels on both runs: nel judge sample RUN --replace"
            entry.remedy = Remedy(None, None, more_labels)
            return
        # Holm's level for the first breach among all limits of the tier.
        if self._policy.correction == "none":
            tests = 1
        breach_alpha = self._alpha / (tests * len(measurement.measured.limits))
        baseline, _ = self._matched.pairs[entry.benchmark]
        entry.remedy = remedy_for(
            measurement.pairing,
            measurement.rows,
            unproved,
            alpha=self._alpha,
            breach_alpha=breach_alpha,
            available=baseline.dataset_size,
        )

    def _missing_entry(self, name: str) -> BenchmarkGate:
        """The entry of a benchmark that the policy requires and a side does not have."""
        entry = self._entry(name)
        entry.status = Status.MISSING
        named_sides = ("baseline", self._baseline), ("candidate", self._candidate)
        missing_in = [side_name for side_name, runs in named_sides if name not in runs]
        entry.reasons.append(
            f"required by the policy, but not in the {' nor in the '.join(missing_in)}"
        )
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

    def _measure(self, entry: BenchmarkGate, left: Bundle, right: Bundle) -> Measurement | None:
        """The evidence on one benchmark; None when it cannot decide, and the entry says why."""
        policy = self._policy
        limits = policy.resolve(entry.benchmark)
        options = CompareOptions(
            limits.max_drop,
            confidence=policy.confidence,
            seed=policy.seed,
            direction=limits.direction,
        )
        scorer = _extra_scorer(limits)
        baseline_rows = _gated_rows(left, limits, options.better)
        candidate_rows = _gated_rows(right, limits, options.better)
        any_scored = baseline_rows.scored.any() or candidate_rows.scored.any()
        if scorer is not None and not any_scored:
            entry.reasons.append(f"no row has a reward of {scorer!r}")
            return None
        compared = Comparison(left, right, baseline_rows, right=candidate_rows, options=options)
        pairing = compared.pairing
        self._warn_of_limitations(entry, compared, options)
        if self._details and scorer is None:
            entry.regression = compared.report()
        default_metric = "pass@1" if pairing.lattice else "mean_reward"
        entry.metric = limits.metric or default_metric
        entry.n_paired = len(pairing)
        invalid_reasons = _invalid_reasons(compared, limits)
        if invalid_reasons:
            entry.status = Status.INVALID
            entry.reasons = invalid_reasons
        if len(pairing) < limits.min_paired:
            _note_too_few(entry, limits)
            return None
        measurement = self._evidence(
            entry, compared, limits, better=options.better, by_rows=scorer is None
        )
        return None if invalid_reasons else measurement

    def _warn_of_limitations(
        self, entry: BenchmarkGate, compared: Comparison, options: CompareOptions
    ) -> None:
        """Add warnings about what weakens a comparison without deciding it."""
        notes = caveats(
            compared.runs, compared.rows, compared.pairing, differences=compared.differences
        )
        self._warn(entry, notes)
        self._warn(entry, hidden_loss(compared.missing, options.max_drop, options.better))

    def _evidence(
        self,
        entry: BenchmarkGate,
        compared: Comparison,
        limits: PolicyDefaults,
        better: float,
        *,
        by_rows: bool,
    ) -> Measurement:
        """The margins, the doubts about them, and the margins with failed rows counted either way.

        ``by_rows`` is False for an additional scorer, where a missing reward is not a failure.
        """
        pairing = compared.pairing
        confidence = self._policy.confidence
        spending = ANYTIME if self._policy.sequential else compared.spending
        labelled = None
        if by_rows and (limits.metric != "pass@1" or pairing.lattice):
            labelled, label_notes = compared.labelled(spending)
            self._warn(entry, label_notes)

        def measured_on(pairs: Pairing) -> Measured:
            """The margins on these pairs, corrected by labels if both sides have them."""
            measured = measure(pairs, limits, confidence=confidence, spending=spending)
            if labelled is None:
                return measured
            shift = float(pairs.differences.mean() - pairing.differences.mean())
            return corrected(measured, labelled, better, confidence=confidence, moved=shift)

        measurement = Measurement(
            entry,
            measured_on(pairing),
            pairing,
            doubts=_doubts(compared, limits),
            rows=compared.rows,
            labelled=labelled is not None,
        )
        self._warn(entry, measurement.measured.notes)
        _fill_scores(entry, measurement.measured, pairing)
        if by_rows:
            self._count_failed_rows(measurement, compared, better, measured_on=measured_on)
        return measurement

    def _count_failed_rows(
        self,
        measurement: Measurement,
        compared: Comparison,
        better: float,
        *,
        measured_on: Callable[[Pairing], Measured],
    ) -> None:
        """Add the margins with failed rows counted either way; a doubt if nothing bounds what they hide."""
        pairing = measurement.pairing
        missing_counts = missing_rows(compared.runs, compared.rows)
        if not any(missing_counts):
            return
        if not pairing.bounded:
            explanation = "rewards beyond [0, 1] set no bound to what they hide"
            measurement.doubts.append(
                f"{counted(sum(missing_counts), 'row')} failed, and {explanation}"
            )
            return
        filled_against = imagined(compared.runs, compared.rows, pairing, better=better)
        filled_in_favour = imagined(compared.runs, compared.rows, pairing, better=-better)
        measurement.worst = measured_on(filled_against)
        measurement.best = measured_on(filled_in_favour)
        measurement.note_missing(missing_counts, self._alpha)

    def _warn(self, entry: BenchmarkGate, notes: list[str]) -> None:
        """Add warnings to the report, each with the name of its benchmark."""
        self._warnings += [f"{entry.benchmark}: {note}" for note in notes]


def _extra_scorer(limits: PolicyDefaults) -> str | None:
    """The additional scorer whose rewards are gated; None for the benchmark's own rewards."""
    if limits.metric is None or limits.metric in GATED_METRICS:
        return None
    return limits.metric


def _gated_rows(run: Bundle, limits: PolicyDefaults, better: float) -> RowTable:
    """The rows of a run with the rewards of the gated metric; for pass@1, whether each answer is right."""
    rows = rows_of_run(run, scorer=_extra_scorer(limits), better=better)
    if limits.metric == "pass@1":
        rows.reward = np.where(rows.scored, rows.reward > 0, np.nan)
    return rows


def _doubts(compared: Comparison, limits: PolicyDefaults) -> list[str]:
    """Reasons that keep a good result from being proof."""
    doubts = [str(setting) for setting in compared.differences if setting.kind == "scorer"]
    for side_name, rows in zip(WORDS, compared.rows, strict=True):
        if rows.unanswered_share > limits.max_unanswered:
            doubts.append(unanswered_words(side_name, rows))
    doubts += compared.pairing.scarce
    for side_name, run, rows in zip(WORDS, compared.runs, compared.rows, strict=True):
        for reason in tampered_too_much(run, rows):
            doubts.append(f"{side_name} {reason}")
    return doubts


def _note_too_few(entry: BenchmarkGate, limits: PolicyDefaults) -> None:
    """Add the reason that too few problems paired, and how many the policy requires."""
    paired = entry.n_paired
    minimum = limits.min_paired
    if not paired:
        entry.reasons.append("no problem pairs")
        return
    entry.reasons.append(
        f"only {counted(paired, 'problem')} paired, the policy asks for {minimum:,}"
    )
    remedy_words = f"at least {minimum:,} paired problems (now {paired:,}), as the policy requires"
    entry.remedy = Remedy(minimum, None, remedy_words)


def aggregate(entries: list[BenchmarkGate]) -> tuple[GateVerdict, list[str]]:
    """Combine the benchmarks into the decision. Advisory benchmarks do not count.

    - NO-GO: a benchmark is a BREACH or MISSING.
    - INCONCLUSIVE: a benchmark is unproved or INVALID, or there is none.
    - GO: every benchmark is proved to keep its limits.

    Returns:
        The decision and its reasons.
    """
    required = [entry for entry in entries if entry.tier != "advisory"]
    blocking = [entry for entry in required if entry.status in (Status.BREACH, Status.MISSING)]
    if blocking:
        return GateVerdict.NO_GO, [_reason(entry) for entry in blocking]
    unproved = [entry for entry in required if entry.status is not Status.PASS]
    if unproved:
        return GateVerdict.INCONCLUSIVE, [_reason(entry) for entry in unproved]
    if not required:
        return GateVerdict.INCONCLUSIVE, ["no benchmark was evaluated, so nothing can be approved"]
    if len(required) == 1:
        return GateVerdict.GO, ["the benchmark keeps its limits"]
    return GateVerdict.GO, [f"all {len(required)} benchmarks keep their limits"]


def _reason(entry: BenchmarkGate) -> str:
    """The benchmark, its verdict and its first reason."""
    verdict = f"{entry.benchmark} ({entry.tier}): {entry.word}"
    if not entry.reasons:
        return verdict
    return f"{verdict}: {entry.reasons[0]}"


def _fill_scores(entry: BenchmarkGate, measured: Measured, pairing: Pairing) -> None:
    """Write the scores and their difference into the entry."""
    delta = measured.delta
    baseline_score = float(pairing.baseline.rewards.mean())
    candidate_score = float(pairing.candidate.rewards.mean())
    entry.in_points = pairing.bounded
    entry.baseline_score = round(baseline_score, 6)
    entry.candidate_score = round(candidate_score, 6)
    entry.delta = round(delta.value, 6)
    entry.relative_drop_pct = (
        round(100 * delta.value / baseline_score, 4) if baseline_score else None
    )
    entry.delta_ci_lower = delta.lower
    entry.delta_ci_upper = delta.upper
    entry.ci_method = delta.method


def _invalid_reasons(compared: Comparison, limits: PolicyDefaults) -> list[str]:
    """Why the numbers of a benchmark must not be used, whatever they are."""
    reasons: list[str] = []
    for side_name, run, rows in zip(WORDS, compared.runs, compared.rows, strict=True):
        for reason in unfit(run, rows, min_coverage=limits.min_coverage):
            reasons.append(f"{side_name} {reason}")
    candidate = compared.rows[1]
    truncated = candidate.truncated[candidate.scored]
    limit = limits.max_truncated
    if limit is not None and len(truncated) and truncated.mean() > limit:
        reasons.append(
            f"{truncated.mean():.1%} of the candidate's answers are cut off, at most {limit:.0%} may be"
        )
    return reasons
