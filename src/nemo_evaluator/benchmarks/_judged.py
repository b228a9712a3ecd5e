"""What the judged benchmarks share: asking for a grade in JSON, reading it, and what counts without a judge."""

from collections.abc import Callable
from typing import Any

from nemo_evaluator.core.types import JsonDict, Message, SeedResult
from nemo_evaluator.scoring import (
    Canary,
    Score,
    ScorerInput,
    fenced,
    judge_grade,
    object_schema,
    strip_reasoning,
)

JudgePrompt = Callable[[SeedResult, str], list[Message]]
ParseJudge = Callable[..., JsonDict]


def grade_hooks(
    text: Callable[[SeedResult, str], str],
    grades: dict[str, float],
    canary: Canary,
    details: Callable[[str], JsonDict] | None = None,
) -> tuple[JudgePrompt, ParseJudge]:
    """The two hooks of a benchmark whose judge gives one of a few grades; ``text`` gets the answer in its fence."""

    def judge_prompt(seed: SeedResult, response: str) -> list[Message]:
        return [{"role": "user", "content": text(seed, answer_to_grade(response))}]

    def parse_judge(answer: str, seed: SeedResult | None = None) -> JsonDict:
        grade = judge_grade(answer, list(grades))
        return {"reward": grades[grade], "grade": grade, **(details(grade) if details else {})}

    fields: JsonDict = {
        "reason": {"type": "string"},
        "grade": {"type": "string", "enum": list(grades)},
    }
    return equipped(judge_prompt, canary, fields), parse_judge


def answer_to_grade(response: str) -> str:
    """An answer as a judge sees it: without its reasoning, in a fence."""
    return fenced("answer", strip_reasoning(response).strip() or "(empty)")


def equipped(judge_prompt: JudgePrompt, canary: Canary, fields: dict[str, Any]) -> JudgePrompt:
    """A hook with the canary that its judge is checked with, and the schema of the reply."""
    judge_prompt.canary, judge_prompt.schema = canary, object_schema(fields)  # type: ignore[attr-defined]
    return judge_prompt


def fallback(score: Score, sample: ScorerInput, how: str) -> Score:
    """A score that a judge replaces; without a judge it stands, and says how it came about."""
    return {
        "extracted": strip_reasoning(sample.response).strip()[:500] or None,
        **score,
        "needs_judge": True,
        "fallback": how,
        "warning": f"no judge: scored by {how}",
    }
