"""What the judged benchmarks share: asking for a grade in JSON, reading it, and what counts without a judge."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import orjson

from nemo_evaluator.core.errors import JudgeError
from nemo_evaluator.core.types import JsonDict, Message, SeedResult
from nemo_evaluator.scoring import Score, ScorerInput, extract_json, strip_reasoning

JudgePrompt = Callable[[SeedResult, str], list[Message]]
ParseJudge = Callable[..., JsonDict]


def grade_hooks(
    text: Callable[[SeedResult, str], str], grades: dict[str, float], details: Callable[[str], JsonDict] | None = None
) -> tuple[JudgePrompt, ParseJudge]:
    """The two hooks of a benchmark whose judge gives one of a few grades."""

    def judge_prompt(seed: SeedResult, response: str) -> list[Message]:
        return [{"role": "user", "content": text(seed, strip_reasoning(response))}]

    def parse_judge(answer: str, seed: SeedResult | None = None) -> JsonDict:
        grade = read_grade(answer, list(grades))
        return {"reward": grades[grade], "grade": grade, **(details(grade) if details else {})}

    return judge_prompt, parse_judge


def read_json(answer: str) -> Any:
    """The JSON value of a judge's answer; raises JudgeError when there is none."""
    found = extract_json(strip_reasoning(answer))
    if isinstance(found, str):
        try:
            found = orjson.loads(found)
        except orjson.JSONDecodeError:
            found = None
    if found is None:
        raise JudgeError(f"the judge gave no JSON: {answer[:120]!r}")
    return found


def read_grade(answer: str, grades: list[str]) -> str:
    """The grade of a judge's answer: the field of its JSON, else the only grade word of a short answer."""
    try:
        value = read_json(answer)
    except JudgeError:
        value = None
    named = str(value.get("grade", "")).upper() if isinstance(value, dict) else ""
    if named in grades:
        return named
    plain = strip_reasoning(answer).strip().upper()
    said = {grade for grade in grades if re.search(rf"(?<![A-Z_]){re.escape(grade)}(?![A-Z_])", plain)}
    if len(said) == 1:
        return said.pop()
    raise JudgeError(f"the judge gave none of {', '.join(grades)}: {answer[:120]!r}")


def fallback(score: Score, sample: ScorerInput, how: str) -> Score:
    """A score that a judge replaces; without a judge it stands, and says how it came about."""
    return {
        "extracted": strip_reasoning(sample.response).strip()[:500] or None,
        **score,
        "needs_judge": True,
        "fallback": how,
        "warning": f"no judge: scored by {how}",
    }
