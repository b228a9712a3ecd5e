"""Comparisons: the broken cases of the past first, then what the report says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.decisions import (
    compare_results,
    compare_runs,
    gate_runs,
    load_paired_records,
    write_regression,
)
from nemo_evaluator.decisions.compare.verdict import Verdict, judge, worst
from nemo_evaluator.reports.compare import paired
from nemo_evaluator.statistics import Interval


def test_disjoint_problem_sets_never_pass(write_run: Any, make_rows: Any) -> None:
    """W7: two runs without a common problem."""
    base = write_run("a", rows=make_rows([1.0] * 50))
    other = make_rows([1.0] * 50)
    for row in other:
        row["problem_hash"] = f"{row['problem_idx'] + 1000:032x}"
    report = compare_runs(base, write_run("b", rows=other))
    assert report.verdict is Verdict.INCONCLUSIVE
    assert report.pairing.paired == 0
    assert (report.pairing.only_baseline, report.pairing.only_candidate) == (50, 50)
    assert "nothing was paired" in report.reasons[0]


def test_continuous_scores_falling_are_blocked(write_run: Any) -> None:
    """W7: 0.9 to 0.5 on every problem, no threshold is crossed."""
    rng = np.random.default_rng(0)
    report = compare_runs(
        write_run("a", 0.9 + rng.normal(0, 0.01, 60)), write_run("b", 0.5 + rng.normal(0, 0.01, 60))
    )
    assert report.verdict is Verdict.BLOCK
    assert report.difference.value == pytest.approx(-0.4, abs=0.01)


def test_equal_continuous_drops_are_blocked(write_run: Any) -> None:
    """W12: identical differences have an interval, and a hard decision only where it allows one."""
    report = compare_runs(write_run("a", [0.9] * 60), write_run("b", [0.5] * 60))
    assert report.verdict is Verdict.BLOCK
    assert report.difference.width > 0


def test_a_small_continuous_drop_is_not_blocked(write_run: Any) -> None:
    """W7: 0.6 points with little noise is a large Cohen's d and a small drop."""
    rng = np.random.default_rng(1)
    base = np.clip(rng.normal(0.7, 0.05, 300), 0, 1)
    report = compare_runs(write_run("a", base), write_run("b", base - 0.006), max_drop=0.05)
    assert report.verdict is Verdict.PASS
    assert report.test.p_value < 0.001


def test_one_flip_in_a_thousand_passes(write_run: Any) -> None:
    """W7: it used to be INCONCLUSIVE."""
    base = [1.0] * 700 + [0.0] * 300
    candidate = [0.0, *base[1:]]
    report = compare_runs(write_run("a", base), write_run("b", candidate))
    assert report.verdict is Verdict.PASS
    assert report.relation == "equivalent"
    assert report.flips is not None
    assert report.flips.summary["n_regressions"] == 1


def test_no_flip_passes_and_a_few_problems_do_not(write_run: Any) -> None:
    assert (
        compare_runs(write_run("a", [1.0] * 200), write_run("b", [1.0] * 200)).verdict
        is Verdict.PASS
    )
    few = compare_runs(write_run("c", [1.0] * 8), write_run("d", [1.0] * 8))
    assert few.verdict is Verdict.INCONCLUSIVE


def test_empty_runs_are_inconclusive(write_run: Any) -> None:
    report = compare_runs(write_run("a", []), write_run("b", []))
    assert report.verdict is Verdict.INCONCLUSIVE
    assert any("has no rows" in warning for warning in report.warnings)


def test_an_invalid_run_never_passes(write_run: Any) -> None:
    good = [1.0] * 400
    holes = [None if i % 10 == 0 else 1.0 for i in range(400)]
    report = compare_runs(write_run("a", good), write_run("b", holes))
    assert report.verdict is Verdict.INCONCLUSIVE
    assert "the candidate is INVALID" in report.reasons[0]
    assert report.missing["candidate"] == {"lower": 0.9, "upper": 1.0, "missing": 40}
    assert report.missing["difference"]["lower"] == pytest.approx(-0.1)


