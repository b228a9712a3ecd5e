"""GO, NO-GO or INCONCLUSIVE for a candidate, by a policy, on intervals alone.

A GO needs proof on *every* required benchmark, so it needs no correction for their number: one bad benchmark is let
through with at most the chance that its own test errs. A NO-GO needs proof on *any*, so there the number counts
and the policy's correction applies, within each tier: a critical benchmark is not diluted by supporting ones.
"""

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
from nemo_evaluator.decisions.compare.compare_runs import CompareOptions, Comparison
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
from nemo_evaluator.runs.unfinished import find_unfinished
from nemo_evaluator.statistics import ANYTIME


def gate_runs(
    baseline: Path | str,
    candidate: Path | str,
    policy: GatePolicy | Path | str | None = None,
    *,
    details: bool = True,
) -> GateReport:
    """Decide on a candidate. ``details`` attaches the full comparison of each benchmark."""
    if isinstance(policy, GatePolicy):
        rules = policy
    elif policy:
        rules = load_gate_policy(policy)
    else:
        rules = GatePolicy()
    return _Gate(Path(baseline), Path(candidate), rules, details=details).report()


class _Gate:
    def __init__(self, baseline: Path, candidate: Path, policy: GatePolicy, details: bool) -> None:
        self._paths = (baseline, candidate)
        self._policy = policy
        self._details = details
        self._alpha = (1 - policy.confidence) / 2
        # A bundle file stands for its folder.
        folders = [path.parent if path.is_file() else path for path in self._paths]
        self._baseline, self._candidate = map(discover_bundles, folders)
        self._matched = match_bundles(self._baseline, self._candidate, by_name=True)
        self._warnings = [f"{name} is only in the baseline" for name in self._matched.only_baseline]
        self._warnings += [
            f"{name} is only in the candidate" for name in self._matched.only_candidate
        ]
        for word, folder in zip(WORDS, folders, strict=True):
            self._warnings += [
                f"{word}: {one.name} did not finish: {one.reason}"
                for one in find_unfinished(folder)
            ]

    def report(self) -> GateReport:
        policy = self._policy
        entries = [self._entry(name) for name in self._matched.pairs]
        sides = zip(entries, self._matched.pairs.values(), strict=True)
        measured: list[Measurement] = []
        for entry, both in sides:
            found = self._measure(entry, *both)
            if found is not None:
                measured.append(found)
        settle(measured, correction=policy.correction, alpha=self._alpha)
        for one in measured:
            self._remedy(one, [other for other in measured if other.entry.tier == one.entry.tier])
        missing = [name for name in policy.required() if name not in self._matched.pairs]
        entries += [self._missing(name) for name in missing]
        verdict, reasons = aggregate(entries)
        baseline, candidate = map(str, self._paths)
        terms = policy.confidence, policy.correction, policy.sequential
        return GateReport(
            verdict, reasons, entries, missing, self._warnings, baseline, candidate, *terms
        )

    def _remedy(self, one: Measurement, family: list[Measurement]) -> None:
        unproved = one.unproved(self._alpha)
        if one.entry.status is not Status.INSUFFICIENT or not unproved or one.rows is None:
            return
        if one.labelled:
            one.entry.remedy = Remedy(
                None, None, "more labels on both runs: nel judge sample RUN --replace"
            )
            return
        # The level that is left for the first breach to be shown among all limits of the tier.
        if self._policy.correction == "none":
            tests = 1
        else:
            tests = len(family)
        breach_alpha = self._alpha / (tests * len(one.measured.limits))
        left, _ = self._matched.pairs[one.entry.benchmark]
        one.entry.remedy = remedy_for(
            one.pairing,
            one.rows,
            unproved,
            alpha=self._alpha,
            breach_alpha=breach_alpha,
            available=left.dataset_size,
        )

    def _missing(self, name: str) -> BenchmarkGate:
        entry = self._entry(name)
        entry.status = Status.MISSING
        sides = ("baseline", self._baseline), ("candidate", self._candidate)
        lacking = [word for word, runs in sides if name not in runs]
        entry.reasons.append(
            f"required by the policy, but not in the {' nor in the '.join(lacking)}"
        )
        close = nearest(
            name, sorted({*self._baseline, *self._candidate} - {*self._policy.benchmarks})
        )
        if close:
            entry.reasons.append(f"did the policy mean {close!r}?")
        return entry

    def _entry(self, name: str) -> BenchmarkGate:
        limits = self._policy.resolve(name)
        if limits.tier != "advisory" and limits.metric not in (None, *GATED_METRICS):
            hint = f"use {' or '.join(GATED_METRICS)}, or make the tier advisory"
            raise UsageError(f"{name}: metric {limits.metric!r} cannot be gated", hint=hint)
        terms = limits.metric, limits.direction, limits.max_drop, limits.max_relative_drop
        return BenchmarkGate(name, limits.tier, Status.INSUFFICIENT, *terms)

    def _measure(self, entry: BenchmarkGate, left: Bundle, right: Bundle) -> Measurement | None:
        """The evidence on one benchmark; None where it decides nothing, and the entry says why."""
        limits = self._policy.resolve(entry.benchmark)
        policy = self._policy
        terms = CompareOptions(
            limits.max_drop,
            confidence=policy.confidence,
            seed=policy.seed,
            direction=limits.direction,
        )
        if limits.metric not in (None, *GATED_METRICS):
            scorer: str | None = limits.metric
        else:
            scorer = None
        rows = [rows_of_run(run, scorer=scorer, better=terms.better) for run in (left, right)]
        for side in rows if limits.metric == "pass@1" else ():
            side.reward = np.where(side.scored, side.reward > 0, np.nan)
        if scorer is not None and not any(side.scored.any() for side in rows):
            entry.reasons.append(f"no row has a reward of {scorer!r}")
            return None
        compared = Comparison(left, right, rows[0], right=rows[1], options=terms)
        pairing = compared.pairing
        self._warn(
            entry, caveats(compared.runs, compared.rows, pairing, differences=compared.differences)
        )
        self._warn(entry, hidden_loss(compared.missing, limits.max_drop, terms.better))
        if self._details and scorer is None:
            entry.regression = compared.report()
        entry.metric = limits.metric or ("pass@1" if pairing.lattice else "mean_reward")
        entry.n_paired = len(pairing)
        invalid = _unfit(compared, limits)
        if invalid:
            entry.status = Status.INVALID
            entry.reasons = invalid
        if len(pairing) < limits.min_paired:
            _too_few(entry, limits)
            return None
        found = self._evidence(entry, compared, limits, better=terms.better, by_rows=scorer is None)
        return None if invalid else found

    def _evidence(
        self,
        entry: BenchmarkGate,
        compared: Comparison,
        limits: PolicyDefaults,
        better: float,
        *,
        by_rows: bool,
    ) -> Measurement:
        """The margins, what keeps them from being proof, and what rows that failed could hide."""
        pairing = compared.pairing
        confidence = self._policy.confidence
        spending = ANYTIME if self._policy.sequential else compared.spending
        labelled = None
        if by_rows and (limits.metric != "pass@1" or pairing.lattice):
            labelled, said = compared.labelled(spending)
            self._warn(entry, said)

        def read(pairs: Pairing) -> Measured:
            found = measure(pairs, limits, confidence=confidence, spending=spending)
            if labelled is None:
                return found
            moved = float(pairs.differences.mean() - pairing.differences.mean())
            return corrected(found, labelled, better, confidence=confidence, moved=moved)

        found = Measurement(
            entry, read(pairing), pairing, rows=compared.rows, labelled=labelled is not None
        )
        self._warn(entry, found.measured.notes)
        _fill(entry, found.measured, pairing)
        found.doubts = [str(item) for item in compared.differences if item.kind == "scorer"]
        for word, side in zip(WORDS, compared.rows, strict=True):
            if side.unanswered_share > limits.max_unanswered:
                found.doubts.append(unanswered_words(word, side))
        found.doubts += pairing.scarce
        for word, run, side in zip(WORDS, compared.runs, compared.rows, strict=True):
            found.doubts += [f"{word} {reason}" for reason in tampered_too_much(run, side)]
        lost = missing_rows(compared.runs, compared.rows)
        if by_rows and any(lost) and not pairing.bounded:
            unbounded = "rewards beyond [0, 1] set no bound to what they hide"
            found.doubts.append(f"{counted(sum(lost), 'row')} failed, and {unbounded}")
        elif by_rows and any(lost):
            found.worst = read(imagined(compared.runs, compared.rows, pairing, better=better))
            found.best = read(imagined(compared.runs, compared.rows, pairing, better=-better))
            found.note_missing(lost, self._alpha)
        return found

    def _warn(self, entry: BenchmarkGate, notes: list[str]) -> None:
        self._warnings += [f"{entry.benchmark}: {note}" for note in notes]


