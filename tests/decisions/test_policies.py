"""The policies of examples/policies work on what the demo writes: a benchmark called quickstart, sixty questions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nemo_evaluator.config.gate_policy import load_gate_policy
from nemo_evaluator.core.errors import ConfigError
from nemo_evaluator.decisions import gate_runs

POLICIES = sorted((Path(__file__).resolve().parents[2] / "examples" / "policies").glob("*.yaml"))
BASE = [1.0] * 26 + [0.0] * 34


def test_there_are_policies() -> None:
    assert {path.stem for path in POLICIES} >= {"quickstart", "release", "smoke", "watch"}


@pytest.mark.parametrize("path", POLICIES, ids=lambda path: path.stem)
def test_policy(path: Path, write_run: Any, tmp_path: Path) -> None:
    policy = load_gate_policy(path)
    write_run("a/quickstart", BASE, name="quickstart")
    write_run("same/quickstart", BASE, name="quickstart")
    write_run("broken/quickstart", [0.0] * 60, name="quickstart")
    same = gate_runs(tmp_path / "a", tmp_path / "same", policy)
    broken = gate_runs(tmp_path / "a", tmp_path / "broken", policy)
    assert same.verdict in ("GO", "INCONCLUSIVE")
    assert broken.verdict == "NO-GO"
    assert same.benchmarks[0].n_paired == 60


def test_what_sixty_questions_can_prove(write_run: Any, tmp_path: Path) -> None:
    """Seven points of a hundred, but not two."""
    write_run("a/quickstart", BASE, name="quickstart")
    verdicts = {
        path.stem: gate_runs(tmp_path / "a", tmp_path / "a", path).verdict for path in POLICIES
    }
    assert verdicts["quickstart"] == verdicts["smoke"] == "GO"
    assert verdicts["release"] == "INCONCLUSIVE"


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("- a\n", "write version: 1, and what may be lost"),
        ("version: 2\n", "choices: 1"),
        ("defaults: {max_dorp: 1}\n", "did you mean 'max_drop'?"),
        ("benchmarks: {toy: {tier: critcal}}\n", "did you mean 'critical'?"),
        ("benchmarks: {toy: {max_drop: .nan}}\n", "write a plain number"),
        ("benchmarks: {toy: {metric: exact_match}}\n", "use mean_reward or pass@1"),
    ],
)
def test_a_bad_policy_says_how_to_mend_it(text: str, hint: str, tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as error:
        load_gate_policy(path)
    (problem,) = error.value.problems
    assert hint in (problem.hint or "")


def test_the_release_policy_needs_no_quickstart(write_run: Any, tmp_path: Path) -> None:
    """It is for a suite of any benchmarks."""
    release = next(path for path in POLICIES if path.stem == "release")
    for side, rewards in {
        "a": [1.0] * 900 + [0.0] * 100,
        "worse": [1.0] * 500 + [0.0] * 500,
    }.items():
        write_run(f"{side}/gsm8k", rewards, name="gsm8k")
        write_run(f"{side}/mmlu", rewards, name="mmlu")
    assert gate_runs(tmp_path / "a", tmp_path / "a", release).verdict == "GO"
    worse = gate_runs(tmp_path / "a", tmp_path / "worse", release)
    assert (worse.verdict, [one.benchmark for one in worse.benchmarks]) == (
        "NO-GO",
        ["gsm8k", "mmlu"],
    )
