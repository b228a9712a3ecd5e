"""Candidate against baseline on one benchmark: the verdict on the paired mean difference, and what lies behind it."""

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
# Equal differences are looked at up to this number.
_MOST_EQUAL: Final = 1_000_000
# A sure gain of more than this share of the scale calls for a second look.
_SUSPICIOUS_GAIN: Final = 0.05


@dataclass(frozen=True, slots=True)
class CompareOptions:
    """How to compare."""

    max_drop: float = DEFAULT_MAX_DROP
    correct_above: float = 0.0
    test: TestName = "auto"
    confidence: float = 0.95
    pair_by: PairBy = "auto"
    seed: int = 42
    direction: Direction = "higher_is_better"

    @property
    def alpha(self) -> float:
        return (1 - self.confidence) / 2

    @property
    def better(self) -> float:
        """The sign of a difference that is good."""
        return 1.0 if self.direction == "higher_is_better" else -1.0


@dataclass(frozen=True, slots=True)
class PairedRecords:
    """Two runs as columns, with the problems they share; unpacked, two mappings from (problem, repeat) to rows."""

    baseline: RowTable
    candidate: RowTable
    pairing: Pairing

    def __iter__(self) -> Iterator[dict[tuple[int, int], JsonDict]]:
        for rows in (self.baseline, self.candidate):
            steps = zip(rows.problem.tolist(), rows.repeat.tolist(), strict=True)
            yield {step: rows.full(at) for at, step in enumerate(steps)}


def load_paired_records(
    baseline: Path | str, candidate: Path | str, *, pair_by: PairBy = "auto"
) -> PairedRecords:
    """Read two runs and pair their problems."""
    left, right = (read_table(one_run(path).results) for path in (baseline, candidate))
    return PairedRecords(left, right, pair(left, right, pair_by))


def one_run(path: Path | str) -> Bundle:
    """The only run under a path."""
    found = find_runs(Path(path))
    if len(found) != 1:
        names = ", ".join(sorted(run.name for run in found)) or "none"
        raise UsageError(
            f"{path} holds {len(found)} benchmarks ({names})", hint="give the folder of one of them"
        )
    return found[0]


def compare_runs(
    baseline: Bundle | Path | str,
    candidate: Bundle | Path | str,
    options: CompareOptions | None = None,
    **changes: Any,
) -> RegressionReport:
    """Compare two finished runs of one benchmark. ``changes`` are fields of ``CompareOptions``: ``compare_runs(a, b,
    max_drop=0.02)``."""
    options = options or CompareOptions(**changes)
    left, right = (
        run if isinstance(run, Bundle) else one_run(run) for run in (baseline, candidate)
    )
    rows = [rows_of_run(run, better=options.better) for run in (left, right)]
    return Comparison(left, right, rows[0], right=rows[1], options=options).report()


def compare_results(
    baseline: Sequence[JsonDict],
    candidate: Sequence[JsonDict],
    *,
    baseline_bundle: JsonDict | None = None,
    candidate_bundle: JsonDict | None = None,
    **changes: Any,
) -> RegressionReport:
    """Compare rows held in memory."""
    left = Bundle(Path("baseline"), baseline_bundle or {"run_id": "baseline"})
    right = Bundle(Path("candidate"), candidate_bundle or {"run_id": "candidate"})
    return Comparison(
        left,
        right,
        table_of(baseline),
        right=table_of(candidate),
        options=CompareOptions(**changes),
    ).report()


