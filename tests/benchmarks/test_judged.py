"""Benchmarks whose verdict is a judge's: what is asked of it, how it is read, and what stands without one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nemo_evaluator.benchmarks import healthbench, simpleqa, truthfulqa_generation
from nemo_evaluator.core.errors import JudgeError
from nemo_evaluator.core.types import SeedResult
from nemo_evaluator.environments import get_environment
from nemo_evaluator.scoring import fenced


@pytest.mark.parametrize(
    ("answer", "grade", "reward"),
    [
        ('{"grade": "CORRECT", "reason": "yes"}', "CORRECT", 1.0),
        ('```json\n{"grade": "incorrect"}\n```', "INCORRECT", 0.0),
        ('{"grade": "NOT_ATTEMPTED"}', "NOT_ATTEMPTED", 0.0),
        ('<think>CORRECT or INCORRECT?</think>{"grade": "CORRECT"}', "CORRECT", 1.0),
    ],
)
def test_simpleqa_grades(answer: str, grade: str, reward: float) -> None:
    verdict = simpleqa.parse_judge(answer)
    assert (verdict["grade"], verdict["reward"]) == (grade, reward)


@pytest.mark.parametrize(
    "answer", ["", "Good answer!", "CORRECT or INCORRECT", '{"grade": "A"}', "[]", "null"]
)
def test_a_judge_that_says_nothing_is_no_zero(answer: str) -> None:
    with pytest.raises(JudgeError):
        simpleqa.parse_judge(answer)


def test_simpleqa_summary() -> None:
    grades = ["CORRECT"] * 3 + ["INCORRECT"] * 1 + ["NOT_ATTEMPTED"] * 4
    numbers = simpleqa.summary([{"grade": grade} for grade in grades] + [{"method": "other"}])
    assert numbers == {
        "accuracy": 3 / 8,
        "attempted": 0.5,
        "accuracy_given_attempted": 0.75,
        "f1": pytest.approx(2 * 0.375 * 0.75 / 1.125),
    }
    assert simpleqa.summary([]) == {}


def seed_of(**metadata: Any) -> SeedResult:
    return SeedResult("Who?", "Ada", metadata, messages=[{"role": "user", "content": "Who?"}])


def test_what_the_judge_is_asked() -> None:
    (message,) = simpleqa.judge_prompt(seed_of(), "<think>hm</think>Ada, of course")
    assert "Known answer: Ada" in message["content"]
    assert f"Answer to grade:\n{fenced('answer', 'Ada, of course')}" in message["content"]
    seed = seed_of(question="Who?", true_answers=["Ada"], false_answers=["Bob"])
    (message,) = truthfulqa_generation.judge_prompt(seed, "Ada")
    assert "False answers: Bob" in message["content"]


CRITERIA = [
    {"criterion": "Names a doctor", "points": 6},
    {"criterion": "Is kind", "points": 4},
    {"criterion": "Gives a dose", "points": -5},
]


@pytest.mark.parametrize(
    ("met", "reward"),
    [
        ([True, True, False], 1.0),
        ([True, False, False], 0.6),
        ([True, True, True], 0.5),
        ([False, False, True], -0.5),
    ],
)
def test_healthbench_points(met: list[bool], reward: float) -> None:
    seed = seed_of(criteria=CRITERIA)
    (message,) = healthbench.judge_prompt(seed, "See a doctor.")
    assert "2. Is kind" in message["content"]
    assert healthbench.parse_judge(json.dumps({"met": met}), seed)["reward"] == pytest.approx(
        reward
    )


def test_healthbench_clips_the_mean_and_not_the_rows() -> None:
    rows = [{"points": 10, "possible": 10}, {"points": -5, "possible": 10}, {"method": "failed"}]
    assert healthbench.summary(rows) == {"mean_reward": 0.25}
    assert healthbench.summary(rows[1:]) == {"mean_reward": 0.0}
    assert healthbench.summary([]) == {}


@pytest.mark.parametrize(
    "answer", ['{"met": [true]}', '{"met": ["yes", "no", "no"]}', "fine", "{}"]
)
def test_healthbench_needs_a_verdict_on_every_point(answer: str) -> None:
    with pytest.raises(JudgeError):
        healthbench.parse_judge(answer, seed_of(criteria=CRITERIA))


@pytest.mark.needs("mirror")
async def test_without_a_judge(full_mirror: Path) -> None:
    env = get_environment("simpleqa", num_examples=1)
    seed = await env.seed(0)
    right = await env.verify_answer(f"I believe it was {seed.expected_answer}.", seed)
    assert right.reward == 1.0
    assert right.scoring_details["needs_judge"] is True
    assert "no judge" in right.scoring_details["warning"]
    assert (await env.verify_answer("Nobody knows.", seed)).reward == 0.0
    health = get_environment("healthbench", num_examples=1)
    verdict = await health.verify_answer("See a doctor.", await health.seed(0))
    assert verdict.scoring_details["needs_judge"] is True
    assert "fallback" not in verdict.scoring_details
    truth = get_environment("truthfulqa_generation", num_examples=1)
    seed = await truth.seed(0)
    assert (await truth.verify_answer(seed.metadata["true_answers"][0], seed)).reward == 1.0
    assert (await truth.verify_answer(seed.metadata["false_answers"][0], seed)).reward == 0.0
