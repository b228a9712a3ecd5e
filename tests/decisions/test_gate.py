"""The gate: what can never be GO, what the tiers mean, and what each limit does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nemo_evaluator.config.gate_policy import GatePolicy, PolicyDefaults
from nemo_evaluator.core.errors import NelError
from nemo_evaluator.decisions import compare_runs, gate_runs, write_gate_report
from nemo_evaluator.decisions.compare.verdict import Verdict
from nemo_evaluator.decisions.gate.report import GateVerdict, Status
from nemo_evaluator.decisions.gate.thresholds import measure
from nemo_evaluator.decisions.pairing import Pairing, Side

GOOD = [1.0] * 300 + [0.0] * 200


def policy(**fields: Any) -> GatePolicy:
    return GatePolicy.model_validate(fields)


def drop(share: float, rewards: list[float] = GOOD) -> list[float]:
    """The rewards with a share of all problems turned from right to wrong."""
    count = round(share * len(rewards))
    return [0.0] * count + rewards[count:]


def test_two_empty_folders_are_not_go(tmp_path: Path) -> None:
    """W12: nothing evaluated used to be GO."""
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    report = gate_runs(tmp_path / "a", tmp_path / "b")
    assert report.verdict is GateVerdict.INCONCLUSIVE
    assert "nothing can be approved" in report.reasons[0]


def test_disjoint_problems_are_not_go(write_run: Any, make_rows: Any, tmp_path: Path) -> None:
    other = make_rows(GOOD)
    for row in other:
        row["problem_hash"] = f"{row['problem_idx'] + 10_000:032x}"
    write_run("a/toy", GOOD)
    write_run("b/toy", rows=other)
    report = gate_runs(tmp_path / "a", tmp_path / "b")
    assert report.verdict is GateVerdict.INCONCLUSIVE
    assert report.benchmarks[0].reasons == ["no problem pairs"]


def test_equal_runs_go_and_broken_ones_do_not(write_run: Any, tmp_path: Path) -> None:
    write_run("a/toy", GOOD)
    write_run("same/toy", GOOD)
    write_run("broken/toy", drop(0.2))
    assert gate_runs(tmp_path / "a", tmp_path / "same").verdict is GateVerdict.GO
    broken = gate_runs(tmp_path / "a", tmp_path / "broken")
    assert broken.verdict is GateVerdict.NO_GO
    assert broken.benchmarks[0].absolute_breached
    assert broken.benchmarks[0].p_breach_adjusted < 0.025


def test_bundle_files_stand_for_their_folders(write_run: Any) -> None:
    base, same = write_run("a", GOOD), write_run("b", GOOD)
    report = gate_runs(next(base.glob("eval-*.json")), next(same.glob("eval-*.json")))
    assert report.verdict is GateVerdict.GO


def test_a_second_run_in_the_folder_is_not_missing(write_run: Any, tmp_path: Path) -> None:
    """W12, W16: two bundles in a task folder used to be skipped silently."""
    write_run("a/toy", GOOD)
    write_run("b/toy", drop(0.5), stamp="20260101T000000Z")
    write_run("b/toy", GOOD, stamp="20260102T000000Z")
    report = gate_runs(
        tmp_path / "a", tmp_path / "b", policy(benchmarks={"toy": {"tier": "critical"}})
    )
    assert report.verdict is GateVerdict.GO


def test_a_required_benchmark_that_is_missing_stops(write_run: Any, tmp_path: Path) -> None:
    write_run("a/toy", GOOD)
    write_run("b/toy", GOOD)
    rules = policy(
        benchmarks={"toy": {}, "math": {"tier": "supporting"}, "chat": {"tier": "advisory"}}
    )
    report = gate_runs(tmp_path / "a", tmp_path / "b", rules)
    assert report.verdict is GateVerdict.NO_GO
    assert report.missing == ["math"]


def test_another_benchmark_is_not_the_required_one(write_run: Any, tmp_path: Path) -> None:
    write_run("a/math", GOOD, name="math")
    write_run("b/chat", GOOD, name="chat")
    report = gate_runs(tmp_path / "a", tmp_path / "b", policy(benchmarks={"math": {}}))
    assert report.verdict is GateVerdict.NO_GO
    assert report.missing == ["math"]


@pytest.mark.parametrize("tier", ["critical", "supporting"])
def test_an_invalid_run_proves_nothing_in_gate_and_compare_alike(
    tier: str, write_run: Any, tmp_path: Path
) -> None:
    write_run("a/toy", GOOD)
    write_run("b/toy", [None if i % 8 == 0 else reward for i, reward in enumerate(GOOD)])
    report = gate_runs(tmp_path / "a", tmp_path / "b", policy(benchmarks={"toy": {"tier": tier}}))
    assert report.benchmarks[0].status is Status.INVALID
    compared = compare_runs(tmp_path / "a" / "toy", tmp_path / "b" / "toy")
    assert (report.verdict, compared.verdict) == ("INCONCLUSIVE", "INCONCLUSIVE")
    assert report.verdict.exit_code == compared.verdict.exit_code == 2


def test_advisory_benchmarks_only_inform(write_run: Any, tmp_path: Path) -> None:
    for name, rewards in (("toy", GOOD), ("chat", drop(0.5))):
        write_run(f"a/{name}", GOOD, name=name)
        write_run(f"b/{name}", rewards, name=name)
    report = gate_runs(
        tmp_path / "a", tmp_path / "b", policy(benchmarks={"chat": {"tier": "advisory"}})
    )
    assert report.verdict is GateVerdict.GO
    assert {entry.benchmark: entry.status for entry in report.benchmarks}["chat"] is Status.BREACH
    alone = gate_runs(
        tmp_path / "a/chat", tmp_path / "b/chat", policy(defaults={"tier": "advisory"})
    )
    assert alone.verdict is GateVerdict.INCONCLUSIVE


def test_too_little_evidence_is_inconclusive_and_says_what_would_help(
    write_run: Any, tmp_path: Path
) -> None:
    rng = np.random.default_rng(0)
    base = rng.integers(0, 2, 100).astype(float)
    candidate = np.where(rng.random(100) < 0.1, 1 - base, base)
    write_run("a/toy", base)
    write_run("b/toy", candidate)
    report = gate_runs(tmp_path / "a", tmp_path / "b")
    entry = report.benchmarks[0]
    assert report.verdict is GateVerdict.INCONCLUSIVE
    assert entry.status is Status.INSUFFICIENT
    assert entry.remedy is not None
    assert entry.remedy.problems_needed > 100
    assert "paired problems" in entry.remedy.words


def test_repeats_are_offered_when_answers_are_noisy(write_run: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    write_run("a/toy", [list(row) for row in rng.integers(0, 2, (150, 4)).astype(float)])
    write_run("b/toy", [list(row) for row in rng.integers(0, 2, (150, 4)).astype(float)])
    entry = gate_runs(
        tmp_path / "a", tmp_path / "b", policy(defaults={"max_drop": 0.08})
    ).benchmarks[0]
    assert entry.remedy is not None
    assert entry.remedy.repeats_needed is not None
    assert entry.remedy.repeats_needed > 4


def test_equal_differences_are_no_certainty(write_run: Any, tmp_path: Path) -> None:
    """W12: ten identical small drops used to give a zero-width interval."""
    write_run("a/toy", [0.900] * 10)
    write_run("b/toy", [0.880] * 10)
    entry = gate_runs(tmp_path / "a", tmp_path / "b").benchmarks[0]
    assert entry.delta_ci_upper - entry.delta_ci_lower > 0
    assert entry.status is Status.INSUFFICIENT


def test_the_relative_guard_needs_proof_too(write_run: Any, tmp_path: Path) -> None:
    """W12: it used to be a point estimate, checked first."""
    write_run("few/toy", [1.0] * 6 + [0.0] * 54)
    write_run("fewer/toy", [1.0] * 5 + [0.0] * 55)
    rules = policy(defaults={"max_drop": 1.0, "max_relative_drop": 0.05})
    open_ = gate_runs(tmp_path / "few", tmp_path / "fewer", rules).benchmarks[0]
    assert open_.status is Status.INSUFFICIENT
    assert not open_.relative_breached
    same = gate_runs(tmp_path / "few", tmp_path / "few", rules).benchmarks[0]
    assert same.status is Status.INSUFFICIENT, (
        "six problems that held do not prove that a twentieth part is kept"
    )
    write_run("many/toy", [1.0] * 400 + [0.0] * 1600)
    write_run("half/toy", [1.0] * 200 + [0.0] * 1800)
    broken = gate_runs(tmp_path / "many", tmp_path / "half", rules).benchmarks[0]
    assert broken.status is Status.BREACH
    assert (broken.relative_breached, broken.absolute_breached) == (True, False)
    guarded = policy(
        defaults={"max_drop": 1.0, "max_relative_drop": 0.05, "relative_guard_below": 0.1}
    )
    assert (
        gate_runs(tmp_path / "many", tmp_path / "half", guarded).benchmarks[0].status is Status.PASS
    )


def test_lower_is_better(write_run: Any, tmp_path: Path) -> None:
    write_run("a/toy", [0.2] * 100)
    write_run("b/toy", [0.5] * 100)
    rules = policy(defaults={"direction": "lower_is_better"})
    assert gate_runs(tmp_path / "a", tmp_path / "b", rules).verdict is GateVerdict.NO_GO
    assert gate_runs(tmp_path / "b", tmp_path / "a", rules).verdict is GateVerdict.GO


def test_floors_of_the_policy(write_run: Any, make_rows: Any, tmp_path: Path) -> None:
    write_run("a/toy", GOOD)
    write_run("holes/toy", [None if i % 50 == 0 else reward for i, reward in enumerate(GOOD)])
    write_run("cut/toy", rows=make_rows(GOOD, finish_reason="length"))
    write_run("b/toy", GOOD)

    def status(side, **rule):
        return gate_runs(tmp_path / "a", tmp_path / side, policy(defaults=rule)).benchmarks[0]

    assert status("holes", max_drop=0.1).status is Status.PASS
    assert status("holes", min_coverage=0.99).status is Status.INVALID
    assert status("cut").status is Status.PASS
    assert status("cut", max_truncated=0.1).status is Status.INVALID
    assert status("b", min_paired=501).status is Status.INSUFFICIENT


def test_another_scorer_is_not_proof(write_run: Any, tmp_path: Path) -> None:
    write_run("a/toy", GOOD, config={"fingerprints": {"scorer": "x"}})
    write_run("b/toy", GOOD, config={"fingerprints": {"scorer": "y"}})
    report = gate_runs(tmp_path / "a", tmp_path / "b")
    assert report.verdict is GateVerdict.INCONCLUSIVE
    assert "scorer differs" in report.benchmarks[0].reasons[0]


def test_correction_guards_against_many_benchmarks(write_run: Any, tmp_path: Path) -> None:
    """One of twenty at p = 0.01 is a breach alone, and chance among twenty."""
    for at in range(20):
        write_run(f"a/b{at}", GOOD, name=f"b{at}")
        write_run(f"b/b{at}", drop(0.03) if at == 0 else GOOD, name=f"b{at}")
    none = gate_runs(tmp_path / "a", tmp_path / "b", policy(correction="none"))
    holm = gate_runs(tmp_path / "a", tmp_path / "b", policy(correction="holm"))
    p = none.benchmarks[0].p_breach
    assert p is not None
    assert 0.025 / 20 < p < 0.025
    assert none.verdict is GateVerdict.NO_GO
    assert holm.verdict is GateVerdict.INCONCLUSIVE
    critical = policy(benchmarks={"b0": {"tier": "critical"}})
    assert gate_runs(tmp_path / "a", tmp_path / "b", critical).verdict is GateVerdict.NO_GO


def test_no_flip_proves_little_about_a_share_either(write_run: Any, tmp_path: Path) -> None:
    """A tenth of 0.5 is five points; one run in twenty that loses them does so without a flip among sixty problems."""
    rules = policy(defaults={"max_drop": 0.5, "max_relative_drop": 0.1})
    for n, verdict in ((60, GateVerdict.INCONCLUSIVE), (120, GateVerdict.GO)):
        write_run(f"a{n}/toy", [1.0, 0.0] * (n // 2))
        assert gate_runs(tmp_path / f"a{n}", tmp_path / f"a{n}", rules).verdict is verdict


def test_sequential_bounds_are_wider(write_run: Any, tmp_path: Path) -> None:
    write_run("a/toy", GOOD)
    write_run("b/toy", drop(0.05))
    once = gate_runs(tmp_path / "a", tmp_path / "b").benchmarks[0]
    always = gate_runs(tmp_path / "a", tmp_path / "b", policy(sequential=True)).benchmarks[0]
    assert always.ci_method == "betting"
    assert always.delta_ci_lower < once.delta_ci_lower < once.delta_ci_upper < always.delta_ci_upper


def test_a_metric_that_cannot_be_gated_fails_early(write_run: Any, tmp_path: Path) -> None:
    write_run("a/toy", GOOD)
    write_run("b/toy", GOOD)
    with pytest.raises(NelError, match="cannot be gated"):
        gate_runs(tmp_path / "a", tmp_path / "b", policy(defaults={"metric": "exact_match"}))


def test_advisory_may_look_at_another_scorer(
    write_run: Any, make_rows: Any, tmp_path: Path
) -> None:
    write_run("a/toy", rows=make_rows(GOOD, scorer_rewards={"scorer:style": 1.0}))
    write_run("b/toy", rows=make_rows(GOOD, scorer_rewards={"scorer:style": 0.0}))
    rules = policy(defaults={"tier": "advisory", "metric": "scorer:style"})
    assert gate_runs(tmp_path / "a", tmp_path / "b", rules).benchmarks[0].status is Status.BREACH


def test_pass_at_1_counts_what_is_above_zero(write_run: Any, tmp_path: Path) -> None:
    write_run("a/toy", [0.9] * 100)
    write_run("b/toy", [0.1] * 100)
    assert gate_runs(tmp_path / "a", tmp_path / "b").verdict is GateVerdict.NO_GO
    rules = policy(defaults={"metric": "pass@1", "max_drop": 0.05})
    assert gate_runs(tmp_path / "a", tmp_path / "b", rules).verdict is GateVerdict.GO


def test_report_json_keeps_its_keys(write_run: Any, tmp_path: Path) -> None:
    write_run("a/toy", GOOD)
    write_run("b/toy", GOOD)
    report = gate_runs(tmp_path / "a", tmp_path / "b")
    document = json.loads(write_gate_report(report, tmp_path / "g.json").read_text())
    assert {
        "report_version",
        "verdict",
        "verdict_reasons",
        "benchmarks",
        "missing",
        "warnings",
    } <= set(document)
    assert {
        "benchmark", "tier", "status", "metric", "baseline_score", "candidate_score", "delta", "relative_drop_pct",
        "delta_ci_lower", "delta_ci_upper", "n_paired", "max_drop_threshold", "max_relative_drop_threshold",
        "direction", "absolute_breached", "relative_breached", "reasons", "regression_report",
    } <= set(document["benchmarks"][0])  # fmt: skip
    assert document["benchmarks"][0]["regression_report"]["verdict"] == "PASS"


def test_a_misspelt_benchmark_is_found(write_run: Any, tmp_path: Path) -> None:
    write_run("a/gsm8k", GOOD, name="gsm8k")
    write_run("b/gsm8k", GOOD, name="gsm8k")
    report = gate_runs(tmp_path / "a", tmp_path / "b", policy(benchmarks={"gsm8": {}, "far": {}}))
    reasons = {
        entry.benchmark: entry.reasons
        for entry in report.benchmarks
        if entry.status is Status.MISSING
    }
    absent = "required by the policy, but not in the baseline nor in the candidate"
    assert reasons == {"gsm8": [absent, "did the policy mean 'gsm8k'?"], "far": [absent]}
    one_side = gate_runs(tmp_path / "a", tmp_path / "b/gsm8k", policy(benchmarks={"gsm8k": {}}))
    assert one_side.verdict is GateVerdict.GO
    (tmp_path / "empty").mkdir()
    lacking = gate_runs(
        tmp_path / "a", tmp_path / "empty", policy(benchmarks={"gsm8k": {}})
    ).benchmarks[0]
    assert lacking.reasons == ["required by the policy, but not in the candidate"]


def test_lower_is_better_in_the_attached_comparison_too(write_run: Any, tmp_path: Path) -> None:
    write_run("a/toy", drop(0.0))
    write_run("b/toy", drop(0.3))
    rules = policy(defaults={"direction": "lower_is_better"})
    entry = gate_runs(tmp_path / "a", tmp_path / "b", rules).benchmarks[0]
    assert entry.status is Status.PASS
    assert entry.regression is not None
    assert entry.regression.verdict == "PASS"


def test_a_baseline_of_zero_has_no_share_to_lose(write_run: Any, tmp_path: Path) -> None:
    write_run("zero/toy", [0.0] * 400)
    write_run("some/toy", [1.0] * 40 + [0.0] * 360)
    rules = policy(defaults={"max_drop": 0.05, "max_relative_drop": 0.1})
    report = gate_runs(tmp_path / "zero", tmp_path / "zero", rules)
    assert report.verdict is GateVerdict.GO
    assert any(
        "max_relative_drop does not apply to a baseline score of 0" in warning
        for warning in report.warnings
    )
    toxic = policy(
        defaults={"max_drop": 0.5, "max_relative_drop": 0.1, "direction": "lower_is_better"}
    )
    risen = gate_runs(tmp_path / "zero", tmp_path / "some", toxic).benchmarks[0]
    assert risen.relative_breached, "any rise is more than a tenth of nothing"


def test_a_relative_drop_is_measured_on_the_mean(write_run: Any, tmp_path: Path) -> None:
    """Rewards of both signs: the baseline's mean is 0.2, and a tenth of that is 0.02, whatever single rewards are."""
    base = np.array([5.2, -4.8] * 200)
    write_run("a/toy", base)
    write_run("b/toy", base - 0.1 + np.random.default_rng(0).normal(0, 0.01, 400))
    rules = policy(defaults={"max_drop": 1.0, "max_relative_drop": 0.1})
    entry = gate_runs(tmp_path / "a", tmp_path / "b", rules).benchmarks[0]
    assert (entry.relative_breached, entry.absolute_breached) == (True, False)


