"""HealthBench: health conversations, graded against the points of a physician-written rubric."""

from collections.abc import Iterable
from typing import Any

from nemo_evaluator.benchmarks._declared import builtin, declared
from nemo_evaluator.benchmarks._judged import answer_to_grade, canary_of, equipped
from nemo_evaluator.benchmarks._rows import kept
from nemo_evaluator.core.errors import JudgeError
from nemo_evaluator.core.types import JsonDict, Message, SeedResult
from nemo_evaluator.scoring import FENCE_NOTE, Score, ScorerInput, judge_reply, needs_judge

_OWN = declared("healthbench")["own"]
_SOURCE = {"source": "byob", "benchmark": "healthbench"}
_MET = {"type": "array", "items": {"type": "boolean"}}


def seed(row: JsonDict, idx: int) -> SeedResult:
    """The conversation as it stands; the theme is the category."""
    messages: list[Message] = [kept(turn, "role", "content") for turn in row["prompt"]]
    theme = next(
        (tag.removeprefix("theme:") for tag in row["example_tags"] if tag.startswith("theme:")), ""
    )
    criteria = [kept(point, "criterion", "points") for point in row["rubrics"]]
    return SeedResult(
        prompt=messages[-1]["content"],
        expected_answer="",
        messages=messages,
        metadata=kept(row, "prompt_id") | {**_SOURCE, "category": theme, "criteria": criteria},
        shown=frozenset({"criteria"}),
    )


def judge_prompt(seed: SeedResult, response: str) -> list[Message]:
    """One question for all criteria, numbered."""
    turns = seed.messages or [{"role": "user", "content": seed.prompt}]
    text = _OWN["judge"].format(
        conversation="\n\n".join(f"{turn['role']}: {turn['content']}" for turn in turns),
        response=answer_to_grade(response),
        note=FENCE_NOTE,
        criteria="\n".join(
            f"{n}. {point['criterion']}" for n, point in enumerate(seed.metadata["criteria"], 1)
        ),
    )
    return [{"role": "user", "content": text}]


def parse_judge(answer: str, seed: SeedResult) -> JsonDict:
    """Points of the criteria met over the points that could be had: 1 at most, below 0 where harm outweighs."""
    met = judge_reply(answer).get("met")
    points = [int(point["points"]) for point in seed.metadata["criteria"]]
    if (
        not isinstance(met, list)
        or len(met) != len(points)
        or not all(isinstance(one, bool) for one in met)
    ):
        raise JudgeError(
            f"the judge did not judge each of {len(points)} criteria: {answer[:120]!r}"
        )
    possible = sum(point for point in points if point > 0)
    earned = sum(point for point, is_met in zip(points, met, strict=True) if is_met)
    return {
        "reward": earned / possible if possible else 0.0,
        "points": earned,
        "possible": possible,
        "met": met,
    }


def summary(details: Iterable[JsonDict]) -> dict[str, float]:
    """The published figure: the mean is clipped to [0, 1], a row is not."""
    shares: list[Any | float] = []
    for row in details:
        if "possible" in row:
            shares.append(row["points"] / row["possible"] if row["possible"] else 0.0)
    if shares:
        return {"mean_reward": min(1.0, max(0.0, sum(shares) / len(shares)))}
    return {}


@builtin(
    "healthbench",
    seed_fn=seed,
    judge_prompt=equipped(judge_prompt, canary_of(_OWN["canary"]), {"met": _MET}),
    parse_judge=parse_judge,
    summary=summary,
)
def healthbench(sample: ScorerInput) -> Score:
    """Left to the judge; without one nothing is measured."""
    return needs_judge(sample)
