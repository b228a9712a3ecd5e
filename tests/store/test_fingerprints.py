"""Which answers of earlier runs a seed leaves valid: those of the first repeat."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nemo_evaluator.core.hashing import digest, digest_parts
from nemo_evaluator.core.types import SandboxSpec, SeedResult, Step
from nemo_evaluator.models.client import seed_of_repeat
from nemo_evaluator.store.fingerprints import RunFingerprints, problem_hash


@pytest.mark.parametrize(
    ("service", "solver"), [({"seed": 7}, {}), ({}, {"seed": 7}), ({}, {"seed": None}), ({}, {})]
)
def test_repeats_that_had_the_same_seed_are_asked_again(
    service: dict[str, Any], solver: dict[str, Any]
) -> None:
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


def test_a_problem_is_known_by_what_its_files_hold_not_by_where_they_lie(tmp_path: Path) -> None:
    def hashed(place: str, text: str, inside: str = "/workspace/in.txt") -> str:
        for path in (tmp_path / place / "file", tmp_path / place / "folder" / "deep" / "file"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        files = {
            str(tmp_path / place / "file"): inside,
            str(tmp_path / place / "folder"): "/workspace/all",
        }
        return problem_hash(SeedResult("p", "", sandbox_spec=SandboxSpec(files=files)))

    assert hashed("here", "alpha") == hashed("there", "alpha")
    assert (
        len(
            {
                hashed("here", "alpha"),
                hashed("other", "beta"),
                hashed("here", "alpha", "/workspace/x"),
            }
        )
        == 3
    )
