"""Candidate against baseline on one benchmark: the verdict on the paired mean difference, and its evidence."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import numpy as np

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.core.wording import counted
from nemo_evaluator.decisions.calibrate.report import LabelledPair, labelled_pair
from nemo_evaluator.decisions.compare.changes import (
    Shift,
    build_flip_report,
    runtime_deltas,
    score_deltas,
    shift_warnings,
    shifts,
)
from nemo_evaluator.decisions.compare.comparability import WORDS, caveats, differences
from nemo_evaluator.decisions.compare.report import (
    N_PERMUTATIONS,
    Paired,
    RegressionReport,
    RunSide,
)
from nemo_evaluator.decisions.compare.verdict import Judgement, Verdict, judge, mirrored, shifted
from nemo_evaluator.decisions.pairing import (
    PairBy,
    Pairing,
    hidden_loss,
    imagined,
    missing_range,
    missing_rows,
    pair,
)
from nemo_evaluator.decisions.usability import rows_of_run, tampered_too_much, unfit
from nemo_evaluator.runs.bundle import Bundle
from nemo_evaluator.runs.find import find_runs
from nemo_evaluator.runs.row_table import RowTable, read_table, table_of
from nemo_evaluator.statistics import (
    Interval,
    PairedTest,
    Spending,
    detectable_effect,
    joint_spending,
    mcnemar_test,
    permutation_test,
    problems_needed,
    sign_test,
    spending_of,
)
from nemo_evaluator.statistics.groups import is_binary
from nemo_evaluator.statistics.power import first

if TYPE_CHECKING:
    from nemo_evaluator.config.gate_policy import Direction

TestName: TypeAlias = Literal["auto", "mcnemar", "sign", "permutation"]

DEFAULT_MAX_DROP: Final = 0.05
# More categories than this are labels of problems, not groups.
_MOST_CATEGORIES: Final = 1000
# Equal differences are tried up to this number of problems.
_MOST_EQUAL: Final = 1_000_000
# A certain gain of more than this share of the scale deserves a warning.
_SUSPICIOUS_GAIN: Final = 0.05


@dataclass(frozen=True, slots=True)
class CompareOptions:
    """How to compare.

    Attributes:
        max_drop: The largest acceptable drop.
        correct_above: A problem is right when its mean reward is above this; for flips and McNemar's test.
        test: The additional significance test.
        confidence: Confidence level of the interval.
        pair_by: Pair problems by content or by index.
        seed: Seed of the permutation test.
        direction: Whether a higher reward is better.
    """

    max_drop: float = DEFAULT_MAX_DROP
    correct_above: float = 0.0
    test: TestName = "auto"
    confidence: float = 0.95
    pair_by: PairBy = "auto"
    seed: int = 42
    direction: Direction = "higher_is_better"

    @property
    def alpha(self) -> float:
        """The one-sided level."""
        return (1 - self.confidence) / 2

    @property
    def better(self) -> float:
        """The sign of a good difference: 1 when a higher reward is better, else -1."""
        return 1.0 if self.direction == "higher_is_better" else -1.0


@dataclass(frozen=True, slots=True)
class PairedRecords:
    """Two runs as columns with their paired problems; iterating gives two mappings from (problem, repeat) to rows."""

    baseline: RowTable
    candidate: RowTable
    pairing: Pairing

    def __iter__(self) -> Iterator[dict[tuple[int, int], JsonDict]]:
        for rows in (self.baseline, self.candidate):
            keys = zip(rows.problem.tolist(), rows.repeat.tolist(), strict=True)
            yield {key: rows.full(position) for position, key in enumerate(keys)}


def load_paired_records(
    baseline: Path | str, candidate: Path | str, *, pair_by: PairBy = "auto"
) -> PairedRecords:
    """Read two runs and pair their problems.

    Args:
        baseline: The folder of the baseline.
        candidate: The folder of the candidate.
        pair_by: Pair problems by content or by index.

    Raises:
        UsageError: A path has no run or several, or the problems cannot be paired as asked.
    """
    baseline_rows = read_table(one_run(baseline).results)
    candidate_rows = read_table(one_run(candidate).results)
    return PairedRecords(
        baseline_rows, candidate_rows, pair(baseline_rows, candidate_rows, pair_by)
    )


def one_run(path: Path | str) -> Bundle:
    """The only run under a path.

    Raises:
        UsageError: The path holds no run, or several.
    """
    runs = find_runs(Path(path))
    if len(runs) != 1:
        names = ", ".join(sorted(run.name for run in runs)) or "none"
        raise UsageError(
            f"{path} holds {len(runs)} benchmarks ({names})", hint="give the folder of one of them"
        )
    return runs[0]


def compare_runs(
    baseline: Bundle | Path | str,
    candidate: Bundle | Path | str,
    options: CompareOptions | None = None,
    **changes: Any,
) -> RegressionReport:
    """Compare two finished runs of one benchmark.

    Args:
        baseline: The baseline, or its folder.
        candidate: The candidate, or its folder.
        options: How to compare.
        **changes: Fields of ``CompareOptions``, instead of ``options``: ``compare_runs(a, b, max_drop=0.02)``.

    Raises:
        UsageError: A path holds no run or several, or the problems cannot be paired as asked.
    """
    options = options or CompareOptions(**changes)
    baseline_run = baseline if isinstance(baseline, Bundle) else one_run(baseline)
    candidate_run = candidate if isinstance(candidate, Bundle) else one_run(candidate)
    baseline_rows = rows_of_run(baseline_run, better=options.better)
    candidate_rows = rows_of_run(candidate_run, better=options.better)
    return Comparison(
        baseline_run, candidate_run, baseline_rows, right=candidate_rows, options=options
    ).report()


def compare_results(
    baseline: Sequence[JsonDict],
    candidate: Sequence[JsonDict],
    *,
    baseline_bundle: JsonDict | None = None,
    candidate_bundle: JsonDict | None = None,
    **changes: Any,
) -> RegressionReport:
    """Compare result rows in memory.

    Args:
        baseline: The baseline's rows.
        candidate: The candidate's rows.
        baseline_bundle: The baseline's bundle, for its settings and scores.
        candidate_bundle: The candidate's bundle.
        **changes: Fields of ``CompareOptions``.

    Raises:
        UsageError: The problems cannot be paired as asked.
    """
    baseline_run = Bundle(Path("baseline"), baseline_bundle or {"run_id": "baseline"})
    candidate_run = Bundle(Path("candidate"), candidate_bundle or {"run_id": "candidate"})
    comparison = Comparison(
        baseline_run,
        candidate_run,
        table_of(baseline),
        right=table_of(candidate),
        options=CompareOptions(**changes),
    )
    return comparison.report()


class Comparison:
    """The steps of one comparison.

    Attributes:
        runs: Baseline and candidate.
        rows: Their rows.
        pairing: Their paired problems.
        differences: The settings that differ.
        spending: How the error is divided between looks and the planned end.
        missing: The range of the scores with failed rows counted either way.
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
        self._options = options
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
        options = self._options
        baseline_run, candidate_run = self.runs
        baseline_rows, candidate_rows = self.rows
        interval = self._interval(pairing)
        differences = pairing.differences
        gain = options.better * differences
        available = baseline_run.dataset_size
        sd: float | None = None
        if len(pairing) >= 2 and not pairing.alike(differences):
            sd = float(differences.std(ddof=1))
        # With labels, more labels help, not more problems.
        needed = self._needed(interval, sd) if self._labelled is None else None
        judgement = self._guard(
            judge(
                interval,
                options.max_drop,
                needed=needed,
                available=available,
                better=options.better,
            )
        )
        verdict_is_open = judgement.verdict in (Verdict.INCONCLUSIVE, Verdict.WARN)
        quantity_shifts = shifts(baseline_rows, candidate_rows)
        test, test_reason = _test(pairing, options)
        flips = None
        if len(pairing):
            flips = build_flip_report(
                baseline_rows,
                candidate_rows,
                pairing,
                correct_above=options.correct_above,
                lower_is_better=options.better < 0,
            )
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
            detectable=detectable_effect(sd, len(pairing), alpha=options.alpha) if sd else None,
            needed=needed if verdict_is_open else None,
            available=available,
            score_deltas=score_deltas(baseline_run, candidate_run),
            runtime_deltas=runtime_deltas(baseline_run, candidate_run),
            category_deltas=self._categories(),
            flips=flips,
            shifts=quantity_shifts,
            differences=self.differences,
            missing=self.missing,
            warnings=self._warnings(interval, quantity_shifts),
            direction=options.direction,
            moved=(int((gain < 0).sum()), int((gain > 0).sum())),
            graded=not pairing.lattice,
        )

    def _needed(self, interval: Interval, sd: float | None) -> int | None:
        """How many problems would settle the comparison, assuming that the observed difference is the true one."""
        options = self._options
        if not interval.n:
            return None
        distance_to_limit = abs(options.better * interval.value + options.max_drop)
        if distance_to_limit == 0.0:
            return None
        if sd:
            return problems_needed(distance_to_limit, sd, alpha=options.alpha)

        def settled_by(problems: int) -> bool:
            """Whether so many problems with the same difference settle the comparison."""
            equal_differences = np.full(problems, interval.value)
            reading = self.pairing.reading(equal_differences, self.spending)
            verdict = self._verdict_on(reading.interval(options.confidence))
            return verdict is not Verdict.INCONCLUSIVE

        return first(settled_by, len(self.pairing) + 1, _MOST_EQUAL)

    def _verdict_on(self, interval: Interval) -> Verdict:
        """The verdict that an interval implies, before anything weakens it."""
        options = self._options
        return judge(interval, options.max_drop, better=options.better).verdict

    def _guard(self, judgement: Judgement) -> Judgement:
        """Weaken a judgement for reasons that an interval does not show.

        In this order: an invalid run, few pairs or unbounded failed rows make everything but a BLOCK inconclusive;
        failed rows that could change the verdict weaken it; a different scorer turns a PASS into a WARN.
        """
        invalid_reasons: list[str] = []
        for side_name, side_reasons in zip(WORDS, self._unfit, strict=True):
            for reason in side_reasons:
                invalid_reasons.append(f"{side_name} {reason}")
        invalid_reasons += self.pairing.scarce
        missing_count = sum(missing_rows(self.runs, self.rows))
        if missing_count and not self.pairing.bounded:
            invalid_reasons.append(
                f"{counted(missing_count, 'row')} failed, and rewards beyond [0, 1] set no bound to what they hide"
            )
        verdict = judgement.verdict
        relation = judgement.relation
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

    def _holds_with_failed_rows(self, verdict: Verdict) -> bool:
        """Whether PASS stays PASS with every failed row counted against it, and BLOCK stays BLOCK."""
        if verdict is Verdict.PASS:
            against = self._options.better
        elif verdict is Verdict.BLOCK:
            against = -self._options.better
        else:
            return True
        pairing = imagined(self.runs, self.rows, self.pairing, better=against)
        return self._verdict_on(self._interval(pairing)) is verdict

    def _interval(self, pairing: Pairing) -> Interval:
        """The interval of the difference, corrected if both sides have labels.

        Imagined rows shift the corrected difference as much as the uncorrected one.
        """
        confidence = self._options.confidence
        if self._labelled is None:
            return pairing.reading(pairing.differences, self.spending).interval(confidence)
        shift = float(pairing.differences.mean() - self.pairing.differences.mean())
        return shifted(self._labelled.difference().interval(confidence), shift)

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
                confidence=self._options.confidence,
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
        )

    def _categories(self) -> dict[str, JsonDict]:
        """The difference within each category of the baseline's problems."""
        baseline_rows = self.rows[0]
        pairing = self.pairing
        if (
            not baseline_rows.has_categories
            or not len(pairing)
            or len(baseline_rows.categories) > _MOST_CATEGORIES
        ):
            return {}
        codes = baseline_rows.category[pairing.baseline.first]
        order = np.argsort(codes, kind="stable")
        present, starts = np.unique(codes[order], return_index=True)
        entries: dict[str, JsonDict] = {}
        for code, problems in zip(present.tolist(), np.split(order, starts[1:]), strict=True):
            baseline_rewards = pairing.baseline.rewards[problems]
            candidate_rewards = pairing.candidate.rewards[problems]
            reading = pairing.reading(candidate_rewards - baseline_rewards, self.spending)
            interval = reading.interval(self._options.confidence)
            entries[baseline_rows.categories[code]] = {
                "baseline": round(float(baseline_rewards.mean()), 6),
                "candidate": round(float(candidate_rewards.mean()), 6),
                "delta": round(interval.value, 6),
                "ci_lower": interval.lower,
                "ci_upper": interval.upper,
                "n": interval.n,
            }
        return entries

    def _warnings(self, difference: Interval, moved: list[Shift]) -> list[str]:
        """All warnings for the reader, those about labels first."""
        options = self._options
        warnings = list(self._label_notes)
        warnings += caveats(self.runs, self.rows, self.pairing, differences=self.differences)
        category_count = len(self.rows[0].categories)
        if category_count > _MOST_CATEGORIES:
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


def _test(pairing: Pairing, options: CompareOptions) -> tuple[PairedTest, str]:
    """The requested test, or the one that fits the data.

    Returns:
        The test, whose effect is negative when the candidate is worse; and why it was chosen.
    """
    gain = options.better * pairing.differences
    requested = options.test
    single_answers = is_binary(pairing.baseline.rewards) and is_binary(pairing.candidate.rewards)
    if requested == "sign":
        return sign_test(gain), "asked for"
    if requested == "mcnemar" or (requested == "auto" and single_answers):
        right_before = pairing.baseline.rewards > options.correct_above
        right_after = pairing.candidate.rewards > options.correct_above
        got_worse = int((right_before & ~right_after).sum())
        got_better = int((~right_before & right_after).sum())
        if options.better > 0:
            test = mcnemar_test(worse=got_worse, better=got_better, n=len(pairing))
        else:
            test = mcnemar_test(worse=got_better, better=got_worse, n=len(pairing))
        reason = "every problem is right or wrong on both sides"
        return test, "asked for" if requested == "mcnemar" else reason
    test = permutation_test(gain, n_permutations=N_PERMUTATIONS, seed=options.seed)
    reason = "rewards are means or fractions"
    return test, "asked for" if requested == "permutation" else reason