def test_a_surely_bad_candidate_is_blocked_even_when_invalid(write_run: Any) -> None:
    report = compare_runs(
        write_run("a", [1.0] * 400),
        write_run("b", [None if i % 10 == 0 else 0.0 for i in range(400)]),
    )
    assert report.verdict is Verdict.BLOCK


def test_failed_rows_are_not_zeros(write_run: Any) -> None:
    base = [1.0] * 100
    report = compare_runs(write_run("a", base), write_run("b", [None, None, *base[2:]]))
    assert report.difference.value == 0.0
    assert report.pairing.paired == 98


def test_old_failed_rows_written_as_zeros_are_left_out(write_run: Any, make_rows: Any) -> None:
    old = make_rows([1.0] * 50)
    for row in old:
        del row["status"]
        del row["failure"]
    old[3] |= {
        "reward": 0.0,
        "scoring_details": {"error_category": "infra_error", "method": "infra_error"},
    }
    report = compare_results(make_rows([1.0] * 50), old)
    assert report.candidate.failed_rows == 1
    assert report.difference.value == 0.0


def test_pairs_by_content_when_the_order_differs(write_run: Any, make_rows: Any) -> None:
    base = make_rows([1.0, 0.0] * 40)
    moved = make_rows([1.0, 0.0] * 40)
    for row in moved:
        row["problem_idx"] = 79 - row["problem_idx"]
    report = compare_results(base, moved)
    assert report.pairing.by == "content"
    assert report.difference.value == 0.0
    assert report.flips is not None
    assert report.flips.summary["n_regressions"] == 0
    by_index = compare_results(base, moved, pair_by="index")
    assert by_index.flips is not None
    assert by_index.flips.summary["n_regressions"] == 40


def test_pairs_by_index_without_hashes_and_says_so(make_rows: Any) -> None:
    old = make_rows([1.0] * 30)
    for row in old:
        del row["problem_hash"]
    report = compare_results(make_rows([1.0] * 30), old)
    assert report.pairing.by == "index"
    assert report.pairing.paired == 30
    assert any("by index" in warning and "candidate" in warning for warning in report.warnings)


def test_a_failed_row_without_a_hash_does_not_change_the_pairing(make_rows: Any) -> None:
    failed = make_rows([None, None, *[1.0] * 98])
    for row in failed[:2]:
        row["problem_hash"] = ""
    report = compare_results(make_rows([1.0] * 100), failed)
    assert report.pairing.by == "content"
    assert report.pairing.paired == 98
    assert report.candidate.problems == 100
    assert report.pairing.unscored_candidate == 2


def test_content_is_not_made_up(make_rows: Any) -> None:
    with pytest.raises(UsageError, match="problem_hash"):
        compare_results(
            make_rows([1.0] * 5), make_rows([1.0] * 5, problem_hash=""), pair_by="content"
        )


def test_few_pairs_of_many_problems_do_not_pass(make_rows: Any) -> None:
    base, candidate = make_rows([1.0] * 1000), make_rows([1.0] * 1000)
    for row in candidate[400:]:
        row["problem_hash"] = f"{row['problem_idx'] + 5000:032x}"
    report = compare_results(base, candidate)
    assert report.verdict is Verdict.INCONCLUSIVE
    assert "only 400 problems paired" in report.reasons[0]


def test_one_fractional_reward_does_not_break_the_comparison(
    write_run: Any, tmp_path: Path
) -> None:
    """W13: the headline is then called mean_reward on one side and pass@1 on the other."""
    base = [1.0] * 300 + [0.0] * 200
    one, two = write_run("a/toy", base), write_run("b/toy", [0.5, *base[1:]])
    report = compare_runs(one, two)
    assert report.score_deltas == {}
    assert report.verdict is Verdict.PASS
    assert report.difference.value == pytest.approx(-0.001)
    assert gate_runs(tmp_path / "a", tmp_path / "b").verdict == "GO"