def _too_few(entry: BenchmarkGate, limits: PolicyDefaults) -> None:
    n = entry.n_paired
    least = limits.min_paired
    if not n:
        entry.reasons.append("no problem pairs")
        return
    entry.reasons.append(f"only {counted(n, 'problem')} paired, the policy asks for {least:,}")
    entry.remedy = Remedy(
        least, None, f"at least {least:,} paired problems (now {n:,}) are what the policy asks for"
    )


def aggregate(entries: list[BenchmarkGate]) -> tuple[GateVerdict, list[str]]:
    """The decision over all benchmarks that have a say. NO-GO: a breach, or a missing benchmark. INCONCLUSIVE: anything
    unproved, an invalid run, or nothing to decide on. GO: every required benchmark is proved to keep its limits."""
    required = [entry for entry in entries if entry.tier != "advisory"]
    stopped = [entry for entry in required if entry.status in (Status.BREACH, Status.MISSING)]
    if stopped:
        return GateVerdict.NO_GO, [_reason(entry) for entry in stopped]
    unproved = [entry for entry in required if entry.status is not Status.PASS]
    if unproved:
        return GateVerdict.INCONCLUSIVE, [_reason(entry) for entry in unproved]
    if not required:
        return GateVerdict.INCONCLUSIVE, ["no benchmark was evaluated, so nothing can be approved"]
    count = len(required)
    if count == 1:
        kept = "the benchmark keeps its limits"
    else:
        kept = f"all {count} benchmarks keep their limits"
    return GateVerdict.GO, [kept]


