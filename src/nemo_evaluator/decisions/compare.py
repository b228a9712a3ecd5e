"""Candidate against baseline on one benchmark: the verdict on the paired mean difference, and what lies behind it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.decisions.bundles import Run, find_runs
from nemo_evaluator.decisions.comparability import differences, prompt_warning
from nemo_evaluator.decisions.deltas import runtime_deltas, score_deltas
from nemo_evaluator.decisions.flips import build_flip_report
from nemo_evaluator.decisions.options import CompareOptions, choose_test
from nemo_evaluator.decisions.pairing import PairBy, Pairing, Side, pair
from nemo_evaluator.decisions.report import Paired, RegressionReport, RunSide
from nemo_evaluator.decisions.rows import Rows, read_rows, rows_of
from nemo_evaluator.decisions.shifts import shift_warnings, shifts
from nemo_evaluator.decisions.verdict import Judgement, Verdict, judge
from nemo_evaluator.metrics import (
    Interval,
    MeanSequence,
    detectable_effect,
    mean_difference,
    mean_interval,
    missing_bounds,
    problems_needed,
)

# A comparison on less than half of the smaller side says little about either run.
LEAST_SHARE: Final = 0.5
# More categories than this are labels of problems, not groups.
_MOST_CATEGORIES: Final = 1000


@dataclass(frozen=True, slots=True)
class PairedRecords:
    """Two runs as columns, with the problems they share."""

    baseline: Rows
    candidate: Rows
    pairing: Pairing


def load_paired_records(baseline: Path | str, candidate: Path | str, *, pair_by: PairBy = "auto") -> PairedRecords:
    """Read two runs and pair their problems."""
    left, right = (read_rows(one_run(path).results) for path in (baseline, candidate))
    return PairedRecords(left, right, pair(left, right, pair_by))


def one_run(path: Path | str) -> Run:
    """The only run under a path."""
    found = find_runs(Path(path))
    if len(found) != 1:
        names = ", ".join(sorted(run.name for run in found)) or "none"
        raise UsageError(f"{path} holds {len(found)} benchmarks ({names})", hint="give the folder of one of them")
    return found[0]


def compare_runs(
    baseline: Run | Path | str, candidate: Run | Path | str, options: CompareOptions | None = None, **changes: Any
) -> RegressionReport:
    """Compare two finished runs of one benchmark.

    ``changes`` are fields of ``CompareOptions``: ``compare_runs(a, b, max_drop=0.02)``.
    """
    options = options or CompareOptions(**changes)
    left, right = (run if isinstance(run, Run) else one_run(run) for run in (baseline, candidate))
    return compare_columns(left, right, _rows(left), _rows(right), options)


def compare_columns(
    baseline: Run, candidate: Run, left: Rows, right: Rows, options: CompareOptions
) -> RegressionReport:
    """Compare two runs whose rows are already read."""
    return _Comparison(baseline, candidate, left, right, options).report()


def compare_results(
    baseline: Sequence[JsonDict],
    candidate: Sequence[JsonDict],
    *,
    baseline_bundle: JsonDict | None = None,
    candidate_bundle: JsonDict | None = None,
    **changes: Any,
) -> RegressionReport:
    """Compare rows held in memory."""
    left = Run(Path("baseline"), baseline_bundle or {"run_id": "baseline"})
    right = Run(Path("candidate"), candidate_bundle or {"run_id": "candidate"})
    return _Comparison(left, right, rows_of(baseline), rows_of(candidate), CompareOptions(**changes)).report()


def _rows(run: Run) -> Rows:
    return read_rows(run.results) if run.results.is_file() else rows_of([])


class _Comparison:
    """The steps of one comparison, on columns that are read once."""

    def __init__(self, baseline: Run, candidate: Run, left: Rows, right: Rows, options: CompareOptions) -> None:
        self._runs, self._rows, self._options = (baseline, candidate), (left, right), options
        self._pairing = pair(left, right, options.pair_by)
        self._differences = differences(baseline, candidate)
        self._shifts = shifts(left, right)

    def report(self) -> RegressionReport:
        pairing, options = self._pairing, self._options
        interval = self._interval()
        sd = float(pairing.differences.std(ddof=1)) if len(pairing) > 1 else None
        needed = _needed(interval, sd, options)
        judgement = self._guard(judge(interval, options.max_drop, needed=needed))
        test, why = choose_test(pairing, options)
        left, right = self._runs
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
            pairing=self._paired(),
            test=test,
            test_reason=why,
            sd=sd,
            detectable=detectable_effect(sd, len(pairing), alpha=_alpha(options)) if sd else None,
            needed=needed if judgement.verdict is Verdict.INCONCLUSIVE else None,
            score_deltas=score_deltas(left, right),
            runtime_deltas=runtime_deltas(left, right),
            category_deltas=self._categories(),
            flips=build_flip_report(*self._rows, pairing, correct_above=options.correct_above)
            if len(pairing)
            else None,
            shifts=self._shifts,
            differences=self._differences,
            missing=self._missing(),
            warnings=self._warnings(),
        )

    def _interval(self) -> Interval:
        pairing, confidence = self._pairing, self._options.confidence
        if len(pairing) and any(run.peeked for run in self._runs):
            sequence = MeanSequence(low=-pairing.scale, high=pairing.scale, confidence=confidence)
            sequence.add(pairing.differences)
            return sequence.interval()
        found = mean_difference(pairing.differences, lattice=pairing.lattice, scale=pairing.scale)
        return found.interval(confidence)

    def _guard(self, judgement: Judgement) -> Judgement:
        """What no interval can make good: invalid runs, hardly any pairs, another scorer."""
        reasons = [f"{word} {reason}" for word, run in zip(_WORDS, self._invalid(), strict=True) for reason in run]
        if len(self._pairing) and self._pairing.share < LEAST_SHARE:
            share = f"{self._pairing.share:.0%} of the smaller side"
            reasons.append(f"only {len(self._pairing)} problems pair ({share})")
        if reasons and judgement.verdict is not Verdict.BLOCK:
            return Judgement(Verdict.INCONCLUSIVE, judgement.relation, (*reasons, *judgement.reasons))
        scorer = [str(item) for item in self._differences if item.kind == "scorer"]
        if scorer and judgement.verdict is Verdict.PASS:
            return Judgement(Verdict.WARN, judgement.relation, (*scorer, *judgement.reasons))
        return Judgement(judgement.verdict, judgement.relation, (*judgement.reasons, *reasons))

    def _invalid(self) -> tuple[list[str], list[str]]:
        found = [_invalid(run, rows) for run, rows in zip(self._runs, self._rows, strict=True)]
        return found[0], found[1]

    def _side(self, at: int) -> RunSide:
        run, rows = self._runs[at], self._rows[at]
        side = (self._pairing.baseline, self._pairing.candidate)[at]
        return RunSide(
            run_id=run.run_id,
            config=run.config,
            path=str(run.path),
            score=_score(side, self._options.confidence),
            problems=side.problems,
            rows=len(rows),
            failed=int((~rows.scored).sum()),
            invalid=self._invalid()[at],
        )

    def _paired(self) -> Paired:
        pairing = self._pairing
        return Paired(
            by=pairing.by,
            paired=len(pairing),
            only_baseline=pairing.only_baseline,
            only_candidate=pairing.only_candidate,
            unscored_baseline=pairing.baseline.unscored,
            unscored_candidate=pairing.candidate.unscored,
            share=round(pairing.share, 4),
        )

    def _categories(self) -> dict[str, JsonDict]:
        left, pairing = self._rows[0], self._pairing
        if not left.has_categories or not len(pairing) or len(left.categories) > _MOST_CATEGORIES:
            return {}
        codes = left.category[pairing.baseline.first]
        order = np.argsort(codes, kind="stable")
        present, starts = np.unique(codes[order], return_index=True)
        out = {}
        for code, at in zip(present.tolist(), np.split(order, starts[1:]), strict=True):
            before, after = pairing.baseline.rewards[at], pairing.candidate.rewards[at]
            found = mean_difference(after - before, lattice=pairing.lattice, scale=pairing.scale)
            interval = found.interval(self._options.confidence)
            out[left.categories[code]] = {
                "baseline": round(float(before.mean()), 6),
                "candidate": round(float(after.mean()), 6),
                "delta": round(interval.value, 6),
                "ci_lower": interval.lower,
                "ci_upper": interval.upper,
                "n": interval.n,
            }
        return out

    def _missing(self) -> JsonDict:
        """The range of each mean, and of their difference, over everything that failed rows could have been."""
        bounds = [_bounds(run, rows) for run, rows in zip(self._runs, self._rows, strict=True)]
        if bounds[0] is None or bounds[1] is None or not (bounds[0].missing or bounds[1].missing):
            return {}
        left, right = bounds
        return {
            "baseline": {"lower": left.lower, "upper": left.upper, "missing": left.missing},
            "candidate": {"lower": right.lower, "upper": right.upper, "missing": right.missing},
            "difference": {"lower": right.lower - left.upper, "upper": right.upper - left.lower},
        }

    def _warnings(self) -> list[str]:
        pairing, warnings = self._pairing, []
        for word, run, rows in zip(_WORDS, self._runs, self._rows, strict=True):
            if not len(rows):
                warnings.append(f"{word} has no rows: {run.results}")
            if run.peeked:
                warnings.append(f"{word} was stopped by a rule; the interval is one that allows for looking")
            if rows.malformed:
                warnings.append(f"{word} has {rows.malformed} lines that are not rows; they are left out")
        warnings += pairing.warnings
        if pairing.only_baseline or pairing.only_candidate:
            counts = f"{pairing.only_baseline} only in the baseline, {pairing.only_candidate} only in the candidate"
            warnings.append(f"{len(pairing)} problems pair; {counts}")
        unscored = pairing.baseline.unscored + pairing.candidate.unscored
        if unscored:
            warnings.append(f"{unscored} problems have no scored answer on one side and are left out")
        categories = len(self._rows[0].categories)
        if categories > _MOST_CATEGORIES:
            warnings.append(f"{categories} categories are too many to be compared one by one")
        prompts = prompt_warning(*self._rows, pairing)
        return [
            *warnings,
            *([prompts] if prompts else []),
            *map(str, self._differences),
            *shift_warnings(self._shifts),
        ]


_WORDS: Final = ("the baseline", "the candidate")


def _alpha(options: CompareOptions) -> float:
    return (1 - options.confidence) / 2


def _needed(interval: Interval, sd: float | None, options: CompareOptions) -> int | None:
    distance = abs(interval.value + options.max_drop) if interval.n else 0.0
    if not sd or distance == 0.0:
        return None
    return problems_needed(distance, sd, alpha=_alpha(options))


def _score(side: Side, confidence: float) -> Interval:
    answers = int(side.answers.sum())
    if not len(side.rewards):
        return Interval(math.nan, None, None, "none", 0)
    return mean_interval(side.rewards, answers=answers, binary=side.binary, confidence=confidence)


def _invalid(run: Run, rows: Rows) -> list[str]:
    found = [f"is INVALID: {reason}" for reason in run.invalid]
    if not len(rows):
        return [*found, "has no rows"]
    if not found and "coverage" not in run.benchmark:
        # Bundles from before coverage was written: the rows say it.
        floor, share = float(run.config.get("min_coverage") or 0.95), float(rows.scored.mean())
        if share < floor:
            found.append(f"has scored only {share:.1%} of its rows")
    return found


def _bounds(run: Run, rows: Rows) -> Any:
    scored = rows.reward[rows.scored]
    if len(scored) and (scored.min() < 0 or scored.max() > 1):
        return None
    coverage = run.benchmark.get("coverage") or {}
    planned = max(int(coverage.get("planned") or 0), len(rows))
    return missing_bounds(float(scored.sum()), len(scored), planned)
