"""Are the numbers what they say? Coverage, error rates and power by simulation, seeded.

``python -m bench.calibration`` prints the tables of docs/statistics.md (about ten minutes on one core); ``--quick``
runs the small grid that the tests run.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import numpy as np

from bench import coverage, looking
from nemo_evaluator.config.gate_policy import PolicyDefaults
from nemo_evaluator.decisions.gate.gate_runs import aggregate
from nemo_evaluator.decisions.gate.report import BenchmarkGate, GateVerdict, Status
from nemo_evaluator.decisions.gate.thresholds import Measurement, measure, settle
from nemo_evaluator.decisions.pairing import Pairing, Side
from nemo_evaluator.statistics import mcnemar_test, mean_difference, unpaired_difference


def paired_tests(runs: int, seed: int = 4) -> Iterator[tuple[str, dict[str, float]]]:
    """Level and power of the paired tests beside the unpaired one, 5 % one-sided, n = 300."""
    for name, drop in (("no drop", 0.0), ("drop of 0.05", 0.05), ("drop of 0.10", 0.10)):
        rng = np.random.default_rng([seed, int(drop * 100)])
        left, right, _ = coverage.paired_sides(rng, runs, 300, 1, drop, alike=0.7)
        found: dict[str, list[bool]] = {
            "mcnemar": [],
            "paired difference": [],
            "unpaired (Welch)": [],
        }
        for before, after in zip(left, right, strict=True):
            worse, better = int(((before - after) > 0).sum()), int(((after - before) > 0).sum())
            found["mcnemar"].append(mcnemar_test(worse, better, 300).p_value <= 0.05)
            found["paired difference"].append(
                mean_difference(after - before, bounded=True).p_below(0.0) <= 0.05
            )
            upper = unpaired_difference(before, after, confidence=0.90).upper
            found["unpaired (Welch)"].append(upper is not None and upper < 0)
        yield name, {test: float(np.mean(hits)) for test, hits in found.items()}


def gate_errors(runs: int, seed: int = 5, benchmarks: int = 20) -> dict[str, float]:
    """How often a gate over 20 benchmarks errs, at the worst place: drops exactly on the limit (nominal: 0.025).

    False GO: one benchmark drops by its limit, the others not. False NO-GO: all drop by their limit, none by more.
    Problems flip both ways, or only to the worse.
    """
    limit, n = 0.05, 400
    found = {}
    for flips, alike in (("flips both ways", 0.9), ("flips to the worse alone", 1.0)):
        rng = np.random.default_rng([seed, int(10 * alike)])
        false_go = false_no_go = 0
        for _ in range(runs):
            false_go += (
                _gate(rng, [limit] + [0.0] * (benchmarks - 1), n, limit, alike) is GateVerdict.GO
            )
            false_no_go += _gate(rng, [limit] * benchmarks, n, limit, alike) is GateVerdict.NO_GO
        found |= {
            f"false GO, {flips}": false_go / runs,
            f"false NO-GO, {flips}": false_no_go / runs,
        }
    return found


def _gate(
    rng: np.random.Generator, drops: list[float], n: int, limit: float, alike: float
) -> GateVerdict:
    """The decision of the gate itself on made-up runs."""
    rules = PolicyDefaults(max_drop=limit)
    found = []
    for at, drop in enumerate(drops):
        left, right, _ = coverage.paired_sides(rng, 1, n, 1, drop, alike=alike)
        keys, ones = np.arange(n), np.ones(n, dtype=np.int64)
        sides = [
            Side(keys, values[0], ones, keys, 0 * keys, True, n, 0) for values in (left, right)
        ]
        pairing = Pairing("content", sides[0], sides[1], 0, 0, ())
        entry = BenchmarkGate(
            f"b{at}", "supporting", Status.INSUFFICIENT, "pass@1", "higher_is_better", limit, None
        )
        found.append(Measurement(entry, measure(pairing, rules, confidence=0.95), pairing))
    settle(found, correction="holm", alpha=0.025)
    return aggregate([one.entry for one in found])[0]


def rows() -> list[dict[str, object]]:
    """For ``python -m bench calibration``: the worst numbers of the long grid."""
    out: list[dict[str, object]] = []
    for name, grid in coverage.GRIDS.items():
        cells = grid(coverage.LONG)
        outside = 1 - coverage.summary([cell for cell in cells if not cell.few])["inside"]
        mean = coverage.summary(cells)["mean"]
        out.append({"name": f"{name}: mean coverage", "value": mean, "unit": "", "limit": None})
        out.append(
            {
                "name": f"{name}: cells outside 93-97 %",
                "value": outside,
                "unit": "share",
                "limit": 0.02,
            }
        )
    out += [
        {"name": f"gate of 20: {name}", "value": rate, "unit": "", "limit": 0.035}
        for name, rate in gate_errors(2000).items()
    ]
    out += [
        {"name": f"peeking: {name}", "value": rate, "unit": "", "limit": 0.05}
        for name, rate in looking.peeking(400).items()
        if "sequence" in name
    ]
    out += [
        {"name": f"{name}: wrong in {where}", "value": rates[where], "unit": "", "limit": 0.05}
        for name, rates in looking.decision_errors(400)
        for where in ("compare", "gate")
    ]
    return out


def main() -> None:
    """Print every table."""
    parser = argparse.ArgumentParser(prog="python -m bench.calibration", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="the small grid of the tests")
    quick = parser.parse_args().quick
    sizes, runs = (coverage.QUICK, 200) if quick else (coverage.LONG, 2000)
    coverage.print_table(sizes)
    print("\n| truth | test | found |\n|---|---|---|")
    for truth, tests in paired_tests(runs):
        for test, rate in tests.items():
            print(f"| {truth} | {test} | {rate:.3f} |")
    print("\n| gate of 20 benchmarks | rate |\n|---|---|")
    for name, rate in gate_errors(runs).items():
        print(f"| {name} | {rate:.4f} |")
    looking.print_tables(runs)


if __name__ == "__main__":
    main()