def test_repeats_are_averaged_per_problem(make_rows: Any) -> None:
    base = [[1.0, 0.0]] * 30
    report = compare_results(make_rows(base), make_rows([[1.0, 1.0]] * 30))
    assert report.difference.value == 0.5
    assert report.difference.n == 30
    assert report.test.method == "permutation"


def test_flips_show_the_answers_that_flipped(write_run: Any, make_rows: Any) -> None:
    base = make_rows([[0.0, 1.0], [1.0, 1.0]], metadata={"category": "a"})
    base[1]["model_response"] = "the right one"
    candidate = make_rows([[0.0, 0.0], [1.0, 1.0]], metadata={"category": "a"})
    candidate[0]["model_response"] = "<b>wrong</b>"
    report = compare_runs(write_run("a", rows=base), write_run("b", rows=candidate))
    assert report.flips is not None
    (flip,) = report.flips.regressions
    assert (flip.baseline_response, flip.candidate_response) == ("the right one", "<b>wrong</b>")
    assert (flip.baseline_reward, flip.candidate_reward) == (0.5, 0.0)
    assert report.flips.summary["category_breakdown"] == {
        "a": {"regressions": 1, "improvements": 0}
    }


def test_correct_above_moves_flips_not_the_verdict(make_rows: Any) -> None:
    base, candidate = make_rows([0.6] * 50), make_rows([0.4] * 50)
    low = compare_results(base, candidate)
    high = compare_results(base, candidate, correct_above=0.5)
    assert low.flips is not None
    assert high.flips is not None
    assert (low.flips.summary["n_regressions"], high.flips.summary["n_regressions"]) == (0, 50)
    assert low.verdict is high.verdict is Verdict.BLOCK


def test_categories_are_paired_and_never_invented(make_rows: Any) -> None:
    """W26: a category that one side lacks used to count as 0."""
    base = make_rows([1.0] * 40)
    candidate = make_rows([1.0] * 20 + [0.0] * 10)
    for row in base:
        row["metadata"] = {"category": "ab"[row["problem_idx"] >= 30]}
    for row in candidate:
        row["metadata"] = {"category": "a"}
    report = compare_results(base, candidate)
    assert set(report.category_deltas) == {"a"}
    assert report.category_deltas["a"]["delta"] == pytest.approx(-1 / 3, abs=1e-6)


def test_shifts_and_setting_differences_are_reported(write_run: Any, make_rows: Any) -> None:
    base = write_run("a", rows=make_rows([1.0] * 50), config={"generation": {"temperature": 0.0}})
    longer = make_rows(
        [1.0] * 50, completion_tokens=60, finish_reason="length", prompt="Think first. "
    )
    candidate = write_run(
        "b",
        rows=longer,
        config={"generation": {"temperature": 0.7}, "fingerprints": {"scorer": "y"}, "model": "n"},
    )
    report = compare_runs(base, candidate)
    by_name = {shift.name: shift for shift in report.shifts}
    assert by_name["tokens_per_answer"].relative_pct == pytest.approx(200)
    assert by_name["truncated"].candidate == 1.0
    text = "\n".join(report.warnings)
    assert "generation differs: generation.temperature is 0.0 and 0.7" in text
    assert "prompts differ on 50 of 50" in text
    assert "truncated went from 0.0% to 100.0%" in text
    assert "model" not in {difference.what for difference in report.differences}


def test_another_scorer_turns_a_pass_into_a_warning(write_run: Any) -> None:
    base = write_run("a", [1.0] * 200, config={"fingerprints": {"scorer": "x"}})
    candidate = write_run("b", [1.0] * 200, config={"fingerprints": {"scorer": "y"}})
    report = compare_runs(base, candidate)
    assert report.verdict is Verdict.WARN
    assert "scorer differs" in report.reasons[0]


