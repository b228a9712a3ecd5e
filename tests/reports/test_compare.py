"""What the reports of a comparison say of categories."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from nemo_evaluator.reports.compare import state_of


@pytest.mark.parametrize(
    ("lower", "delta", "upper", "state"),
    [
        (-0.30, -0.20, -0.10, "BROKE"),
        (-0.30, -0.20, +0.10, "WARN"),
        (-0.30, -0.04, +0.10, "OPEN"),
        (-0.05, -0.01, +0.10, "HELD"),
        (+0.10, +0.20, +0.30, "HELD"),
        (None, -0.20, None, "WARN"),
        (None, +0.20, None, "OPEN"),
    ],
)
def test_what_is_known_of_a_category(lower: float | None, delta: float, upper: float | None, state: str) -> None:
    report = cast(Any, SimpleNamespace(direction="higher_is_better", threshold=0.05))
    assert state_of({"ci_lower": lower, "delta": delta, "ci_upper": upper}, report) == state
    turned = cast(Any, SimpleNamespace(direction="lower_is_better", threshold=0.05))
    ends = [None if end is None else -end for end in (upper, lower)]
    assert state_of({"ci_lower": ends[0], "delta": -delta, "ci_upper": ends[1]}, turned) == state
