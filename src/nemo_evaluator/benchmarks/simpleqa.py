"""SimpleQA: short questions with one undisputed answer, graded as correct, incorrect or not attempted."""

import ast
from collections.abc import Iterable
from typing import Any

from nemo_evaluator.benchmarks._declared import builtin, declared
from nemo_evaluator.benchmarks._judged import fallback, grade_hooks
from nemo_evaluator.benchmarks._rows import kept
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.scoring import FENCE_NOTE, Canary, Score, ScorerInput, fuzzy_match

_GRADES = declared("simpleqa")["own"]["judge"]


def prepare(row: JsonDict) -> JsonDict:
    """The topic is the category; upstream it stands in a Python dict written as text."""
    about = ast.literal_eval(row["metadata"])
    topic = about.get("topic", "")
    kind = about.get("answer_type", "")
    return kept(row, "problem", "answer") | {"category": topic, "answer_type": kind}


def summary(details: Iterable[JsonDict]) -> dict[str, float]:
    """Accuracy, share attempted, accuracy of what was attempted, and the F1 of the last and the first."""
    graded = [detail for detail in details if "grade" in detail]
    if not graded:
        return {}
    right = sum(detail["grade"] == "CORRECT" for detail in graded)
    tried = sum(detail["grade"] != "NOT_ATTEMPTED" for detail in graded)
    accuracy = right / len(graded)
    precision = right / tried if tried else 0.0
    if right:
        harmonic: Any | float = 2 * accuracy * precision / (accuracy + precision)
    else:
        harmonic = 0.0
    shares = {"accuracy": accuracy, "attempted": tried / len(graded)}
    return shares | {"accuracy_given_attempted": precision, "f1": harmonic}


judge_prompt, parse_judge = grade_hooks(
    lambda seed, response: _GRADES.format(
        question=seed.prompt, target=seed.expected_answer, response=response, note=FENCE_NOTE
    ),
    {"CORRECT": 1.0, "INCORRECT": 0.0, "NOT_ATTEMPTED": 0.0},
    Canary(),
    details=lambda grade: {"correct": grade == "CORRECT", "attempted": grade != "NOT_ATTEMPTED"},
)


@builtin(
    "simpleqa",
    prepare_row=prepare,
    judge_prompt=judge_prompt,
    parse_judge=parse_judge,
    summary=summary,
)
def simpleqa(sample: ScorerInput) -> Score:
    """Left to the judge; without one, does the response state the answer?"""
    return fallback(fuzzy_match(sample), sample, "normalised match")
