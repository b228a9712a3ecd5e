"""The report of a comparison, which is written, printed and attached to a gate decision."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from nemo_evaluator.core.files import write_json
from nemo_evaluator.core.types import JsonDict, ReportMapping
from nemo_evaluator.decisions.compare.changes import FlipReport
from nemo_evaluator.decisions.compare.comparability import SettingDifference
from nemo_evaluator.decisions.compare.shifts import Shift
from nemo_evaluator.decisions.compare.verdict import Relation, Verdict, mirrored
from nemo_evaluator.decisions.pairing import Pairing
from nemo_evaluator.statistics import Interval, PairedTest, score

if TYPE_CHECKING:
    from nemo_evaluator.decisions.compare.comparison_document import (
        CategoryDelta,
        ComparisonDocument,
        DeltaEntry,
        PairingEntry,
        RunEntry,
        SignificanceEntry,
    )
    from nemo_evaluator.decisions.missing_range import MissingRange

REPORT_VERSION: Final = 1
N_PERMUTATIONS: Final = 10_000


@dataclass(frozen=True, slots=True)
class RunSide:
    """One side as shown in the report.

    Attributes:
        run_id: The run's id.
        config: Its configuration.
        path: Its bundle.
        score: The mean reward on the paired problems.
        problems: Its problems, paired or not.
        rows: Its rows.
        failed_rows: Rows without a score.
        invalid: Why its scores must not be used; empty when they may be.
        corrected: The score that people would have given, if the labels of both sides correct the comparison.
    """

    run_id: str
    config: JsonDict
    path: str
    score: Interval
    problems: int
    rows: int
    failed_rows: int
    invalid: list[str]
    corrected: Interval | None = None

    @property
    def shown(self) -> Interval:
        """The score that belongs to the difference: the corrected one if there is one."""
        return self.corrected or self.score

    def to_dict(self) -> RunEntry:
        """The JSON of the side."""
        entry: RunEntry = {
            "run_id": self.run_id,
            "config": self.config,
            "path": self.path,
            "score": score(self.score),
            "problems": self.problems,
            "rows": self.rows,
            "failed_rows": self.failed_rows,
            "invalid": self.invalid,
        }
        if self.corrected is not None:
            entry["corrected"] = score(self.corrected)
        return entry


@dataclass(frozen=True, slots=True)
class Paired:
    """How many problems paired, and how many did not.

    Attributes:
        by: "content" or "index".
        paired: Paired problems.
        only_baseline: Scored problems of the baseline for which the candidate has no row.
        only_candidate: Scored problems of the candidate for which the baseline has no row.
        unscored_baseline: Problems of the baseline without a scored answer.
        unscored_candidate: Problems of the candidate without a scored answer.
        share: Paired problems as a share of the smaller side.
        clusters: The clusters of the paired problems; None when problems are independent.
    """

    by: str
    paired: int
    only_baseline: int
    only_candidate: int
    unscored_baseline: int
    unscored_candidate: int
    share: float
    clusters: int | None = None

    @classmethod
    def of(cls, pairing: Pairing) -> Self:
        """The counts of a pairing."""
        unpaired = pairing.only_baseline, pairing.only_candidate
        unscored = pairing.baseline.unscored, pairing.candidate.unscored
        return cls(
            pairing.by,
            len(pairing),
            *unpaired,
            *unscored,
            share=round(pairing.share, 4),
            clusters=pairing.cluster_count,
        )

    def to_dict(self) -> PairingEntry:
        """The JSON of the counts."""
        entry: PairingEntry = {
            "by": self.by,
            "paired": self.paired,
            "only_baseline": self.only_baseline,
            "only_candidate": self.only_candidate,
            "unscored_baseline": self.unscored_baseline,
            "unscored_candidate": self.unscored_candidate,
            "share": self.share,
        }
        if self.clusters is not None:
            entry["clusters"] = self.clusters
        return entry


@dataclass(slots=True)
class RegressionReport(ReportMapping):
    """One candidate against one baseline on one benchmark.

    Attributes:
        benchmark: The baseline's benchmark.
        baseline: The baseline.
        candidate: The candidate.
        verdict: The verdict.
        relation: What is proved about the two sides.
        reasons: The reasons of the verdict.
        threshold: The largest acceptable drop.
        confidence: Confidence level of the interval.
        difference: The mean of candidate minus baseline, with its interval.
        pairing: How many problems paired.
        test: The additional significance test.
        test_reason: Why this test was chosen.
        sd: The standard deviation of a problem's difference; None when all differences are equal.
        detectable: The drop that a comparison of this size detects; None without a standard deviation.
        needed: How many problems would settle an open comparison; None when it is settled or unknown.
        available: How many problems the benchmark has; None when unknown.
        score_deltas: The change of each score in the bundles.
        runtime_deltas: The change of tokens and speed.
        category_deltas: The difference within each category.
        flips: The problems that flipped; None when nothing paired.
        shifts: The change of other quantities.
        differences: The settings that differ.
        missing: The range of the scores with failed rows counted either way.
        warnings: Warnings for the reader.
        direction: Whether a higher reward is better.
        moved: How many problems got worse and better, by however little.
        graded: Whether rewards are more than right or wrong, so that a problem can change without flipping.
        raw_difference: The difference of the judge's scores, if labels correct ``difference``. Flips, test, categories
            and shifts are raw too.
    """

    benchmark: str
    baseline: RunSide
    candidate: RunSide
    verdict: Verdict
    relation: Relation
    reasons: list[str]
    threshold: float
    confidence: float
    difference: Interval
    pairing: Paired
    test: PairedTest
    test_reason: str
    sd: float | None
    detectable: float | None
    needed: int | None
    available: int | None
    score_deltas: dict[str, DeltaEntry]
    runtime_deltas: dict[str, DeltaEntry]
    category_deltas: dict[str, CategoryDelta]
    flips: FlipReport | None
    shifts: list[Shift]
    differences: list[SettingDifference]
    missing: MissingRange
    warnings: list[str] = field(default_factory=list)
    direction: str = "higher_is_better"
    moved: tuple[int, int] = (0, 0)
    graded: bool = False
    raw_difference: Interval | None = None

    @property
    def better(self) -> float:
        """The sign of a good difference: 1 when a higher reward is better, else -1."""
        return 1.0 if self.direction == "higher_is_better" else -1.0

    @property
    def gain(self) -> Interval:
        """The difference with its sign changed where necessary, so that a positive one is good."""
        if self.better > 0:
            return self.difference
        return mirrored(self.difference)

    def to_dict(self) -> ComparisonDocument:
        """The report as JSON."""
        method = self.test.method.removesuffix("_limit")
        key = method if method == "mcnemar" else f"{method}_test"
        report: ComparisonDocument = {
            "report_version": REPORT_VERSION,
            "benchmark": self.benchmark,
            "baseline": self.baseline.to_dict(),
            "candidate": self.candidate.to_dict(),
            "verdict": str(self.verdict),
            "relation": str(self.relation),
            "verdict_reasons": self.reasons,
            "threshold": self.threshold,
            "direction": self.direction,
            "confidence": self.confidence,
            "difference": score(self.difference),
            "pairing": self.pairing.to_dict(),
            "detectable_drop": _round(self.detectable),
            "problems_needed": self.needed,
            "problems_available": self.available,
            "score_deltas": self.score_deltas,
            "runtime_deltas": self.runtime_deltas,
            "shifts": [shift.to_dict() for shift in self.shifts],
            "config_differences": [difference.to_dict() for difference in self.differences],
            "missing_data": self.missing,
            "test_used": key,
            "test_reason": self.test_reason,
        }
        significance = self._test(key)
        if key == "mcnemar":
            report["mcnemar"] = significance
        elif key == "sign_test":
            report["sign_test"] = significance
        else:
            report["permutation_test"] = significance
        if self.raw_difference is not None:
            report["raw_difference"] = score(self.raw_difference)
        if self.warnings:
            report["warnings"] = self.warnings
        if self.category_deltas:
            report["category_deltas"] = self.category_deltas
        if self.flips is not None:
            report["flip_report"] = self.flips.to_dict()
        return report

    def _test(self, key: str) -> SignificanceEntry:
        """The JSON of the significance test, in which a loss is positive."""
        test = self.test
        gain = self.gain
        document: SignificanceEntry = {
            "p_value": test.p_value,
            "significant": test.significant,
            "method": "exact_binomial" if test.method in ("mcnemar", "sign") else test.method,
            "n_discordant": test.n_discordant,
            "effect_size": _round(-test.effect),
            "ci_lower": _round(None if gain.upper is None else -gain.upper),
            "ci_upper": _round(None if gain.lower is None else -gain.lower),
            "hypothesis": "the candidate is not worse",
            "alternative": test.alternative,
        }
        if key == "sign_test":
            worse, better = self.moved
            document["n_positive"] = worse
            document["n_negative"] = better
            document["n_ties"] = test.n - worse - better
        elif key == "permutation_test":
            document["observed_mean_diff"] = _round(-test.effect)
            document["n_permutations"] = N_PERMUTATIONS
            # Cohen's d for paired values: the effect size this test has always reported.
            if self.sd:
                document["effect_size"] = _round(-test.effect / self.sd)
            else:
                document["effect_size"] = None
        return document


def _round(value: float | None) -> float | None:
    if value is None:
        return None
    return round(value, 6)


def write_report(report: ReportMapping, path: Path | str) -> Path:
    """Write a comparison or a gate decision as JSON.

    Returns:
        The path of the file.
    """
    write_json(Path(path), report.to_dict())
    return Path(path)