class Comparison:
    """The steps of one comparison, on columns that are read once."""

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
        self._unfit = [
            [*unfit(run, rows), *tampered_too_much(run, rows)]
            for run, rows in zip(self.runs, self.rows, strict=True)
        ]
        self._labelled, self._label_notes = self.labelled(self.spending)

    def labelled(self, spending: Spending) -> tuple[LabelledPair | None, list[str]]:
        """Both runs with their labels where both have them, and what a reader must know of it."""
        return labelled_pair(*self.runs, spending, by_index=self.pairing.by == "index")

    def report(self) -> RegressionReport:
        """The verdict, with all that it rests on."""
        pairing, options, (left, right) = self.pairing, self._options, self.runs
        interval = self._interval(pairing)
        differences = pairing.differences
        available = left.dataset_size
        if len(pairing) < 2 or pairing.alike(differences):
            sd: float | None = None
        else:
            sd = float(differences.std(ddof=1))
        if self._labelled is None:
            needed = self._needed(interval, sd)
        else:
            needed = None
        found = judge(
            interval, options.max_drop, needed=needed, available=available, better=options.better
        )
        judgement = self._guard(found)
        moved, (test, why) = shifts(*self.rows), _test(pairing, options)
        gain = options.better * differences
        right_above: Any = {
            "correct_above": options.correct_above,
            "lower_is_better": options.better < 0,
        }
        flips = build_flip_report(*self.rows, pairing, **right_above) if len(pairing) else None
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
            test_reason=why,
            sd=sd,
            detectable=detectable_effect(sd, len(pairing), alpha=options.alpha) if sd else None,
            needed=needed if judgement.verdict in (Verdict.INCONCLUSIVE, Verdict.WARN) else None,
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
        """How many problems would settle it, if the difference seen so far is about the true one."""
        options = self._options
        pairing = self.pairing
        if interval.n:
            distance = abs(options.better * interval.value + options.max_drop)
        else:
            distance = 0.0
        if distance == 0.0:
            return None
        if sd:
            return problems_needed(distance, sd, alpha=options.alpha)

        def settles(n: int) -> bool:
            found = pairing.reading(np.full(n, interval.value), self.spending).interval(
                options.confidence
            )
            return (
                judge(found, options.max_drop, better=options.better).verdict
                is not Verdict.INCONCLUSIVE
            )

        return first(settles, len(pairing) + 1, _MOST_EQUAL)

    def _guard(self, judgement: Judgement) -> Judgement:
        """What no interval can make good: invalid runs, hardly any pairs, another scorer."""
        reasons: list[str] = []
        for word, run in zip(WORDS, self._unfit, strict=True):
            for reason in run:
                reasons.append(f"{word} {reason}")
        reasons += self.pairing.scarce
        lost = sum(missing_rows(self.runs, self.rows))
        if lost and not self.pairing.bounded:
            reasons.append(
                f"{counted(lost, 'row')} failed, and rewards beyond [0, 1] set no bound to what they hide"
            )
        if reasons and judgement.verdict is not Verdict.BLOCK:
            return Judgement(
                Verdict.INCONCLUSIVE, judgement.relation, (*reasons, *judgement.reasons)
            )
        if self.missing and not self._holds(judgement.verdict):
            if judgement.verdict is Verdict.PASS:
                calmer = Verdict.INCONCLUSIVE
            else:
                calmer = Verdict.WARN
            why = (
                "rows that failed leave this open: it does not hold however they would have scored"
            )
            return Judgement(calmer, judgement.relation, (why, *judgement.reasons, *reasons))
        scorer = [str(item) for item in self.differences if item.kind == "scorer"]
        if scorer and judgement.verdict is Verdict.PASS:
            return Judgement(Verdict.WARN, judgement.relation, (*scorer, *judgement.reasons))
        return Judgement(judgement.verdict, judgement.relation, (*judgement.reasons, *reasons))

    def _holds(self, verdict: Verdict) -> bool:
        """Whether PASS stays PASS with every failed row counted against it, and BLOCK stays BLOCK."""
        if verdict not in (Verdict.PASS, Verdict.BLOCK):
            return True
        options = self._options
        against = options.better if verdict is Verdict.PASS else -options.better
        pairing = imagined(self.runs, self.rows, self.pairing, better=against)
        found = self._interval(pairing)
        return judge(found, options.max_drop, better=options.better).verdict is verdict

    def _interval(self, pairing: Pairing) -> Interval:
        """The difference, corrected where both sides have labels; imagined rows move it as far as they move the raw."""
        reading = pairing.reading(pairing.differences, self.spending)
        if self._labelled is None:
            return reading.interval(self._options.confidence)
        moved = float(pairing.differences.mean() - self.pairing.differences.mean())
        return shifted(self._labelled.difference().interval(self._options.confidence), moved)

    def _side(self, at: int) -> RunSide:
        run = self.runs[at]
        rows = self.rows[at]
        side = self.pairing.sides[at]
        score = Interval(math.nan, None, None, method="none", n=0)
        failed = int((~rows.scored).sum())
        if len(side.rewards):
            answers = int(side.answers.sum())
            level = self._options.confidence
            score = self.spending.mean_interval(
                side.rewards, answers=answers, binary=side.binary, confidence=level
            )
        return RunSide(
            run.run_id,
            run.config,
            str(run.path),
            score=score,
            problems=side.problems,
            rows=len(rows),
            failed_rows=failed,
            invalid=self._unfit[at],
        )

    def _categories(self) -> dict[str, JsonDict]:
        left = self.rows[0]
        pairing = self.pairing
        if not left.has_categories or not len(pairing) or len(left.categories) > _MOST_CATEGORIES:
            return {}
        codes = left.category[pairing.baseline.first]
        order = np.argsort(codes, kind="stable")
        present, starts = np.unique(codes[order], return_index=True)
        out = {}
        for code, at in zip(present.tolist(), np.split(order, starts[1:]), strict=True):
            before = pairing.baseline.rewards[at]
            after = pairing.candidate.rewards[at]
            interval = pairing.reading(after - before, self.spending).interval(
                self._options.confidence
            )
            out[left.categories[code]] = {
                "baseline": round(float(before.mean()), 6),
                "candidate": round(float(after.mean()), 6),
                "delta": round(interval.value, 6),
                "ci_lower": interval.lower,
                "ci_upper": interval.upper,
                "n": interval.n,
            }
        return out

    def _warnings(self, difference: Interval, moved: list[Shift]) -> list[str]:
        options = self._options
        categories = len(self.rows[0].categories)
        found = [
            *self._label_notes,
            *caveats(self.runs, self.rows, self.pairing, differences=self.differences),
        ]
        if categories > _MOST_CATEGORIES:
            found.append(f"{categories:,} categories are too many to be compared one by one")
        found += [
            *shift_warnings(moved),
            *hidden_loss(self.missing, options.max_drop, options.better),
        ]
        if options.better > 0:
            gain = difference
        else:
            gain = mirrored(difference)
        # A gain that no small change brings is more often a fault of the set-up.
        if gain.lower is not None and gain.lower > _SUSPICIOUS_GAIN * self.pairing.scale:
            found.append(
                "the candidate is better by an unusual amount: make sure that both runs are what they seem"
            )
        return found


def _test(pairing: Pairing, options: CompareOptions) -> tuple[PairedTest, str]:
    """The test that was asked for, or the one that fits; its effect is what was gained, negative when it got worse."""
    gain = options.better * pairing.differences
    asked = options.test
    single = is_binary(pairing.baseline.rewards) and is_binary(pairing.candidate.rewards)
    if asked == "sign":
        return sign_test(gain), "asked for"
    if asked == "mcnemar" or (asked == "auto" and single):
        before, after = (side.rewards > options.correct_above for side in pairing.sides)
        lost = int((before & ~after).sum())
        won = int((~before & after).sum())
        worse, better = (lost, won) if options.better > 0 else (won, lost)
        if asked == "mcnemar":
            why = "asked for"
        else:
            why = "every problem is right or wrong on both sides"
        return mcnemar_test(worse, better, len(pairing)), why
    if asked == "permutation":
        why = "asked for"
    else:
        why = "rewards are means or fractions"
    return permutation_test(gain, n_permutations=N_PERMUTATIONS, seed=options.seed), why
