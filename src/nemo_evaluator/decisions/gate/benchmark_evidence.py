"""The evidence of a gate on one benchmark: its paired rows, the margins to its limits, and what weakens them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from nemo_evaluator.config.gate_policy import GATED_METRICS, GatePolicy, PolicyDefaults
from nemo_evaluator.core.wording import counted
from nemo_evaluator.decisions.calibrate.labelled_pair import LabelledPair
from nemo_evaluator.decisions.compare.comparability import (
    WORDS,
    SettingDifference,
    caveats,
    unanswered_words,
)
from nemo_evaluator.decisions.compare.comparison import Comparison
from nemo_evaluator.decisions.compare.options import CompareOptions
from nemo_evaluator.decisions.gate.report import BenchmarkGate, Remedy, Status
from nemo_evaluator.decisions.gate.thresholds import Measured, Measurement, corrected, measure
from nemo_evaluator.decisions.pairing import Pairing, hidden_loss, imagined, missing_rows
from nemo_evaluator.decisions.usability import rows_of_run, tampered_too_much, unfit
from nemo_evaluator.runs.bundle import Bundle
from nemo_evaluator.runs.row_table import RowTable
from nemo_evaluator.statistics import ANYTIME, Spending


@dataclass(frozen=True, slots=True)
class BenchmarkEvidence:
    """Measures one benchmark of a gate; what it learns on the way goes into the entry and the warnings.

    Attributes:
        entry: The benchmark's entry in the report.
        policy: The policy.
        warnings: The warnings of the report.
        details: Attach the full comparison to the entry.
    """

    entry: BenchmarkGate
    policy: GatePolicy
    warnings: list[str]
    details: bool

    @property
    def limits(self) -> PolicyDefaults:
        """What the policy says about this benchmark."""
        return self.policy.resolve(self.entry.benchmark)

    def measurement(self, baseline: Bundle, candidate: Bundle) -> Measurement | None:
        """Measure the margins to the benchmark's limits.

        Args:
            baseline: The baseline's run of the benchmark.
            candidate: The candidate's run of it.

        Returns:
            The measurement; None when the runs cannot decide, and the entry says why.
        """
        compared = self._comparison(baseline, candidate)
        if compared is None:
            return None
        self._warn_of_limitations(compared)
        if self.details and self._scorer is None:
            self.entry.regression = compared.report()
        default_metric = "pass@1" if compared.pairing.lattice else "mean_reward"
        self.entry.metric = self.limits.metric or default_metric
        self.entry.n_paired = len(compared.pairing)
        invalid_reasons = _invalid_reasons(compared, self.limits)
        if invalid_reasons:
            self.entry.status = Status.INVALID
            self.entry.reasons = invalid_reasons
        if self.entry.n_paired < self.limits.min_paired:
            _note_too_few(self.entry, self.limits.min_paired)
            return None
        few_clusters = compared.pairing.few_clusters
        if few_clusters:
            self.entry.reasons += few_clusters
            return None
        measurement = self._measure(compared)
        # The entry of an invalid benchmark shows its numbers, but they do not count.
        return None if invalid_reasons else measurement

    @property
    def _scorer(self) -> str | None:
        """The additional scorer whose rewards are gated; None for the benchmark's own rewards."""
        return _extra_scorer(self.limits)

    def _comparison(self, baseline: Bundle, candidate: Bundle) -> Comparison | None:
        """Pair the rows of both runs; None, with a reason, when the gated scorer rewarded none of them."""
        options = CompareOptions(
            self.limits.max_drop,
            confidence=self.policy.confidence,
            seed=self.policy.seed,
            direction=self.limits.direction,
        )
        baseline_rows = _gated_rows(baseline, self.limits, options.better)
        candidate_rows = _gated_rows(candidate, self.limits, options.better)
        any_scored = baseline_rows.scored.any() or candidate_rows.scored.any()
        if self._scorer is not None and not any_scored:
            self.entry.reasons.append(f"no row has a reward of {self._scorer!r}")
            return None
        return Comparison(baseline, candidate, baseline_rows, right=candidate_rows, options=options)

    def _warn(self, notes: list[str]) -> None:
        """Add warnings to the report, each with the name of the benchmark."""
        for note in notes:
            self.warnings.append(f"{self.entry.benchmark}: {note}")

    def _warn_of_limitations(self, compared: Comparison) -> None:
        """Add warnings about what weakens a comparison without deciding it."""
        limitations = caveats(
            compared.runs,
            compared.rows,
            compared.pairing,
            differences=compared.differences,
        )
        self._warn(limitations)
        if compared.noise is not None:
            self._warn([compared.noise.words])
        options = compared.options
        self._warn(hidden_loss(compared.missing, options.max_drop, options.better))

    def _measure(self, compared: Comparison) -> Measurement:
        """The margins, the doubts about them, and the margins with failed rows counted either way."""
        # A missing reward of an additional scorer is not a failure, and people did not label that scorer.
        by_rows = self._scorer is None
        spending = ANYTIME if self.policy.sequential else compared.spending
        labelled: LabelledPair | None = None
        if by_rows and self._counts_rewards(compared.pairing):
            labelled, label_notes = compared.labelled(spending)
            self._warn(label_notes)

        def measured_on(pairs: Pairing) -> Measured:
            """The margins on these pairs, corrected by labels if both sides have them."""
            return self._margins(pairs, compared, spending, labelled=labelled)

        measurement = Measurement(
            entry=self.entry,
            measured=measured_on(compared.pairing),
            pairing=compared.pairing,
            doubts=_doubts(compared, self.limits),
            rows=compared.rows,
            labelled=labelled is not None,
        )
        self._warn(measurement.measured.notes)
        _fill_scores(self.entry, measurement.measured, compared.pairing, labelled)
        if by_rows:
            self._count_failed_rows(measurement, compared, measured_on)
        if by_rows and labelled is None and self._counts_rewards(compared.pairing):
            measurement.noise = compared.noise
            measurement.note_noise()
        return measurement

    def _counts_rewards(self, pairing: Pairing) -> bool:
        """Whether the gated numbers are the rewards themselves, and not only whether they exceed 0."""
        return self.limits.metric != "pass@1" or pairing.lattice

    def _margins(
        self,
        pairs: Pairing,
        compared: Comparison,
        spending: Spending,
        *,
        labelled: LabelledPair | None,
    ) -> Measured:
        """The margins on some pairs, corrected by labels if both sides have them.

        Args:
            pairs: The paired rows, or those with failed rows filled in.
            compared: The comparison of the two runs.
            spending: How the error is divided.
            labelled: Both runs with their labels; None without labels.
        """
        confidence = self.policy.confidence
        measured = measure(pairs, self.limits, confidence=confidence, spending=spending)
        if labelled is None:
            return measured
        filled_mean = pairs.differences.mean()
        observed_mean = compared.pairing.differences.mean()
        return corrected(
            measured,
            labelled,
            compared.options.better,
            confidence=confidence,
            moved=float(filled_mean - observed_mean),
        )

    def _count_failed_rows(
        self,
        measurement: Measurement,
        compared: Comparison,
        measured_on: Callable[[Pairing], Measured],
    ) -> None:
        """Add the margins with failed rows counted either way; a doubt if nothing bounds what they hide."""
        pairing = measurement.pairing
        missing_counts = missing_rows(compared.runs, compared.rows)
        if not any(missing_counts):
            return
        if not pairing.bounded:
            failed = counted(sum(missing_counts), "row")
            explanation = "rewards beyond [0, 1] set no bound to what they hide"
            measurement.doubts.append(f"{failed} failed, and {explanation}")
            return
        better = compared.options.better
        filled_against = imagined(compared.runs, compared.rows, pairing, better=better)
        filled_in_favour = imagined(compared.runs, compared.rows, pairing, better=-better)
        measurement.worst = measured_on(filled_against)
        measurement.best = measured_on(filled_in_favour)
        alpha = (1 - self.policy.confidence) / 2
        measurement.note_missing(missing_counts, alpha)


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
    doubts: list[str] = []
    for setting in compared.differences:
        if setting.kind == "scorer":
            doubts.append(str(setting))
        elif _is_other_default(setting):
            doubts.append(f"{setting}: one side left it to a default; set it on both")
    for side_name, rows in zip(WORDS, compared.rows, strict=True):
        if rows.unanswered_share > limits.max_unanswered:
            doubts.append(unanswered_words(side_name, rows))
    doubts += compared.pairing.scarce
    for side_name, run, rows in zip(WORDS, compared.runs, compared.rows, strict=True):
        for reason in tampered_too_much(run, rows):
            doubts.append(f"{side_name} {reason}")
    return doubts