def test_the_newest_bundle_counts(write_run: Any) -> None:
    """W16: a second run into the same folder used to break compare."""
    write_run("a", [0.0] * 50, stamp="20260101T000000Z")
    write_run("a/previous/x", [0.0] * 50, stamp="20270101T000000Z")
    base = write_run("a", [1.0] * 50, stamp="20260201T000000Z")
    report = compare_runs(base, write_run("b", [1.0] * 50))
    assert report.baseline.run_id == "eval-20260201T000000Z-toy"


def test_a_folder_of_two_benchmarks_is_not_one_run(write_run: Any, tmp_path: Path) -> None:
    write_run("a/one", [1.0] * 5, name="one")
    write_run("a/two", [1.0] * 5, name="two")
    with pytest.raises(UsageError, match="holds 2 benchmarks"):
        compare_runs(tmp_path / "a", tmp_path / "a")


@pytest.mark.parametrize("test", ["mcnemar", "sign", "permutation"])
def test_report_json_keeps_its_keys(test: str, write_run: Any, tmp_path: Path) -> None:
    base = [1.0] * 60 + [0.0] * 40
    report = compare_runs(write_run("a", base), write_run("b", base[::-1]), test=test)
    document = json.loads(write_regression(report, tmp_path / "r.json").read_text())
    key = {"mcnemar": "mcnemar", "sign": "sign_test", "permutation": "permutation_test"}[test]
    assert document["test_used"] == key
    assert {
        "report_version", "baseline", "candidate", "score_deltas", "runtime_deltas", "verdict", "verdict_reasons",
        "threshold", "flip_report", "test_reason", key,
    } <= set(document)  # fmt: skip
    assert document["threshold"] == 0.05
    assert {"contingency", "regressions", "improvements", "summary"} <= set(document["flip_report"])
    assert document["score_deltas"]["pass@1"]["delta"] == 0.0


def test_a_file_that_is_not_rows_is_refused(write_run: Any) -> None:
    base = write_run("a", [1.0] * 5)
    (base / "results.jsonl").write_text("not json\n" * 10)
    with pytest.raises(UsageError, match="10 malformed lines"):
        load_paired_records(base, base)


def test_a_few_bad_lines_are_counted(write_run: Any) -> None:
    base = write_run("a", [1.0] * 50)
    with (base / "results.jsonl").open("a") as file:
        file.write('{"torn": ')
    report = compare_runs(base, base)
    assert any("1 malformed line" in warning for warning in report.warnings)


def test_of_repeated_rows_the_last_counts(make_rows: Any) -> None:
    base = make_rows([0.0] * 20) + make_rows([1.0] * 20)
    report = compare_results(base, make_rows([1.0] * 20))
    assert report.difference.value == 0.0
    assert report.baseline.rows == 20


@pytest.mark.parametrize(
    ("lower", "value", "upper", "verdict", "relation"),
    [
        (-0.30, -0.20, -0.10, "BLOCK", "worse than allowed"),
        (-0.12, -0.07, -0.02, "WARN", "inferior"),
        (-0.07, -0.04, -0.01, "WARN", "inferior"),
        (-0.04, -0.02, -0.01, "PASS", "equivalent"),
        (-0.07, -0.01, +0.05, "INCONCLUSIVE", "undecided"),
        (-0.04, +0.03, +0.10, "PASS", "non-inferior"),
        (-0.04, +0.00, +0.04, "PASS", "equivalent"),
        (+0.01, +0.05, +0.09, "PASS", "superior"),
    ],
)
def test_the_table_of_verdicts(
    lower: float, value: float, upper: float, verdict: str, relation: str
) -> None:
    found = judge(Interval(value, lower, upper, "t", 100), 0.05)
    assert (found.verdict, found.relation) == (verdict, relation)


def test_worst() -> None:
    assert worst([Verdict.PASS, Verdict.WARN, Verdict.INCONCLUSIVE]) is Verdict.WARN
    assert worst([]) is Verdict.INCONCLUSIVE


