"""How a gate shows differences and limits."""

from __future__ import annotations

from typing import Any

import pytest

from nemo_evaluator.decisions.gate_report import BenchmarkGate, GateReport, GateVerdict, Status
from nemo_evaluator.reports.gate import gate_markdown, gate_text, limits, points


def entry(**changes: Any) -> BenchmarkGate:
    facts = {"benchmark": "toy", "tier": "critical", "status": Status.PASS, "metric": "pass@1"}
    facts |= {"direction": "higher_is_better", "max_drop_threshold": 0.015, "max_relative_drop_threshold": None}
    return BenchmarkGate(**(facts | changes))


@pytest.mark.parametrize(
    ("changes", "difference", "limit"),
    [
        ({}, "-1.20 [-3.00, +0.60]", "-1.5"),
        ({"max_relative_drop_threshold": 0.1}, "-1.20 [-3.00, +0.60]", "-1.5, -10%"),
        ({"direction": "lower_is_better", "max_relative_drop_threshold": 0.1}, "-1.20 [-3.00, +0.60]", "+1.5, +10%"),
        ({"in_points": False, "max_drop_threshold": 2.0}, "-0.01 [-0.03, +0.01] score", "-2"),
        ({"delta_ci_lower": None}, "-1.20", "-1.5"),
        ({"delta": None}, "–", "-1.5"),
    ],
)
def test_points_and_limits(changes: dict[str, Any], difference: str, limit: str) -> None:
    found = entry(**({"delta": -0.012, "delta_ci_lower": -0.03, "delta_ci_upper": 0.006} | changes))
    assert (points(found), limits(found)) == (difference, limit)


def test_warnings_are_counted_until_they_are_asked_for() -> None:
    report = GateReport(
        GateVerdict.GO,
        ["fine"],
        [entry()],
        [],
        ["x is only in the baseline", "toy: odd"],
        "a",
        "b",
        0.95,
        "holm",
        False,
    )
    report.unmatched = report.warnings[:1]
    quiet, loud = gate_text(report), gate_text(report, verbose=True)
    assert "! x is only in the baseline" in quiet
    assert "toy: odd" not in quiet
    assert "1 warning: --verbose shows it" in quiet
    assert "! toy: odd" in loud
    assert "--verbose" not in loud
    assert "- toy: odd" in gate_markdown(report)
