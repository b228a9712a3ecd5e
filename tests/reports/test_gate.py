"""How a gate shows differences and limits."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

import pytest

from nemo_evaluator.decisions.gate.report import BenchmarkGate, GateReport, GateVerdict, Status
from nemo_evaluator.reports._words import right_of
from nemo_evaluator.reports.gate import gate_junit, gate_markdown, gate_text, limits, points
from nemo_evaluator.runs.scores import Score


def entry(**changes: Any) -> BenchmarkGate:
    facts = {"benchmark": "toy", "tier": "critical", "status": Status.PASS, "metric": "pass@1"}
    facts |= {
        "direction": "higher_is_better",
        "max_drop_threshold": 0.015,
        "max_relative_drop_threshold": None,
    }
    return BenchmarkGate(**(facts | changes))


@pytest.mark.parametrize(
    ("changes", "difference", "limit"),
    [
        ({}, "-1.20 [-3.00, +0.60]", "-1.5"),
        ({"max_relative_drop_threshold": 0.1}, "-1.20 [-3.00, +0.60]", "-1.5, -10%"),
        (
            {"direction": "lower_is_better", "max_relative_drop_threshold": 0.1},
            "-1.20 [-3.00, +0.60]",
            "+1.5, +10%",
        ),
        ({"in_points": False, "max_drop_threshold": 2.0}, "-0.01 [-0.03, +0.01] score", "-2"),
        ({"delta_ci_lower": None}, "-1.20", "-1.5"),
        ({"delta": None}, "–", "-1.5"),
    ],
)
def test_points_and_limits(changes: dict[str, Any], difference: str, limit: str) -> None:
    found = entry(**({"delta": -0.012, "delta_ci_lower": -0.03, "delta_ci_upper": 0.006} | changes))
    assert (points(found), limits(found)) == (difference, limit)


def test_a_warning_that_many_benchmarks_share_is_said_once() -> None:
    names = [f"b{at}" for at in range(12)]
    warnings = [
        "x is only in the baseline",
        *(f"{name}: prompts differ" for name in names),
        "b3: odd",
        "b4: odd",
    ]
    warnings += [f"b5: note {at}" for at in range(9)]
    entries = [entry(benchmark=name) for name in names]
    report = GateReport(
        GateVerdict.GO, ["fine"], entries, [], warnings, "a", "b", 0.95, "holm", False
    )
    lines = [line.strip() for line in gate_text(report).splitlines() if line.startswith("  !")]
    assert lines[:3] == [
        "! x is only in the baseline",
        "! b0, b1 and 10 more: prompts differ",
        "! b3, b4: odd",
    ]
    assert (len(lines), lines[-1]) == (11, "! 2 more: --verbose shows them")
    loud = gate_text(report, verbose=True)
    assert all(f"  ! {warning}\n" in loud for warning in warnings)
    assert "- b4: odd" in gate_markdown(report)


def test_junit_has_a_case_per_benchmark_and_one_for_the_verdict() -> None:
    entries = [
        entry(benchmark="fine"),
        entry(benchmark="worse", status=Status.BREACH, delta=-0.1, reasons=["exceeded <by far>"]),
        entry(benchmark="open", status=Status.INSUFFICIENT),
    ]
    report = GateReport(
        GateVerdict.NO_GO, ["worse"], entries, [], [], "a", "b", 0.95, "holm", False
    )
    suite = ElementTree.fromstring(gate_junit(report))
    kinds = {case.get("name"): [child.tag for child in case] for case in suite}
    assert kinds == {"fine": [], "worse": ["failure"], "open": ["error"], "verdict": ["failure"]}
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("4", "2", "1")
    assert suite.findtext("testcase[@name='worse']/failure") == "exceeded <by far>"


def test_an_advisory_benchmark_does_not_fail_the_junit_suite_of_a_go() -> None:
    entries = [
        entry(benchmark="fine"),
        entry(benchmark="style", tier="advisory", status=Status.BREACH, reasons=["exceeded"]),
        entry(benchmark="chat", tier="advisory", status=Status.INSUFFICIENT),
        entry(benchmark="gone", tier="advisory", status=Status.MISSING),
        entry(benchmark="tone", tier="advisory"),
    ]
    report = GateReport(GateVerdict.GO, ["fine"], entries, [], [], "a", "b", 0.95, "holm", False)
    suite = ElementTree.fromstring(gate_junit(report))
    outcomes = {case.get("name"): [child.tag for child in case] for case in suite}
    assert outcomes == {
        "fine": [],
        "style": ["skipped"],
        "chat": ["skipped"],
        "gone": ["skipped"],
        "tone": [],
        "verdict": [],
    }
    assert (suite.get("failures"), suite.get("errors"), suite.get("skipped")) == ("0", "0", "3")
    assert suite.findtext("testcase[@name='style']/skipped") == "exceeded"


def test_a_graded_mean_is_not_shown_as_a_count_of_right_answers() -> None:
    assert right_of(Score("pass@1", 0.8667, correct=26, total=30)) == " (26/30)"
    assert right_of(Score("mean_reward", 0.62, correct=26, total=30)) == ""
    assert right_of(Score("mean_reward", 0.62)) == ""