def test_looking_at_rewards_beyond_one_proves_nothing(write_run: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    write_run("a/toy", rng.normal(5, 1, 200))
    write_run("b/toy", rng.normal(9, 1, 200))
    report = gate_runs(tmp_path / "a", tmp_path / "b", policy(sequential=True))
    entry = report.benchmarks[0]
    assert entry.status is Status.INSUFFICIENT
    assert entry.delta_ci_lower is None
    assert entry.remedy is not None
    assert entry.remedy.words.startswith("no amount of data")
    assert gate_runs(tmp_path / "a", tmp_path / "b").verdict is GateVerdict.GO


def test_an_advisory_scorer_that_no_row_has(write_run: Any, tmp_path: Path) -> None:
    write_run("a/toy", GOOD)
    rules = policy(defaults={"tier": "advisory", "metric": "scorer:style"})
    entry = gate_runs(tmp_path / "a", tmp_path / "a", rules).benchmarks[0]
    assert (entry.status, entry.reasons) == (
        Status.INSUFFICIENT,
        ["no row has a reward of 'scorer:style'"],
    )


def test_the_gate_says_what_did_not_pair(write_run: Any, tmp_path: Path) -> None:
    write_run("a/toy", GOOD)
    write_run("b/toy", GOOD[:400])
    warnings = gate_runs(tmp_path / "a", tmp_path / "b").warnings
    assert "toy: 400 problems paired; 100 only in the baseline, 0 only in the candidate" in warnings


def test_a_cut_file_is_invalid(write_run: Any, tmp_path: Path) -> None:
    write_run("a/toy", GOOD)
    path = write_run("b/toy", GOOD) / "results.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:450]))
    entry = gate_runs(tmp_path / "a", tmp_path / "b").benchmarks[0]
    assert entry.status is Status.INVALID
    assert entry.reasons == ["the candidate has scored 90.0% of its 500 rows, the minimum is 95%"]


def test_the_gate_names_what_failed_rows_could_hide(write_run: Any, tmp_path: Path) -> None:
    write_run("a/toy", GOOD)
    write_run("b/toy", [None] * 10 + GOOD[10:])
    warnings = gate_runs(tmp_path / "a", tmp_path / "b").warnings
    assert any(
        line.startswith("toy: rows that failed") and line.endswith("is -0.0200")
        for line in warnings
    )


def test_two_limits_are_two_chances_to_breach(write_run: Any, tmp_path: Path) -> None:
    """A p-value that is enough for one limit is not enough for the better of two."""
    write_run("a/toy", GOOD)
    write_run("b/toy", drop(0.028))
    one = gate_runs(tmp_path / "a", tmp_path / "b").benchmarks[0]
    two = gate_runs(
        tmp_path / "a", tmp_path / "b", policy(defaults={"max_relative_drop": 0.9})
    ).benchmarks[0]
    assert one.p_breach is not None
    assert 0.0125 < one.p_breach <= 0.025
    assert one.status is Status.BREACH
    assert (two.p_breach, two.p_breach_adjusted) == (one.p_breach, 2 * one.p_breach)
    assert two.status is Status.INSUFFICIENT


def test_few_pairs_of_many_problems_are_no_proof(
    write_run: Any, make_rows: Any, tmp_path: Path
) -> None:
    other = make_rows(GOOD)
    for row in other[200:]:
        row["problem_hash"] = f"{row['problem_idx'] + 10_000:032x}"
    write_run("a/toy", GOOD)
    write_run("b/toy", rows=other)
    entry = gate_runs(
        tmp_path / "a", tmp_path / "b", policy(defaults={"max_drop": 0.1})
    ).benchmarks[0]
    assert entry.status is Status.INSUFFICIENT
    assert entry.reasons == ["only 200 problems paired (40% of the smaller side)"]


@pytest.mark.parametrize("looked", ["a", "b"])
def test_a_rule_that_looked_at_either_side_counts(
    looked: str, write_run: Any, tmp_path: Path
) -> None:
    for side in ("a", "b"):
        stopped = {"kind": "rule", "reason": "decided", "rule": {"stopped": True}}
        write_run(f"{side}/toy", GOOD, **({"stopped": stopped} if side == looked else {}))
    assert gate_runs(tmp_path / "a", tmp_path / "b").benchmarks[0].ci_method == "betting"


def test_rare_losses_of_partial_credit_hold_the_level() -> None:
    """A drop exactly on the limit, made of few large losses: Student's t would pass one run in twelve."""
    rules, passed, breached, n = PolicyDefaults(max_drop=0.02), 0, 0, 300
    for seed in range(600):
        rng = np.random.default_rng([9, seed])
        lost = np.where(rng.random(n) < 0.05, 0.8 * rng.random(n), 0.0)
        keys, ones = np.arange(n), np.ones(n, dtype=np.int64)
        sides = [
            Side(keys, rewards, ones, keys, 0 * keys, False, n, 0)
            for rewards in (np.full(n, 0.9), 0.9 - lost)
        ]
        (limit,) = measure(
            Pairing("content", sides[0], sides[1], 0, 0, ()), rules, confidence=0.95
        ).limits
        passed, breached = passed + (limit.p_pass <= 0.025), breached + (limit.p_breach <= 0.025)
    assert passed <= 24, "2.5 %, and the noise of 600 runs"
    assert breached <= 24


def test_a_relative_rise_holds_the_level() -> None:
    """Errors that double exactly as they may: what is allowed is as unsure as the baseline it is taken from."""
    rules = PolicyDefaults(max_drop=1.0, max_relative_drop=1.0, direction="lower_is_better")
    passed, breached, n = 0, 0, 400
    for seed in range(600):
        rng = np.random.default_rng([10, seed])
        before = rng.random(n) < 0.2
        after = np.where(before, rng.random(n) < 0.9, rng.random(n) < 0.275)
        keys, ones = np.arange(n), np.ones(n, dtype=np.int64)
        sides = [
            Side(keys, side.astype(float), ones, keys, 0 * keys, True, n, 0)
            for side in (before, after)
        ]
        found = measure(
            Pairing("content", sides[0], sides[1], 0, 0, ()), rules, confidence=0.95
        ).limits[1]
        passed, breached = passed + (found.p_pass <= 0.025), breached + (found.p_breach <= 0.025)
    assert passed <= 26
    assert breached <= 26


def test_a_breach_among_many_needs_more_data(write_run: Any, tmp_path: Path) -> None:
    """What settles an open benchmark is reckoned after the correction."""
    for at in range(10):
        write_run(f"a/b{at}", GOOD, name=f"b{at}")
        write_run(f"b/b{at}", drop(0.022) if at == 0 else GOOD, name=f"b{at}")
    needed = {}
    for correction in ("none", "holm"):
        entry = gate_runs(
            tmp_path / "a", tmp_path / "b", policy(correction=correction), details=False
        ).benchmarks[0]
        assert entry.remedy is not None
        needed[correction] = entry.remedy.problems_needed
    assert needed["none"] < needed["holm"]


def test_two_runs_of_one_benchmark_in_a_folder_are_an_error(write_run: Any, tmp_path: Path) -> None:
    """An old good run beside a new broken one: the good one used to be taken by the name of its folder."""
    write_run("a/toy", GOOD)
    write_run("b/toy", GOOD, stamp="20260101T000000Z")
    write_run("b/toy-new", drop(0.5), stamp="20260202T000000Z")
    for pair in (("a", "b"), ("b", "a")):
        with pytest.raises(NelError, match="both hold a run of 'toy'"):
            gate_runs(tmp_path / pair[0], tmp_path / pair[1])


def lose(rewards: list[float], count: int) -> list[float | None]:
    """The rewards with the first rows failed."""
    return [None] * count + rewards[count:]


@pytest.mark.parametrize("direction", ["higher_is_better", "lower_is_better"])
def test_failed_rows_that_could_hide_the_limit_are_never_go(
    direction: str, write_run: Any, tmp_path: Path
) -> None:
    """1,000 problems, 20 lost to HTTP 500, and a limit of 0.015 used to be GO."""
    rewards = [1.0] * 1000 if direction == "higher_is_better" else [0.0] * 1000
    for side, lost in (("a", 0), ("b", 20), ("c", 5), ("d", 0)):
        write_run(f"{side}/toy", lose(rewards, lost))
    rules = policy(defaults={"max_drop": 0.015, "direction": direction})
    report = gate_runs(tmp_path / "a", tmp_path / "b", rules)
    assert report.verdict is GateVerdict.INCONCLUSIVE
    (entry,) = report.benchmarks
    assert entry.status is Status.INSUFFICIENT
    assert "0 in the baseline, 20 in the candidate" in entry.reasons[0]
    assert abs(entry.delta_worst_case) == pytest.approx(0.02)
    assert entry.delta == 0.0
    assert entry.remedy is not None and "--resume" in entry.remedy.words
    # The candidate is right on everything, so what the baseline lost hides nothing.
    assert gate_runs(tmp_path / "b", tmp_path / "a", rules).verdict is GateVerdict.GO
    assert gate_runs(tmp_path / "a", tmp_path / "c", rules).verdict is GateVerdict.GO
    assert gate_runs(tmp_path / "a", tmp_path / "d", rules).verdict is GateVerdict.GO


def test_rows_that_were_planned_and_are_not_there_count_as_failed(
    write_run: Any, tmp_path: Path
) -> None:
    write_run("a/toy", [1.0] * 1000)
    coverage = {"planned": 1000, "scored": 980, "failed": 0, "share": 0.98}
    write_run("b/toy", [1.0] * 980, benchmark={"name": "toy", "coverage": coverage, "scores": {}})
    assert gate_runs(tmp_path / "a", tmp_path / "b").verdict is GateVerdict.INCONCLUSIVE


def test_a_breach_holds_however_the_failed_rows_would_have_scored(
    write_run: Any, tmp_path: Path
) -> None:
    write_run("a/toy", [1.0] * 1000)
    write_run("b/toy", lose([1.0] * 70 + [0.0] * 30 + [1.0] * 900, 40))
    write_run("c/toy", lose([1.0] * 40 + [0.0] * 100 + [1.0] * 860, 40))
    rules = policy(defaults={"max_drop": 0.01})
    assert gate_runs(tmp_path / "a", tmp_path / "c", rules).verdict is GateVerdict.NO_GO
    half = [0.5] * 1000
    write_run("x/toy", half)
    write_run("y/toy", lose([0.47] * 1000, 40))
    open_report = gate_runs(tmp_path / "x", tmp_path / "y", rules)
    assert open_report.verdict is GateVerdict.INCONCLUSIVE
    assert any(
        "counted in the candidate's favour" in reason
        for reason in open_report.benchmarks[0].reasons
    )


@pytest.mark.parametrize("command", ["gate", "compare"])
def test_a_forged_verdict_counts_as_zero(
    command: str, write_run: Any, make_rows: Any, tmp_path: Path
) -> None:
    """A failure of the harness is nobody's; a program that reached for its judge is the model's own doing."""
    rows = make_rows([1.0] * 1000)
    for row in rows[:40]:
        row |= {
            "status": "failed",
            "reward": None,
            "failure": {"cause": "tamper", "message": "left by os._exit"},
        }
    left, right = write_run("a/toy", [1.0] * 1000), write_run("b/toy", rows=rows)
    said = "the candidate: 40 rows that reached for the judge (tamper), counted as 0"
    if command == "compare":
        report = compare_runs(left, right, max_drop=0.01)
        assert report.verdict is Verdict.BLOCK and report.difference.value == pytest.approx(-0.04)
        assert said in report.warnings
        return
    rules = policy(defaults={"max_drop": 0.01})
    found = gate_runs(left.parent, right.parent, rules)
    assert found.verdict is GateVerdict.NO_GO and found.benchmarks[0].delta == pytest.approx(-0.04)
    assert f"toy: {said}" in found.warnings
    # The other way round it is the baseline that earns nothing for it.
    assert gate_runs(right.parent, left.parent, rules).benchmarks[0].delta == pytest.approx(0.04)


def test_failed_rows_of_unbounded_rewards_are_no_proof(write_run: Any, tmp_path: Path) -> None:
    write_run("a/toy", [3.0, 4.0] * 200)
    write_run("b/toy", lose([3.0, 4.0] * 200, 3))
    report = gate_runs(tmp_path / "a", tmp_path / "b", policy(defaults={"max_drop": 1.0}))
    assert report.verdict is GateVerdict.INCONCLUSIVE
    assert "no bound" in report.benchmarks[0].reasons[0]


@pytest.mark.parametrize(
    "silence", [{"model_response": " \n"}, {"finish_reason": "content_filter"}]
)
@pytest.mark.parametrize("side", ["a", "b"])
def test_many_empty_or_filtered_answers_are_not_a_silent_go(
    silence: dict[str, str], side: str, write_run: Any, make_rows: Any, tmp_path: Path
) -> None:
    for name in ("a", "b"):
        rows = make_rows([0.0] * 100 + [1.0] * 400)
        if name == side:
            rows = [row | silence if row["problem_idx"] < 100 else row for row in rows]
        write_run(f"{name}/toy", rows=rows)
    report = gate_runs(tmp_path / "a", tmp_path / "b")
    assert report.verdict is GateVerdict.INCONCLUSIVE
    assert "20.0% of the answers are empty or content-filtered" in report.benchmarks[0].reasons[0]
    lenient = policy(defaults={"max_unanswered": 0.25})
    accepted = gate_runs(tmp_path / "a", tmp_path / "b", lenient)
    assert accepted.verdict is GateVerdict.GO
    assert any("empty or content-filtered" in warning for warning in accepted.warnings)


def test_silence_that_is_right_is_no_doubt(write_run: Any, make_rows: Any, tmp_path: Path) -> None:
    rows = [row | {"model_response": ""} if row["reward"] else row for row in make_rows(GOOD)]
    write_run("a/toy", rows=rows)
    write_run("b/toy", rows=rows)
    assert gate_runs(tmp_path / "a", tmp_path / "b").verdict is GateVerdict.GO


def test_a_run_that_did_not_finish_beside_a_good_one_is_named(
    write_run: Any, tmp_path: Path
) -> None:
    write_run("a/toy", GOOD)
    write_run("b/toy", GOOD)
    (tmp_path / "b" / "toy-new").mkdir()
    (tmp_path / "b" / "toy-new" / "journal.jsonl").write_text("{}\n")
    report = gate_runs(tmp_path / "a", tmp_path / "b")
    assert any("toy-new did not finish" in warning for warning in report.warnings)