def _is_other_default(setting: SettingDifference) -> bool:
    """Whether only one side set a generation setting, or the order that selects the problems.

    Command, config and Python API may have other defaults; two values that people chose are their decision.
    """
    is_unset_once = (setting.baseline is None) != (setting.candidate is None)
    return is_unset_once and (setting.kind == "generation" or setting.what == "shuffle_seed")


def _note_too_few(entry: BenchmarkGate, minimum: int) -> None:
    """Add the reason that fewer than ``minimum`` problems paired, and how many the policy requires."""
    paired = entry.n_paired
    if not paired:
        entry.reasons.append("no problem pairs")
        return
    problems = counted(paired, "problem")
    entry.reasons.append(f"only {problems} paired, the policy asks for {minimum:,}")
    entry.remedy = Remedy(
        problems_needed=minimum,
        repeats_needed=None,
        words=f"at least {minimum:,} paired problems (now {paired:,}), as the policy requires",
    )


def _fill_scores(
    entry: BenchmarkGate, measured: Measured, pairing: Pairing, labelled: LabelledPair | None
) -> None:
    """Write the scores and their difference into the entry; all are corrected if both sides have labels."""
    delta = measured.delta
    if labelled is None:
        baseline_score = float(pairing.baseline.rewards.mean())
        candidate_score = float(pairing.candidate.rewards.mean())
    else:
        corrected_baseline, corrected_candidate = labelled.scores()
        baseline_score = corrected_baseline.value
        candidate_score = corrected_candidate.value
    entry.in_points = pairing.bounded
    entry.baseline_score = round(baseline_score, 6)
    entry.candidate_score = round(candidate_score, 6)
    entry.delta = round(delta.value, 6)
    entry.relative_drop_pct = None
    if baseline_score:
        entry.relative_drop_pct = round(100 * delta.value / baseline_score, 4)
    entry.delta_ci_lower = delta.lower
    entry.delta_ci_upper = delta.upper
    entry.ci_method = delta.method


def _invalid_reasons(compared: Comparison, limits: PolicyDefaults) -> list[str]:
    """Why the numbers of a benchmark must not be used, whatever they are."""
    reasons: list[str] = []
    for side_name, run, rows in zip(WORDS, compared.runs, compared.rows, strict=True):
        for reason in unfit(run, rows, min_coverage=limits.min_coverage):
            reasons.append(f"{side_name} {reason}")
    limit = limits.max_truncated
    _, candidate = compared.rows
    truncated = candidate.truncated[candidate.scored]
    if limit is None or len(truncated) == 0:
        return reasons
    truncated_share = truncated.mean()
    if truncated_share > limit:
        reasons.append(
            f"{truncated_share:.1%} of the candidate's answers are cut off, at most {limit:.0%} may be"
        )
    return reasons
