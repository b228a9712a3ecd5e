"""What a bundle says beside its numbers: what missing rows could hide, fallbacks, repeats at temperature 0."""

from __future__ import annotations

from array import array
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from nemo_evaluator.core.errors import ScorerError, TamperError
from nemo_evaluator.engine.bundle import BundleFacts, build_bundle
from nemo_evaluator.engine.columns import Columns
from nemo_evaluator.engine.evaluation import evaluate
from nemo_evaluator.engine.job import Evaluation
from nemo_evaluator.suite.results import BenchmarkResult, SuiteResult
from nemo_evaluator.suite.summary import summary_text


def bench_of(rewards: list[float], planned: int, repeats: int = 1, **config: Any) -> dict[str, Any]:
    columns = Columns(planned=planned, scored=len(rewards), failed=planned - len(rewards))
    columns.problem, columns.reward = array("i", range(len(rewards))), array("d", rewards)
    if config.pop("fallback", False):
        columns.fallbacks["normalised match"] = len(rewards)
    facts = BundleFacts("toy", repeats, config, 0.95, 1.0, datetime.now(UTC))
    return dict(build_bundle(columns, facts, "eval-toy")["benchmark"])


@pytest.mark.parametrize(
    ("rewards", "planned", "bounds"),
    [
        ([1.0] * 980, 1000, {"lower": 0.98, "upper": 1.0, "missing": 20}),
        ([1.0, 0.0], 2, {"lower": 0.5, "upper": 0.5, "missing": 0}),
        ([], 4, {"lower": 0.0, "upper": 1.0, "missing": 4}),
        ([], 0, None),
        ([3.0, -1.0], 4, None),
    ],
)
def test_the_bounds_of_the_headline(
    rewards: list[float], planned: int, bounds: dict[str, Any] | None
) -> None:
    assert bench_of(rewards, planned)["bounds"] == bounds


def test_a_fallback_is_named() -> None:
    bench = bench_of([1.0, 0.0], 2, fallback=True)
    assert bench["fallback"] == {"normalised match": 2}
    assert bench["notes"][0].startswith(
        "no judge: 2 of 2 rows scored by a fallback (normalised match)"
    )
    assert "fallback" not in bench_of([1.0, 0.0], 2)


def test_repeats_at_temperature_0_say_what_they_measure() -> None:
    (note,) = bench_of([1.0], 1, 5, generation={"temperature": 0.0})["notes"]
    assert "at temperature 0, 5 repeats" in note
    assert bench_of([1.0], 1, 5, generation={"temperature": 0.7})["notes"] == []
    assert bench_of([1.0], 1, 1, generation={"temperature": 0.0})["notes"] == []


def test_a_clipped_headline_keeps_its_interval_around_it() -> None:
    columns = Columns(planned=4, scored=4)
    columns.problem, columns.reward = array("i", range(4)), array("d", [-0.5, -0.4, -0.6, 0.1])
    facts = BundleFacts(
        "toy", 1, {}, 0.95, 1.0, datetime.now(UTC), extra_scores={"mean_reward": {"value": 0.0}}
    )
    scores = build_bundle(columns, facts, "eval-toy")["benchmark"]["scores"]
    headline = scores["mean_reward"]
    assert (headline["value"], headline["ci_lower"], headline["n"]) == (0.0, 0.0, 4)
    assert 0.0 <= headline["ci_upper"] <= 1.0
    assert scores["summary"]["mean"] == pytest.approx(-0.35), "the rows keep what they are"


async def test_programs_that_tamper_stand_beside_the_headline(
    sums: Any, scripted: Any, tmp_path: Path
) -> None:
    def refuse(response: str) -> None:
        if response == "0":
            raise TamperError("the program reached for its judge")

    sums.size, sums.on_verify = 40, refuse
    done = await evaluate(Evaluation(sums, scripted, tmp_path))
    document = done.bundle
    # 1 of 40 is more than 1 %.
    assert document["validity"]["status"] == "INVALID"
    assert document["benchmark"]["tamper"] == {"rows": 1, "judged": 40, "score": 0.975}
    assert document["benchmark"]["scores"]["pass@1"]["value"] == 1.0
    (reason,) = [reason for reason in document["validity"]["reasons"] if "tamper" in reason]
    assert "with these rows as 0 the score is 0.9750" in reason
    result = SuiteResult([BenchmarkResult("sums", document)])
    assert result.exit_code == 3
    assert summary_text(result, tmp_path).count("with these rows as 0 the score is 0.9750") == 1


async def test_the_terminal_shows_the_rows_behind_the_interval(
    sums: Any, scripted: Any, tmp_path: Path
) -> None:
    def refuse(response: str) -> None:
        if response == "0":
            raise ScorerError("cannot score")

    sums.size, sums.on_verify = 43, refuse
    done = await evaluate(Evaluation(sums, scripted, tmp_path))
    (line,) = [
        line
        for line in summary_text(
            SuiteResult([BenchmarkResult("sums", done.bundle)]), tmp_path
        ).splitlines()
        if "pass@1" in line
    ]
    assert " 42 " in line
    assert " 43 " not in line