def _reason(entry: BenchmarkGate) -> str:
    return f"{entry.benchmark} ({entry.tier}): {entry.word}" + (
        f": {entry.reasons[0]}" if entry.reasons else ""
    )


def _fill(entry: BenchmarkGate, measured: Measured, pairing: Pairing) -> None:
    delta = measured.delta
    before = float(pairing.baseline.rewards.mean())
    entry.in_points = pairing.bounded
    entry.baseline_score = round(before, 6)
    entry.candidate_score = round(float(pairing.candidate.rewards.mean()), 6)
    entry.delta = round(delta.value, 6)
    if before:
        entry.relative_drop_pct = round(100 * delta.value / before, 4)
    else:
        entry.relative_drop_pct = None
    entry.delta_ci_lower = delta.lower
    entry.delta_ci_upper = delta.upper
    entry.ci_method = delta.method


def _unfit(compared: Comparison, limits: PolicyDefaults) -> list[str]:
    """Why the numbers of a benchmark must not be used, whatever they are."""
    rows = compared.rows
    reasons: list[str] = []
    for word, run, side in zip(WORDS, compared.runs, rows, strict=True):
        for reason in unfit(run, side, min_coverage=limits.min_coverage):
            reasons.append(f"{word} {reason}")
    answers = rows[1].truncated[rows[1].scored]
    if limits.max_truncated is not None and len(answers) and answers.mean() > limits.max_truncated:
        share = f"{answers.mean():.1%}"
        most = f"{limits.max_truncated:.0%}"
        reasons.append(f"{share} of the candidate's answers are cut off, at most {most} may be")
    return reasons
