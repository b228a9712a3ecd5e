"""The names that the two rooms offer are there, and no others are promised."""

from __future__ import annotations

import nemo_evaluator.decisions as decisions
import nemo_evaluator.statistics as statistics


def test_every_name_loads() -> None:
    for room in (decisions, statistics):
        assert all(getattr(room, name) is not None for name in room.__all__)
