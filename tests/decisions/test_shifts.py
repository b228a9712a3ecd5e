"""What changed besides the score."""

from __future__ import annotations

from typing import Any

import pytest

from nemo_evaluator.decisions import compare_results, compare_runs
from nemo_evaluator.decisions.compare.report import RegressionReport
from nemo_evaluator.decisions.compare.shifts import Shift
from nemo_evaluator.runs.row_table import table_of

GOOD = [1.0] * 100


def shift(report: RegressionReport, name: str) -> Shift:
    (found,) = [shift for shift in report.shifts if shift.name == name]
    return found


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("refusals", {"model_response": "I'm sorry, but I cannot help with that."}),
        ("refusals", {"finish_reason": "content_filter"}),
        ("truncated", {"finish_reason": "length"}),
        ("truncated", {"finish_reason": "max_tokens"}),
        ("unparsed", {"unparsed": True}),
        ("failed", {"status": "failed", "reward": None, "failure": {"cause": "transport"}}),
    ],
)
def test_a_share_that_moved_is_a_warning(name: str, change: dict[str, Any], make_rows: Any) -> None:
    changed = make_rows(GOOD)
    for row in changed[:3]:
        row |= change
    report = compare_results(make_rows(GOOD), changed)
    assert (shift(report, name).baseline, shift(report, name).candidate) == (0.0, 0.03)
    assert f"{name} went from 0.0% to 3.0%" in report.warnings
    back = compare_results(changed, make_rows(GOOD))
    assert f"{name} went from 3.0% to 0.0%" in back.warnings
    changed[0] = changed[1] = make_rows(GOOD)[0]
    assert not any(
        "went from" in warning for warning in compare_results(make_rows(GOOD), changed[1:]).warnings
    )


def test_length_time_and_cost(make_rows: Any) -> None:
    report = compare_results(
        make_rows(GOOD, completion_tokens=10, latency_ms=100.0, cost_usd=0.001),
        make_rows(GOOD, completion_tokens=15, latency_ms=250.0, cost_usd=0.004),
    )
    assert shift(report, "tokens_per_answer").relative_pct == pytest.approx(50)
    assert shift(report, "latency_p50").relative_pct == pytest.approx(150)
    assert shift(report, "latency_p90").candidate == pytest.approx(250)
    assert shift(report, "cost_per_answer").delta == pytest.approx(0.003)
    assert report.warnings == [], "these are shown, not warned of"


def test_a_row_that_says_it_failed_has_no_reward(make_rows: Any) -> None:
    rows = make_rows(GOOD[:3])
    rows[1] |= {"status": "failed", "reward": 0.0, "failure": None}
    assert table_of(rows).scored.tolist() == [True, False, True]


def test_scores_of_the_bundles_side_by_side(write_run: Any) -> None:
    report = compare_runs(
        write_run("a", [1.0] * 40 + [0.0] * 60), write_run("b", [1.0] * 30 + [0.0] * 70)
    )
    found = report.score_deltas["pass@1"]
    assert (found["delta"], found["relative_pct"], found["ci_overlap"]) == (-0.1, -25.0, True)
    assert report.runtime_deltas["total_tokens"]["delta"] == 0
