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
    """Read two runs and pair their problems."""
    left = read_table(one_run(baseline).results)
    right = read_table(one_run(candidate).results)
    return PairedRecords(left, right, pair(left, right, pair_by))


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
    left = baseline if isinstance(baseline, Bundle) else one_run(baseline)
    right = candidate if isinstance(candidate, Bundle) else one_run(candidate)
    left_rows = rows_of_run(left, better=options.better)
    right_rows = rows_of_run(right, better=options.better)
    return Comparison(left, right, left_rows, right=right_rows, options=options).report()


def compare_results(
    baseline: Sequence[JsonDict],
    candidate: Sequence[JsonDict],
    *,
    baseline_bundle: JsonDict | None = None,
    candidate_bundle: JsonDict | None = None,
    **changes: Any,
) -> RegressionReport:
    """Compare result rows in memory; ``changes`` are fields of ``CompareOptions``."""
    left = Bundle(Path("baseline"), baseline_bundle or {"run_id": "baseline"})
    right = Bundle(Path("candidate"), candidate_bundle or {"run_id": "candidate"})
    comparison = Comparison(
        left,
        right,
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
        """Both runs with their labels, if both have labels that can be used, and notes for the reader."""
        baseline, candidate = self.runs
        by_index = self.pairing.by == "index"
        return labelled_pair(baseline, candidate, spending, by_index=by_index)

    def report(self) -> RegressionReport:
        """The verdict and its evidence."""
        pairing = self.pairing
        options = self._options
        left, right = self.runs
        left_rows, right_rows = self.rows
        interval = self._interval(pairing)
        differences = pairing.differences
        gain = options.better * differences
        available = left.dataset_size
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
        is_open = judgement.verdict in (Verdict.INCONCLUSIVE, Verdict.WARN)
        moved = shifts(left_rows, right_rows)
        test, test_reason = _test(pairing, options)
        flips = None
        if len(pairing):
            flips = build_flip_report(
                left_rows,
                right_rows,
                pairing,
                correct_above=options.correct_above,
                lower_is_better=options.better < 0,
            )
        return RegressionReport(
            benchmark=left.name,
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
            needed=needed if is_open else None,
            available=available,
            score_deltas=score_deltas(left, right),
            runtime_deltas=runtime_deltas(left, right),
            category_deltas=self._categories(),
            flips=flips,
            shifts=moved,
            differences=self.differences,
            missing=self.missing,
            warnings=self._warnings(interval, moved),
            direction=options.direction,
            moved=(int((gain < 0).sum()), int((gain > 0).sum())),
            graded=not pairing.lattice,
        )

    def _needed(self, interval: Interval, sd: float | None) -> int | None:
        """How many problems would settle the comparison, assuming that the observed difference is the true one."""
        options = self._options
        if not interval.n:
            return None
        distance = abs(options.better * interval.value + options.max_drop)
        if distance == 0.0:
            return None
        if sd:
            return problems_needed(distance, sd, alpha=options.alpha)

        def settled_by(problems: int) -> bool:
            equal_differences = np.full(problems, interval.value)
            reading = self.pairing.reading(equal_differences, self.spending)
            verdict = self._verdict_on(reading.interval(options.confidence))
            return verdict is not Verdict.INCONCLUSIVE

        return first(settled_by, len(self.pairing) + 1, _MOST_EQUAL)

    def _verdict_on(self, interval: Interval) -> Verdict:
        options = self._options
        return judge(interval, options.max_drop, better=options.better).verdict

    def _guard(self, judgement: Judgement) -> Judgement:
        """Weaken a judgement for reasons that an interval does not show.

        In this order: an invalid run, few pairs or unbounded failed rows make everything but a BLOCK inconclusive;
        failed rows that could change the verdict weaken it; a different scorer turns a PASS into a WARN.
        """
        invalid: list[str] = []
        for side_name, side_reasons in zip(WORDS, self._unfit, strict=True):
            for reason in side_reasons:
                invalid.append(f"{side_name} {reason}")
        invalid += self.pairing.scarce
        lost = sum(missing_rows(self.runs, self.rows))
        if lost and not self.pairing.bounded:
            invalid.append(
                f"{counted(lost, 'row')} failed, and rewards beyond [0, 1] set no bound to what they hide"
            )
        verdict = judgement.verdict
        relation = judgement.relation
        if invalid and verdict is not Verdict.BLOCK:
            return Judgement(Verdict.INCONCLUSIVE, relation, (*invalid, *judgement.reasons))
        if self.missing and not self._holds_with_failed_rows(verdict):
            weaker = Verdict.INCONCLUSIVE if verdict is Verdict.PASS else Verdict.WARN
            failed = (
                "rows that failed leave this open: it does not hold however they would have scored"
            )
            return Judgement(weaker, relation, (failed, *judgement.reasons, *invalid))
        scorer = [str(setting) for setting in self.differences if setting.kind == "scorer"]
        if scorer and verdict is Verdict.PASS:
            return Judgement(Verdict.WARN, relation, (*scorer, *judgement.reasons))
        return Judgement(verdict, relation, (*judgement.reasons, *invalid))

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
        moved = float(pairing.differences.mean() - self.pairing.differences.mean())
        return shifted(self._labelled.difference().interval(confidence), moved)

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
        left = self.rows[0]
        pairing = self.pairing
        if not left.has_categories or not len(pairing) or len(left.categories) > _MOST_CATEGORIES:
            return {}
        codes = left.category[pairing.baseline.first]
        order = np.argsort(codes, kind="stable")
        present, starts = np.unique(codes[order], return_index=True)
        entries: dict[str, JsonDict] = {}
        for code, problems in zip(present.tolist(), np.split(order, starts[1:]), strict=True):
            before = pairing.baseline.rewards[problems]
            after = pairing.candidate.rewards[problems]
            reading = pairing.reading(after - before, self.spending)
            interval = reading.interval(self._options.confidence)
            entries[left.categories[code]] = {
                "baseline": round(float(before.mean()), 6),
                "candidate": round(float(after.mean()), 6),
                "delta": round(interval.value, 6),
                "ci_lower": interval.lower,
                "ci_upper": interval.upper,
                "n": interval.n,
            }
        return entries

    def _warnings(self, difference: Interval, moved: list[Shift]) -> list[str]:
        options = self._options
        warnings = list(self._label_notes)
        warnings += caveats(self.runs, self.rows, self.pairing, differences=self.differences)
        categories = len(self.rows[0].categories)
        if categories > _MOST_CATEGORIES:
            warnings.append(f"{categories:,} categories are too many to be compared one by one")
        warnings += shift_warnings(moved)
        warnings += hidden_loss(self.missing, options.max_drop, options.better)
        gain = difference if options.better > 0 else mirrored(difference)
        # A gain that no small change brings is more often a fault of the set-up.
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
    single = is_binary(pairing.baseline.rewards) and is_binary(pairing.candidate.rewards)
    if requested == "sign":
        return sign_test(gain), "asked for"
    if requested == "mcnemar" or (requested == "auto" and single):
        before = pairing.baseline.rewards > options.correct_above
        after = pairing.candidate.rewards > options.correct_above
        fell = int((before & ~after).sum())
        rose = int((~before & after).sum())
        if options.better > 0:
            test = mcnemar_test(worse=fell, better=rose, n=len(pairing))
        else:
            test = mcnemar_test(worse=rose, better=fell, n=len(pairing))
        fits = "every problem is right or wrong on both sides"
        return test, "asked for" if requested == "mcnemar" else fits
    test = permutation_test(gain, n_permutations=N_PERMUTATIONS, seed=options.seed)
    fits = "rewards are means or fractions"
    return test, "asked for" if requested == "permutation" else fits
