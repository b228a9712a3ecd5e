"""Which answers of earlier runs a seed leaves valid: those of the first repeat."""

from __future__ import annotations

from typing import Any

import pytest

from nemo_evaluator.core.hashing import digest, digest_parts
from nemo_evaluator.core.types import Step
from nemo_evaluator.models.client import seed_of_repeat
from nemo_evaluator.store.fingerprints import RunFingerprints


@pytest.mark.parametrize(("service", "solver"), [({"seed": 7}, {}), ({}, {"seed": 7}), ({}, {"seed": None}), ({}, {})])
def test_repeats_that_had_the_same_seed_are_asked_again(service: dict[str, Any], solver: dict[str, Any]) -> None:
    parts = {"service": {"generation": service}, "solver": {"generation": solver}}
    prints = RunFingerprints.of(**parts, template=None, scorer="s")
    base = digest([*parts.values(), None])
    seeded = 7 in (service.get("seed"), solver.get("seed"))
    assert prints.answer("p", Step(0, 0)) == digest_parts(base, "p", 0)
    assert (prints.answer("p", Step(0, 1)) == digest_parts(base, "p", 1)) is not seeded


def test_seeds_of_repeats_are_their_own() -> None:
    assert seed_of_repeat(7, 0) == 7
    seeds = {seed_of_repeat(seed, repeat) for seed in (7, 8) for repeat in range(1, 50)}
    assert len(seeds) == 98
    assert all(0 <= seed < 2**31 for seed in seeds)
