"""One rule: at one limit `nel compare` and `nel gate` say the same of every pair of runs."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.decisions.conftest import build_rows, write

from nemo_evaluator.config.gate_policy import GatePolicy
from nemo_evaluator.decisions import compare_runs, gate_runs

SIZES, DROPS, LIMITS = (12, 60, 250), (0.0, 0.1, 0.35), (0.0, 0.06)
DIRECTIONS = ("higher_is_better", "lower_is_better")
VALID = {"status": "VALID", "reasons": []}


def _rewards(
    rng: np.random.Generator, n: int, drop: float, repeats: int, failed: float, graded: bool
) -> list[Any]:
    """Two sides whose rewards belong together: the same problems are hard for both."""
    hard = rng.random(n)
    sides = []
    for loss in (0.0, drop):
        chance = np.clip(hard + 0.2 - loss, 0, 1)[:, None]
        draws = (
            np.clip(chance + rng.normal(0, 0.1, (n, repeats)), 0, 1).round(3)
            if graded
            else (rng.random((n, repeats)) < chance) * 1.0
        )
        sides.append(
            [[None if rng.random() < failed else one for one in row] for row in draws.tolist()]
        )
    return sides


@pytest.mark.parametrize(
    ("repeats", "failed", "graded"),
    [(1, 0.0, False), (3, 0.0, False), (1, 0.03, False), (1, 0.0, True)],
)
def test_compare_and_gate_agree_at_every_limit(
    tmp_path: Path, repeats: int, failed: float, graded: bool
) -> None:
    rng = np.random.default_rng(11)
    seen = set()
    for at, (n, drop) in enumerate(product(SIZES, DROPS)):
        left, right = _rewards(rng, n, drop, repeats, failed, graded)
        direction: Any = DIRECTIONS[at % 2]
        if direction == "lower_is_better":
            left, right = right, left
        paths = [
            write(tmp_path / f"{side}{at}/toy", build_rows(rows), validity=VALID).parent
            for side, rows in (("a", left), ("b", right))
        ]
        for limit in LIMITS:
            found = compare_runs(paths[0], paths[1], max_drop=limit, direction=direction)
            rules = GatePolicy.model_validate(
                {
                    "benchmarks": {
                        "toy": {
                            "tier": "critical",
                            "max_drop": limit,
                            "direction": direction,
                            "min_coverage": 0.5,
                        }
                    }
                }
            )
            decided = gate_runs(*paths, rules)
            (entry,) = decided.benchmarks
            assert entry.word == str(found.verdict), (n, drop, limit, found.reasons, entry.reasons)
            assert decided.verdict.exit_code == found.verdict.exit_code
            seen.add(entry.word)
    assert len(seen) >= 3
    assert {"BLOCK", "INCONCLUSIVE"} <= seen
