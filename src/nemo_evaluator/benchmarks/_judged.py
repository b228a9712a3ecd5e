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
    """Make the two hooks of a benchmark whose judge gives one of a few grades.

    Args:
        text: Writes the judge's prompt from the problem and the fenced answer.
        grades: The reward of each grade.
        canary: The right and the wrong answer that the judge is tested with.
        details: Computes further columns of the row from the grade.

    Returns:
        The hook that writes the judge's prompt, and the hook that parses the judge's reply.
    """

    def judge_prompt(seed: SeedResult, response: str) -> list[Message]:
        return [{"role": "user", "content": text(seed, answer_to_grade(response))}]

    def parse_judge(answer: str, seed: SeedResult | None = None) -> JsonDict:
        grade = judge_grade(answer, list(grades))
        result: JsonDict = {"reward": grades[grade], "grade": grade}
        if details:
            result |= details(grade)
        return result

    fields: JsonDict = {
        "reason": {"type": "string"},
        "grade": {"type": "string", "enum": list(grades)},
    }
    return equipped(judge_prompt, canary, fields), parse_judge


def answer_to_grade(response: str) -> str:
    """Return an answer as the judge sees it: fenced, and without its reasoning."""
    return fenced("answer", strip_reasoning(response).strip() or "(empty)")


def equipped(judge_prompt: JudgePrompt, canary: Canary, fields: dict[str, Any]) -> JudgePrompt:
    """Attach the judge's canary and reply schema to a prompt hook.

    Args:
        judge_prompt: The hook that writes the judge's prompt; it is changed in place and returned.
        canary: The right and the wrong answer that the judge is tested with.
        fields: The JSON schema of each property of the reply.
    """
    judge_prompt.canary, judge_prompt.schema = canary, object_schema(fields)  # type: ignore[attr-defined]
    return judge_prompt


def fallback(score: Score, sample: ScorerInput, how: str) -> Score:
    """Mark a score as provisional: a judge replaces it, and without a judge it stands with a warning.

    Args:
        score: The score that counts without a judge.
        sample: The answer; its beginning is the extracted answer unless the score has one.
        how: How the score was computed, for the warning.
    """
    return {
        "extracted": strip_reasoning(sample.response).strip()[:500] or None,
        **score,
        "needs_judge": True,
        "fallback": how,
        "warning": f"no judge: scored by {how}",
    }
