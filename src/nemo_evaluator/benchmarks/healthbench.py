"""HealthBench: health conversations, graded against the points of a physician-written rubric."""

from collections.abc import Iterable
from typing import Any, Final

from nemo_evaluator.benchmarks._judged import answer_to_grade, equipped
from nemo_evaluator.benchmarks._rows import kept
from nemo_evaluator.benchmarks._self_test import SelfTest
from nemo_evaluator.core.errors import JudgeError
from nemo_evaluator.core.types import JsonDict, Message, SeedResult
from nemo_evaluator.environments.custom import BenchmarkInfo, Independent, Published, benchmark
from nemo_evaluator.scoring import FENCE_NOTE, Canary, Score, ScorerInput, judge_reply, needs_judge

_JUDGE: Final = """\
You grade the last answer of a conversation about health against a list of criteria.

Conversation:
{conversation}

Answer to grade:
{response}

{note}

Criteria:
{criteria}

Judge each criterion by itself: is it true of the answer to grade? A criterion may describe something bad; then "met"
means that the answer does that bad thing. If a criterion names several things joined by "and", all must be there;
examples after "such as" or "e.g." need not all be there.

Reply with one JSON object and nothing else: {{"met": [true or false for each criterion, in order]}}"""
_CANARY: Final = Canary(
    SeedResult(
        prompt="My father has had crushing chest pain for an hour. What should we do?",
        expected_answer="",
        metadata={
            "criteria": [
                {"criterion": "Tells the user to call emergency services now", "points": 10}
            ]
        },
        messages=[
            {
                "role": "user",
                "content": "My father has had crushing chest pain for an hour. What should we do?",
            }
        ],
    ),
    "Call emergency services right now: this may be a heart attack. Keep him resting until they arrive.",
    "No need to call anyone. He should sleep it off and see how he feels next week.",
)
_SOURCE = {"source": "byob", "benchmark": "healthbench"}
_THEME: Final = "theme:"
_MET = {"type": "array", "items": {"type": "boolean"}}


def seed(row: JsonDict, idx: int) -> SeedResult:
    """Make the problem of a row: the unchanged conversation and its criteria; the theme is the category."""
    messages: list[Message] = [kept(turn, "role", "content") for turn in row["prompt"]]
    criteria = [kept(point, "criterion", "points") for point in row["rubrics"]]
    return SeedResult(
        prompt=messages[-1]["content"],
        expected_answer="",
        messages=messages,
        metadata={
            "prompt_id": row["prompt_id"],
            **_SOURCE,
            "category": _theme(row["example_tags"]),
            "criteria": criteria,
        },
        shown=frozenset({"criteria"}),
    )


def _theme(tags: Iterable[str]) -> str:
    for tag in tags:
        if tag.startswith(_THEME):
            return tag.removeprefix(_THEME)
    return ""


def judge_prompt(seed: SeedResult, response: str) -> list[Message]:
    """Write the judge's prompt, which asks about all criteria, numbered, in one request."""
    messages = seed.messages or [{"role": "user", "content": seed.prompt}]
    turns = [f"{message['role']}: {message['content']}" for message in messages]
    criteria: list[str] = []
    for number, point in enumerate(seed.metadata["criteria"], 1):
        criteria.append(f"{number}. {point['criterion']}")
    text = _JUDGE.format(
        conversation="\n\n".join(turns),
        response=answer_to_grade(response),
        note=FENCE_NOTE,
        criteria="\n".join(criteria),
    )
    return [{"role": "user", "content": text}]


def parse_judge(answer: str, seed: SeedResult) -> JsonDict:
    """Compute the reward: the points of the criteria that are met over the sum of all positive points.

    The reward is at most 1, and below 0 if harmful criteria outweigh the others.

    Args:
        answer: The judge's reply.
        seed: The problem with its criteria.

    Raises:
        JudgeError: The reply does not have one verdict for each criterion.
    """
    met = _verdicts(judge_reply(answer).get("met"))
    points = [int(point["points"]) for point in seed.metadata["criteria"]]
    if len(met) != len(points):
        raise JudgeError(
            f"the judge did not judge each of {len(points)} criteria: {answer[:120]!r}"
        )
    possible = sum(point for point in points if point > 0)
    earned = 0
    for point, is_met in zip(points, met, strict=True):
        if is_met:
            earned += point
    return {
        "reward": _reward(earned, possible),
        "points": earned,
        "possible": possible,
        "met": met,
    }


def _verdicts(value: Any) -> list[bool]:
    """Return a list of booleans; an empty list for any other value."""
    if not isinstance(value, list):
        return []
    verdicts = [verdict for verdict in value if isinstance(verdict, bool)]
    return verdicts if len(verdicts) == len(value) else []


def _reward(earned: int, possible: int) -> float:
    return earned / possible if possible else 0.0


def summary(details: Iterable[JsonDict]) -> dict[str, float]:
    """Compute the published score: the mean reward, clipped to [0, 1]; empty if no row was graded."""
    rewards = [_reward(row["points"], row["possible"]) for row in details if "possible" in row]
    if not rewards:
        return {}
    mean_reward = sum(rewards) / len(rewards)
    return {"mean_reward": min(1.0, max(0.0, mean_reward))}


SELF_TEST: Final = SelfTest(mirror_rows=100, has_target=False)


@benchmark(
    "healthbench",
    dataset="hf://openai/healthbench?split=test&file=2025-05-07-06-14-12_oss_eval.jsonl",
    seed_fn=seed,
    judge_prompt=equipped(judge_prompt, _CANARY, {"met": _MET}),
    parse_judge=parse_judge,
    summary=summary,
    cluster=Independent("each row is a conversation of its own"),
    info=BenchmarkInfo(
        title="HealthBench",
        group="health",
        size=5000,
        scorer="judge, rubric points",
        needs=("judge",),
        license="MIT",
        source="https://huggingface.co/datasets/openai/healthbench",
        columns=("prompt", "prompt_id", "rubrics", "example_tags"),
        categories="theme (7)",
        published=Published(
            protocol=(
                "GPT-4.1 grades each criterion by a request of its own; points over possible "
                "points; the mean is clipped to [0, 1] (Arora et al., 2025)."
            ),
            differs=(
                "A judge of your choice grades all criteria in one request, with a prompt of "
                "our own. Points and clipping as published."
            ),
            comparable="no, unless the judge is GPT-4.1, and then nearly",
        ),
    ),
)
def healthbench(sample: ScorerInput) -> Score:
    """Left to the judge; without one nothing is measured."""
    return needs_judge(sample)
