"""Runs with a stop rule: what looking costs in error, and what stopping saves. By simulation, seeded.

Every run goes through the product's own ``StopRule``; what is left of it is judged by ``compare`` and by the gate as a
user would have it judged, whether the rule stopped it or not.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from bench.coverage import paired_sides
from nemo_evaluator.config.gate_policy import PolicyDefaults
from nemo_evaluator.decisions.compare.verdict import Relation, relation_of
from nemo_evaluator.decisions.gate.report import BenchmarkGate, Status
from nemo_evaluator.decisions.gate.thresholds import Measurement, measure, settle
from nemo_evaluator.decisions.pairing import Pairing, Side
from nemo_evaluator.statistics import (
    ENDED,
    PLANNED,
    STOPPED,
    Baseline,
    MeanSequence,
    Spending,
    StopRule,
    sequential,
)

_LOOKS_FROM = 30


@dataclass(frozen=True, slots=True)
class Governed:
    """What a rule left of a run: both sides on the problems it used, and how the error of their intervals is spent."""

    before: np.ndarray
    after: np.ndarray
    spending: Spending

    @property
    def pairing(self) -> Pairing:
        """The two sides as a comparison sees them."""
        n = len(self.before)
        keys, ones = np.arange(n), np.ones(n, dtype=np.int64)
        left, right = (
            Side(keys, values, ones, keys, 0 * keys, True, n, 0)
            for values in (self.before, self.after)
        )
        return Pairing("content", left, right, 0, 0, ())

    def compared(self, limit: float) -> Relation:
        """What ``nel compare`` says is proved."""
        pairing = self.pairing
        return relation_of(
            pairing.reading(pairing.differences, self.spending).interval(0.95), limit
        )

    def gated(self, limit: float) -> Status:
        """The status of the benchmark in ``nel gate``."""
        entry = BenchmarkGate(
            "b", "critical", Status.INSUFFICIENT, "pass@1", "higher_is_better", limit, None
        )
        measured = measure(
            self.pairing, PolicyDefaults(max_drop=limit), confidence=0.95, spending=self.spending
        )
        settle([Measurement(entry, measured, self.pairing)], correction="holm", alpha=0.025)
        return entry.status


def govern(
    before: np.ndarray, after: np.ndarray, limit: float | None, width: float | None = None
) -> Governed:
    """Run a rule over one made-up run."""
    names = [str(number) for number in range(len(before))]
    baseline = (
        None if limit is None else Baseline(dict(zip(names, before.tolist(), strict=True)), limit)
    )
    rule = StopRule(baseline=baseline, interval_width=width)
    for used, (name, reward) in enumerate(zip(names, after.tolist(), strict=True), 1):
        if rule.add(name, [reward]) is not None:
            return Governed(before[:used], after[:used], ENDED if rule.last_look else STOPPED)
    return Governed(before, after, ENDED)


def decision_errors(runs: int, seed: int = 9) -> Iterator[tuple[str, dict[str, float]]]:
    """How often decisions on runs with a rule are wrong, drops exactly on the limit: the worst place."""
    for at, (most, limit, alike, width) in enumerate(
        (
            (200, 0.05, 0.7, None),
            (500, 0.05, 0.7, None),
            (500, 0.05, 0.2, None),
            (500, 0.0, 0.7, None),
            (1319, 0.05, 0.7, None),
            (500, 0.05, 0.7, 0.18),
        )
    ):
        wrong = dict.fromkeys(("compare", "gate", "stopped", "usual interval"), 0)
        rng = np.random.default_rng([seed, at])
        left, right, _ = paired_sides(rng, runs, most, 1, limit, alike=alike)
        for before, after in zip(left, right, strict=True):
            run = govern(before, after, limit if width is None else None, width)
            naive = Governed(run.before, run.after, PLANNED)
            wrong["compare"] += run.compared(limit) not in (Relation.UNKNOWN, Relation.INFERIOR)
            wrong["gate"] += run.gated(limit) in (Status.PASS, Status.BREACH)
            wrong["stopped"] += len(run.before) < most
            wrong["usual interval"] += naive.gated(limit) in (Status.PASS, Status.BREACH)
        rule = "decided_against" if width is None else f"interval_width {width:g}"
        flips = "few flips" if alike > 0.5 else "many flips"
        yield (
            f"{rule}, {most:,} problems, limit {limit:g}, {flips}",
            {k: v / runs for k, v in wrong.items()},
        )


def peeking(runs: int, seed: int = 6, most: int = 1500) -> dict[str, float]:
    """How often the truth is ever outside, looking after every problem: confidence sequences and a fixed interval."""
    missed = dict.fromkeys(
        (
            "mean, confidence sequence",
            "paired difference, confidence sequence",
            "mean, fixed 95 % interval",
        ),
        0,
    )
    n = np.arange(1, most + 1)
    for at in range(runs):
        rng = np.random.default_rng([seed, at])
        values = (rng.random(most) < 0.7).astype(float)
        missed["mean, confidence sequence"] += _ever_outside(values, 0.0, 0.7)
        left, right, truth = paired_sides(rng, 1, most, 1, 0.05, alike=0.7)
        missed["paired difference, confidence sequence"] += _ever_outside(
            (right - left)[0], -1.0, -truth
        )
        share = np.cumsum(values) / n
        half = 1.96 * np.sqrt(np.maximum(share * (1 - share), 1e-12) / n)
        missed["mean, fixed 95 % interval"] += bool(
            (np.abs(share - 0.7) > half)[_LOOKS_FROM - 1 :].any()
        )
    return {name: count / runs for name, count in missed.items()}


def _ever_outside(values: np.ndarray, low: float, truth: float) -> bool:
    """Whether ``MeanSequence`` would exclude the truth at any of its looks, all of them at once."""
    unit, mean = (values - low) / (1.0 - low), (truth - low) / (1.0 - low)
    paths = []
    for gains in (unit / mean - 1, (1 - unit) / (1 - mean) - 1):
        logs = np.cumsum(np.log1p(np.outer(sequential.SHARES, gains)), axis=1)
        paths.append(np.logaddexp.reduce(logs + sequential.LOG_WEIGHTS[:, None], axis=0))
    sequence = MeanSequence(low=low)
    sequence.add(values)
    assert np.isclose(sequence.p_above(truth), np.exp(-max(0.0, paths[0][-1])), atol=1e-9)
    return bool(max(path.max() for path in paths) >= np.log(2 / 0.05))


def savings(runs: int, seed: int = 7, most: int = 1319) -> Iterator[tuple[str, dict[str, float]]]:
    """Share of the problems used, decisions made (by the rule or at the last look), and wrong ones."""
    for name, drop, limit, alike in (
        ("10 points worse, limit 0", 0.10, 0.0, 0.7),
        ("10 points worse, limit 0.015", 0.10, 0.015, 0.7),
        ("10 points better, limit 0.015", -0.10, 0.015, 0.7),
        ("10 points worse, limit 0, noisy answers", 0.10, 0.0, 0.2),
        ("10 points worse, limit 0.015, noisy answers", 0.10, 0.015, 0.2),
        ("equal, limit 0.05", 0.0, 0.05, 0.7),
        ("no difference, limit 0", 0.0, 0.0, 0.7),
        ("drop on the limit of 0.05", 0.05, 0.05, 0.7),
    ):
        used, wrong, decided, fixed = [], 0, 0, 0
        for at in range(runs):
            rng = np.random.default_rng([seed, at, int(1000 * (drop + 1))])
            left, right, _ = paired_sides(rng, 1, most, 1, drop, alike=alike)
            run = govern(left[0], right[0], limit)
            used.append(len(run.before) / most)
            status = run.gated(limit)
            right_one = Status.BREACH if drop > limit else Status.PASS if drop < limit else None
            made = status in (Status.PASS, Status.BREACH)
            decided += made
            wrong += made and status is not right_one
            whole = Governed(left[0], right[0], PLANNED)
            fixed += whole.gated(limit) in (Status.PASS, Status.BREACH)
        yield (
            name,
            {
                "used": float(np.mean(used)),
                "decided": decided / runs,
                "wrong": wrong / runs,
                "fixed": fixed / runs,
            },
        )


def print_tables(runs: int) -> None:
    """The tables of docs/statistics.md on looking early."""
    print("\n| looking after every problem | ever wrong |\n|---|---|")
    for name, rate in peeking(runs // 4).items():
        print(f"| {name} | {rate:.3f} |")
    print(
        "\n| drop on the limit, run with a rule | compare | gate | usual interval |\n|---|---|---|---|"
    )
    for name, rates in decision_errors(runs // 2):
        print(
            f"| {name} | {rates['compare']:.3f} | {rates['gate']:.3f} | {rates['usual interval']:.3f} |"
        )
    for most in (1319, 500):
        print(
            f"\n| {most:,} problems | used | decided | decided without a rule | wrong |\n|---|---|---|---|---|"
        )
        for name, found in savings(runs // 10, most=most):
            shares = " | ".join(f"{found[key]:.0%}" for key in ("used", "decided", "fixed"))
            print(f"| {name} | {shares} | {found['wrong']:.3f} |")
