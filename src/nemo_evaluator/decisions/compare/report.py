"""What a comparison found: the report that is written, printed and attached to a gate decision."""

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final, Self

from nemo_evaluator.core.files import write_json
from nemo_evaluator.core.types import JsonDict, ReportMapping
from nemo_evaluator.decisions.compare.changes import FlipReport, Shift
from nemo_evaluator.decisions.compare.comparability import SettingDifference
from nemo_evaluator.decisions.compare.verdict import Relation, Verdict, mirrored
from nemo_evaluator.decisions.pairing import Pairing
from nemo_evaluator.statistics import Interval, PairedTest, score

REPORT_VERSION: Final = 1
N_PERMUTATIONS: Final = 10_000


@dataclass(frozen=True, slots=True)
class RunSide:
    """One side as the report names it."""

    run_id: str
    config: JsonDict
    path: str
    score: Interval
    problems: int
    rows: int
    failed_rows: int
    invalid: list[str]

    def to_dict(self) -> JsonDict:
        return asdict(self) | {"score": score(self.score)}


@dataclass(frozen=True, slots=True)
class Paired:
    """What paired and what did not."""

    by: str
    paired: int
    only_baseline: int
    only_candidate: int
    unscored_baseline: int
    unscored_candidate: int
    share: float

    @classmethod
    def of(cls, pairing: Pairing) -> Self:
        only = pairing.only_baseline, pairing.only_candidate
        unscored = pairing.baseline.unscored, pairing.candidate.unscored
        return cls(pairing.by, len(pairing), *only, *unscored, round(pairing.share, 4))


@dataclass(slots=True)
class RegressionReport(ReportMapping):
    """One candidate against one baseline on one benchmark."""

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
    # How many problems the benchmark has at all.
    available: int | None
    score_deltas: dict[str, JsonDict]
    runtime_deltas: dict[str, JsonDict]
    category_deltas: dict[str, JsonDict]
    flips: FlipReport | None
    shifts: list[Shift]
    differences: list[SettingDifference]
    missing: JsonDict
    warnings: list[str] = field(default_factory=list)
    direction: str = "higher_is_better"
    # Problems that got worse and better, by however little.
    moved: tuple[int, int] = (0, 0)
    # Whether rewards are more than right or wrong, so that a problem may move without changing sides.
    graded: bool = False

    @property
    def better(self) -> float:
        """The sign of a difference that is good."""
        return 1.0 if self.direction == "higher_is_better" else -1.0

    @property
    def gain(self) -> Interval:
        """The difference, turned so that above zero is good."""
        if self.better > 0:
            return self.difference
        return mirrored(self.difference)

    def to_dict(self) -> JsonDict:
        """The report as JSON: the documented keys, and more."""
        method = self.test.method.removesuffix("_limit")
        key = method if method == "mcnemar" else f"{method}_test"
        report: JsonDict = {
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
            "pairing": asdict(self.pairing),
            "detectable_drop": _round(self.detectable),
            "problems_needed": self.needed,
            "problems_available": self.available,
            "score_deltas": self.score_deltas,
            "runtime_deltas": self.runtime_deltas,
            "shifts": [shift.to_dict() for shift in self.shifts],
            "config_differences": [asdict(difference) for difference in self.differences],
            "missing_data": self.missing,
            "test_used": key,
            "test_reason": self.test_reason,
            key: self._test(key),
        }
        if self.warnings:
            report["warnings"] = self.warnings
        if self.category_deltas:
            report["category_deltas"] = self.category_deltas
        if self.flips is not None:
            report["flip_report"] = self.flips.to_dict()
        return report

    def _test(self, key: str) -> JsonDict:
        """The JSON of the test; a loss is positive there."""
        test = self.test
        gain = self.gain
        found: JsonDict = {
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
            found |= {"n_positive": worse, "n_negative": better, "n_ties": test.n - worse - better}
        elif key == "permutation_test":
            found |= {"observed_mean_diff": _round(-test.effect), "n_permutations": N_PERMUTATIONS}
            # Cohen's d for paired values, as this test has always been reported.
            if self.sd:
                found["effect_size"] = _round(-test.effect / self.sd)
            else:
                found["effect_size"] = None
        return found


def _round(value: float | None) -> float | None:
    if value is None:
        return None
    return round(value, 6)


def write_report(report: ReportMapping, path: Path | str) -> Path:
    """Write a comparison or a decision as JSON."""
    write_json(Path(path), report.to_dict())
    return Path(path)
