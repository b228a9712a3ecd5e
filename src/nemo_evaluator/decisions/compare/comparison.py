"""Candidate against baseline on one benchmark: the verdict on the paired mean difference, and its evidence."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from nemo_evaluator.core.wording import counted
from nemo_evaluator.decisions.calibrate.labelled_pair import LabelledPair, labelled_pair
from nemo_evaluator.decisions.compare.category_deltas import MOST_CATEGORIES, category_deltas
from nemo_evaluator.decisions.compare.changes import FlipReport, build_flip_report
from nemo_evaluator.decisions.compare.comparability import WORDS, caveats, differences
from nemo_evaluator.decisions.compare.options import CompareOptions
from nemo_evaluator.decisions.compare.report import Paired, RegressionReport, RunSide
from nemo_evaluator.decisions.compare.shifts import (
    Shift,
    runtime_deltas,
    score_deltas,
    shift_warnings,
    shifts,
)
from nemo_evaluator.decisions.compare.significance import significance_test
from nemo_evaluator.decisions.compare.verdict import (
    Judgement,
    Relation,
    Verdict,
    judge,
    mirrored,
    shifted,
)
from nemo_evaluator.decisions.pairing import (
    Pairing,
    hidden_loss,
    imagined,
    missing_range,
    missing_rows,
    pair,
)
from nemo_evaluator.decisions.run_noise import RunNoise, run_noise
from nemo_evaluator.decisions.usability import tampered_too_much, unfit
from nemo_evaluator.runs.bundle import Bundle
from nemo_evaluator.runs.row_table import RowTable
from nemo_evaluator.statistics import (
    Interval,
    Spending,
    detectable_effect,
    joint_spending,
    problems_needed,
    spending_of,
)
from nemo_evaluator.statistics.clusters import design_effect
from nemo_evaluator.statistics.power import first

# Equal differences are tried up to this number of problems.
_MOST_EQUAL: Final = 1_000_000
# A certain gain of more than this share of the scale deserves a warning.
_SUSPICIOUS_GAIN: Final = 0.05


class Comparison:
    """The steps of one comparison.

    Attributes:
        runs: Baseline and candidate.
        rows: Their rows.
        pairing: Their paired problems.
        differences: The settings that differ.
        spending: How the error is divided between looks and the planned end.
        missing: The range of the scores with failed rows counted either way.
        options: How to compare.
    """

    def __init__(
        self,
        baseline: Bundle,
        candidate: Bundle,
        left: RowTable,
        right: RowTable,
        options: CompareOptions,
    ) -> None:
        """Pair the problems of two runs and find what both sides need before any verdict.

        Args:
            baseline: The baseline.
            candidate: The candidate.
            left: The baseline's rows.
            right: The candidate's rows.
            options: How to compare.
        """
        self.runs = (baseline, candidate)
        self.rows = (left, right)
        self.options = options
        self.pairing = pair(left, right, options.pair_by)
        self.differences = differences(baseline, candidate)
        self.spending = joint_spending(
            spending_of(baseline.stopped), spending_of(candidate.stopped)
        )
        self.missing = missing_range(self.runs, self.rows)
        # For each side, why its scores must not be used.
        self._unfit: list[list[str]] = []
        for run, rows in zip(self.runs, self.rows, strict=True):
            self._unfit.append([*unfit(run, rows), *tampered_too_much(run, rows)])
        self._labelled, self._label_notes = self.labelled(self.spending)
        # The noise of the judge's rewards; labels correct those.
        self.noise: RunNoise | None = None
        if self._labelled is None:
            self.noise = run_noise(self.runs, self.pairing, options.confidence)

    def labelled(self, spending: Spending) -> tuple[LabelledPair | None, list[str]]:
        """The labels of both runs, where they can be used.

        Args:
            spending: How the error is divided.

        Returns:
            Both runs with their labels, None when these cannot be used; and notes for the reader.
        """
        baseline, candidate = self.runs
        by_index = self.pairing.by == "index"
        return labelled_pair(baseline, candidate, spending, by_index=by_index)

    def report(self) -> RegressionReport:
        """The verdict and its evidence."""
        pairing = self.pairing
        options = self.options
        baseline_run, candidate_run = self.runs
        baseline_rows, candidate_rows = self.rows
        interval = self._interval(pairing)
        available = baseline_run.dataset_size
        sd = _spread(pairing)
        # With labels, more labels help, not more problems.
        needed = self._needed(interval, sd) if self._labelled is None else None
        judgement = self._judgement(interval, needed)
        verdict_is_open = judgement.verdict in (Verdict.INCONCLUSIVE, Verdict.WARN)
        quantity_shifts = shifts(baseline_rows, candidate_rows)
        test, test_reason = significance_test(pairing, options)
        return RegressionReport(
            benchmark=baseline_run.name,
            baseline=self._side(0),
            candidate=self._side(1),
            verdict=judgement.verdict,
            relation=judgement.relation,
            reasons=list(judgement.reasons),
            threshold=options.max_drop,
            confidence=options.confidence,
            difference=interval,
            pairing=Paired.of(pairing),
            test=test,
            test_reason=test_reason,
            sd=sd,
            detectable=self._detectable(sd),
            needed=needed if verdict_is_open else None,
            available=available,
            score_deltas=score_deltas(baseline_run, candidate_run),
            runtime_deltas=runtime_deltas(baseline_run, candidate_run),
            category_deltas=category_deltas(
                baseline_rows, pairing, self.spending, confidence=options.confidence
            ),
            flips=self._flips(),
            shifts=quantity_shifts,
            differences=self.differences,
            missing=self.missing,
            warnings=self._warnings(interval, quantity_shifts),
            direction=options.direction,
            moved=self._moved(),
            graded=not pairing.lattice,
            raw_difference=self._raw_interval(pairing) if self._labelled is not None else None,
        )

    def _judgement(self, interval: Interval, needed: int | None) -> Judgement:
        """The judgement that the interval implies, weakened for reasons that it does not show."""
        options = self.options
        implied = judge(
            interval,
            options.max_drop,
            needed=needed,
            available=self.runs[0].dataset_size,
            better=options.better,
        )
        return self._guard(self._beyond_noise(implied, interval))

    def _beyond_noise(self, judgement: Judgement, interval: Interval) -> Judgement:
        """Make a judgement inconclusive if run-to-run noise alone could have led to it.

        A drop or gain that noise explains proves nothing. A PASS stays if the limit is kept with the noise against it.
        """
        noise = self.noise
        if noise is None:
            return judgement
        options = self.options
        gain = options.better * interval.value
        if judgement.verdict is Verdict.PASS:
            is_open = gain - noise.bound < -options.max_drop
        else:
            is_open = True
        if not is_open or not noise.covers(gain):
            return judgement
        reason = f"the difference of {interval.value:+.4f} is inside the noise: {noise.words}"
        return Judgement(Verdict.INCONCLUSIVE, judgement.relation, (reason, *judgement.reasons))

    def _moved(self) -> tuple[int, int]:
        """How many problems lost, and how many gained."""
        gain = self.options.better * self.pairing.differences
        return int((gain < 0).sum()), int((gain > 0).sum())

    def _flips(self) -> FlipReport | None:
        """The problems that changed between the runs; None without paired problems."""
        if not len(self.pairing):
            return None
        baseline_rows, candidate_rows = self.rows
        return build_flip_report(
            baseline_rows,
            candidate_rows,
            self.pairing,
            correct_above=self.options.correct_above,
            lower_is_better=self.options.better < 0,
        )

    def _needed(self, interval: Interval, sd: float | None) -> int | None:
        """How many problems would settle the comparison, assuming that the observed difference is the true one."""
        options = self.options
        if not interval.n:
            return None
        distance_to_limit = abs(options.better * interval.value + options.max_drop)
        if distance_to_limit == 0.0:
            return None
        if sd:
            independent = problems_needed(distance_to_limit, sd, alpha=options.alpha)
            return None if independent is None else math.ceil(independent * self._design_effect)

        def settled_by(problems: int) -> bool:
            """Whether so many problems with the same difference settle the comparison."""
            equal_differences = np.full(problems, interval.value)
            reading = self.pairing.reading(equal_differences, self.spending)
            verdict = self._verdict_on(reading.interval(options.confidence))
            return verdict is not Verdict.INCONCLUSIVE

        return first(settled_by, len(self.pairing) + 1, _MOST_EQUAL)

    @property
    def _design_effect(self) -> float:
        """How many paired problems are worth one independent problem."""
        return design_effect(self.pairing.differences, self.pairing.clusters)

    def _detectable(self, sd: float | None) -> float | None:
        """The smallest difference that the paired problems detect; None when it is unknown."""
        if not sd:
            return None
        independent_problems = int(len(self.pairing) / self._design_effect)
        return detectable_effect(sd, independent_problems, alpha=self.options.alpha)

    def _verdict_on(self, interval: Interval) -> Verdict:
        """The verdict that an interval implies, before anything weakens it."""
        options = self.options
        return judge(interval, options.max_drop, better=options.better).verdict

    def _guard(self, judgement: Judgement) -> Judgement:
        """Weaken a judgement for reasons that an interval does not show.

        In this order: too few clusters make every verdict inconclusive; an invalid run,
        few pairs or unbounded failed rows make everything but a BLOCK inconclusive;
        failed rows that could change the verdict weaken it; a different scorer turns a PASS into a WARN.
        """
        invalid_reasons = self._invalid_reasons()
        verdict = judgement.verdict
        relation = judgement.relation
        few_clusters = self.pairing.few_clusters
        if few_clusters:
            reasons = (*few_clusters, *invalid_reasons, *judgement.reasons)
            return Judgement(Verdict.INCONCLUSIVE, Relation.UNKNOWN, reasons)
        if invalid_reasons and verdict is not Verdict.BLOCK:
            return Judgement(Verdict.INCONCLUSIVE, relation, (*invalid_reasons, *judgement.reasons))
        if self.missing and not self._holds_with_failed_rows(verdict):
            weaker_verdict = Verdict.INCONCLUSIVE if verdict is Verdict.PASS else Verdict.WARN
            failed_rows_reason = (
                "rows that failed leave this open: it does not hold however they would have scored"
            )
            return Judgement(
                weaker_verdict, relation, (failed_rows_reason, *judgement.reasons, *invalid_reasons)
            )
        scorer_differences = [
            str(setting) for setting in self.differences if setting.kind == "scorer"
        ]
        if scorer_differences and verdict is Verdict.PASS:
            return Judgement(Verdict.WARN, relation, (*scorer_differences, *judgement.reasons))
        return Judgement(verdict, relation, (*judgement.reasons, *invalid_reasons))

    def _invalid_reasons(self) -> list[str]:
        """Why no verdict but a BLOCK can be given: invalid runs, few pairs, unbounded failed rows."""
        reasons: list[str] = []
        for side_name, side_reasons in zip(WORDS, self._unfit, strict=True):
            for reason in side_reasons:
                reasons.append(f"{side_name} {reason}")
        reasons += self.pairing.scarce
        missing_count = sum(missing_rows(self.runs, self.rows))
        if missing_count and not self.pairing.bounded:
            reasons.append(
                f"{counted(missing_count, 'row')} failed, and rewards beyond [0, 1] set no bound to what they hide"
            )
        return reasons

    def _holds_with_failed_rows(self, verdict: Verdict) -> bool:
        """Whether PASS stays PASS with every failed row counted against it, and BLOCK stays BLOCK."""
        if verdict is Verdict.PASS:
            against = self.options.better
        elif verdict is Verdict.BLOCK:
            against = -self.options.better
        else:
            return True
        pairing = imagined(self.runs, self.rows, self.pairing, better=against)
        return self._verdict_on(self._interval(pairing)) is verdict

    def _interval(self, pairing: Pairing) -> Interval:
        """The interval of the difference, corrected if both sides have labels.

        Imagined rows shift the corrected difference as much as the uncorrected one.
        """
        if self._labelled is None:
            return self._raw_interval(pairing)
        shift = float(pairing.differences.mean() - self.pairing.differences.mean())
        return shifted(self._labelled.difference().interval(self.options.confidence), shift)

    def _raw_interval(self, pairing: Pairing) -> Interval:
        """The interval of the difference of the rewards as they are."""
        reading = pairing.reading(pairing.differences, self.spending)
        return reading.interval(self.options.confidence)

    def _side(self, index: int) -> RunSide:
        """The report's entry of one side; 0 is the baseline."""
        run = self.runs[index]
        rows = self.rows[index]
        side = self.pairing.sides[index]
        score = Interval(math.nan, None, None, method="none", n=0)
        if len(side.rewards):
            score = self.spending.mean_interval(
                side.rewards,
                answers=int(side.answers.sum()),
                binary=side.binary,
                clusters=self.pairing.clusters,
                confidence=self.options.confidence,
            )
        return RunSide(
            run.run_id,
            run.config,
            str(run.path),
            score=score,
            problems=side.problems,
            rows=len(rows),
            failed_rows=int((~rows.scored).sum()),
            invalid=self._unfit[index],
            corrected=None if self._labelled is None else self._labelled.scores()[index],
        )

    def _warnings(self, difference: Interval, moved: list[Shift]) -> list[str]:
        """All warnings for the reader, those about labels first."""
        options = self.options
        warnings = list(self._label_notes)
        warnings += caveats(self.runs, self.rows, self.pairing, differences=self.differences)
        if self.noise is not None:
            warnings.append(self.noise.words)
        category_count = len(self.rows[0].categories)
        if category_count > MOST_CATEGORIES:
            warnings.append(f"{category_count:,} categories are too many to be compared one by one")
        warnings += shift_warnings(moved)
        warnings += hidden_loss(self.missing, options.max_drop, options.better)
        gain = difference if options.better > 0 else mirrored(difference)
        # Such a large gain is more often caused by a mistake in the setup.
        if gain.lower is not None and gain.lower > _SUSPICIOUS_GAIN * self.pairing.scale:
            warnings.append(
                "the candidate is better by an unusual amount: make sure that both runs are what they seem"
            )
        return warnings


def _spread(pairing: Pairing) -> float | None:
    """The standard deviation of a problem's difference; None for fewer than two problems, or for equal differences."""
    differences = pairing.differences
    if len(pairing) < 2 or pairing.alike(differences):
        return None
    return float(differences.std(ddof=1))