def test_lower_is_better_turns_everything_round(make_rows: Any) -> None:
    few, many = make_rows([1.0] * 10 + [0.0] * 190), make_rows([1.0] * 80 + [0.0] * 120)
    worse = compare_results(few, many, direction="lower_is_better")
    assert worse.verdict is Verdict.BLOCK
    assert worse.difference.value == pytest.approx(0.35)
    assert "the rise is more than the limit of 0.05" in worse.reasons[0]
    assert worse.flips is not None
    assert (worse.flips.summary["n_regressions"], worse.flips.summary["n_improvements"]) == (70, 0)
    assert (
        worse.flips.regressions[0].baseline_reward,
        worse.flips.regressions[0].candidate_reward,
    ) == (0.0, 1.0)
    assert worse.test.p_value < 0.001
    document = worse.to_dict()
    assert document["direction"] == "lower_is_better"
    assert document["mcnemar"]["effect_size"] == pytest.approx(0.35)
    assert 0.25 < document["mcnemar"]["ci_lower"] < 0.35 < document["mcnemar"]["ci_upper"] < 0.45
    better = compare_results(many, few, direction="lower_is_better")
    assert (better.verdict, better.relation) == (Verdict.PASS, "superior")
    assert better.test.p_value > 0.99


@pytest.mark.parametrize("test", ["sign", "permutation"])
def test_each_test_says_what_it_has_always_said(test: str, make_rows: Any) -> None:
    base, candidate = [0.9, 0.8, 0.5, 0.4, 0.4] * 4, [0.7, 0.7, 0.6, 0.4, 0.4] * 4
    document = compare_results(make_rows(base), make_rows(candidate), test=test).to_dict()
    if test == "sign":
        found = document["sign_test"]
        assert (found["n_positive"], found["n_negative"], found["n_ties"]) == (8, 4, 8)
        return
    found, lost = document["permutation_test"], np.array(base) - np.array(candidate)
    assert found["observed_mean_diff"] == pytest.approx(lost.mean())
    assert found["effect_size"] == pytest.approx(lost.mean() / lost.std(ddof=1), abs=1e-6)
    assert found["n_permutations"] == 10_000


def test_rewards_beyond_one_that_a_rule_looked_at_have_no_interval(write_run: Any) -> None:
    rule = {"kind": "rule", "reason": "decided", "rule": {"stopped": True}}
    rng = np.random.default_rng(0)
    base = write_run("a", rng.normal(5, 1, 100))
    report = compare_runs(base, write_run("b", rng.normal(1, 1, 100), stopped=rule))
    assert report.verdict is Verdict.INCONCLUSIVE
    assert "no interval holds for rewards beyond [0, 1]" in report.reasons[0]


def test_a_long_answer_shows_how_it_ends(make_rows: Any) -> None:
    base = make_rows([1.0] * 3, model_response="Let me see. " + "x" * 5000 + " The answer is 4.")
    report = compare_results(base, make_rows([0.0] * 3))
    assert report.flips is not None
    shown = report.flips.regressions[0].baseline_response
    assert shown.startswith("Let me see.")
    assert shown.endswith("The answer is 4.")
    assert len(shown) == 600


@pytest.mark.parametrize("rewards", [[], [1.0], [None, None]])
def test_no_number_of_a_report_is_not_a_number(
    rewards: list[Any], write_run: Any, tmp_path: Path
) -> None:
    report = compare_runs(write_run("a", rewards), write_run("b", rewards))
    text = write_regression(report, tmp_path / "r.json").read_text()
    json.loads(text, parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))
    assert report.verdict is Verdict.INCONCLUSIVE


def test_failed_rows_that_could_hide_a_drop_are_named(write_run: Any) -> None:
    """Coverage is above its floor; what was not scored could have been worse, so it is no PASS."""
    holes = [None] * 8 + [1.0] * 392
    report = compare_runs(write_run("a", [1.0] * 400), write_run("b", holes), max_drop=0.015)
    assert report.verdict is Verdict.INCONCLUSIVE
    assert "rows that failed" in report.reasons[0]
    (warning,) = [line for line in report.warnings if "could hide" in line]
    assert warning.endswith("at worst the difference is -0.0200")
    wide = compare_runs(write_run("a", [1.0] * 400), write_run("b", holes), max_drop=0.05)
    assert wide.verdict is Verdict.PASS
    assert not any("could hide" in line for line in wide.warnings)
    doubtful = compare_runs(
        write_run("c", [0.5] * 400), write_run("d", [None] * 16 + [0.47] * 384), max_drop=0.015
    )
    assert doubtful.verdict is Verdict.WARN


def test_equal_differences_say_how_many_would_settle_it(make_rows: Any) -> None:
    few = compare_results(make_rows([1.0] * 30), make_rows([1.0] * 30))
    assert few.verdict is Verdict.INCONCLUSIVE
    assert few.needed is not None
    enough, short = (make_rows([1.0] * n) for n in (few.needed, few.needed - 1))
    assert compare_results(enough, enough).verdict is Verdict.PASS
    assert compare_results(short, short).verdict is Verdict.INCONCLUSIVE


def test_a_subset_of_the_problems_is_enough(make_rows: Any) -> None:
    """What counts is how much of the smaller side pairs."""
    report = compare_results(make_rows([1.0] * 1000), make_rows([1.0] * 200))
    assert report.pairing.share == 1.0
    assert report.verdict is Verdict.PASS


def test_a_drop_in_an_invalid_run_is_not_even_a_warning(write_run: Any) -> None:
    base = [1.0] * 300 + [0.0] * 100
    lost = [
        0.0 if at % 25 == 0 else None if at % 10 == 1 else reward for at, reward in enumerate(base)
    ]
    whole = [0.0 if at % 25 == 0 else reward for at, reward in enumerate(base)]
    one = write_run("a", base)
    assert compare_runs(one, write_run("b", whole), max_drop=0.035).verdict is Verdict.WARN
    report = compare_runs(one, write_run("c", lost), max_drop=0.035)
    assert report.verdict is Verdict.INCONCLUSIVE
    assert report.reasons[0].startswith("the candidate is INVALID")


def test_flips_beyond_the_most_are_counted(make_rows: Any) -> None:
    report = compare_results(make_rows([1.0] * 600), make_rows([0.0] * 600))
    assert report.flips is not None
    assert len(report.flips.regressions) == 500
    assert (report.flips.summary["n_regressions"], report.flips.summary["n_omitted"]) == (600, 100)


def test_partial_credit_moves_without_changing_sides(make_rows: Any) -> None:
    base, candidate = [0.9, 0.8, 0.5, 0.4, 0.4] * 8, [0.7, 0.7, 0.6, 0.4, 0.4] * 8
    report = compare_results(make_rows(base), make_rows(candidate))
    assert "40 problems paired by content: 16 got worse, 8 got better, 16 are equal" in paired(
        report
    )


def test_what_failed_rows_could_hide_where_lower_is_better(write_run: Any) -> None:
    base = write_run("a", [0.0] * 400)
    holes = write_run("b", [None] * 8 + [0.0] * 392)
    report = compare_runs(base, holes, max_drop=0.015, direction="lower_is_better")
    assert report.warnings[-1].endswith("at worst the difference is +0.0200")
    back = compare_runs(holes, base, max_drop=0.015, direction="lower_is_better")
    assert not any("could hide" in line for line in back.warnings), (
        "at worst the candidate has fewer errors"
    )


def test_more_problems_than_there_are_settle_nothing() -> None:
    told = judge(Interval(-0.01, -0.05, 0.03, "t", 100), 0.015, needed=33_487, available=1_319)
    assert "about 33,487 problems would settle it, but the benchmark has 1,319" in told.reasons[0]
    assert (
        "but the benchmark"
        not in judge(Interval(-0.01, -0.05, 0.03, "t", 100), 0.015, needed=900).reasons[0]
    )
