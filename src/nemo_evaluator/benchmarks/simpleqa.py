"""SimpleQA: short questions with one undisputed answer, graded as correct, incorrect or not attempted."""

import ast
from collections.abc import Iterable
from typing import Any, Final

from nemo_evaluator.benchmarks._judged import fallback, grade_hooks
from nemo_evaluator.benchmarks._rows import kept
from nemo_evaluator.benchmarks._self_test import SelfTest
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.environments.custom import BenchmarkInfo, Independent, Published, benchmark
from nemo_evaluator.scoring import FENCE_NOTE, Canary, Score, ScorerInput, fuzzy_match

_JUDGE: Final = """\
You grade the answer to a factual question against the known answer.

Question: {question}
Known answer: {target}
Answer to grade:
{response}

{note}

CORRECT: the answer contains the known answer in full and nothing that contradicts it. Case, punctuation, order and
further true details do not matter; a number must agree to the last significant figure of the known answer.
INCORRECT: the answer says something that contradicts the known answer, even if it hedges.
NOT_ATTEMPTED: the answer does not give the known answer in full, and says nothing that contradicts it.

Reply with one JSON object and nothing else:
{{"reason": "one sentence", "grade": "CORRECT", "INCORRECT" or "NOT_ATTEMPTED"}}"""


def prepare(row: JsonDict) -> JsonDict:
    """Select the columns; the topic is the category.

    The dataset has the topic in a Python dictionary that is written as text.
    """
    metadata = ast.literal_eval(row["metadata"])
    topic = metadata.get("topic", "")
    answer_type = metadata.get("answer_type", "")
    return kept(row, "problem", "answer") | {"category": topic, "answer_type": answer_type}


def summary(details: Iterable[JsonDict]) -> dict[str, float]:
    """Compute the accuracy, the share attempted, the accuracy of those, and the harmonic mean of both accuracies.

    The result is empty if no row was graded.
    """
    graded = [detail for detail in details if "grade" in detail]
    if not graded:
        return {}
    correct_count = sum(detail["grade"] == "CORRECT" for detail in graded)
    attempted_count = sum(detail["grade"] != "NOT_ATTEMPTED" for detail in graded)
    accuracy = correct_count / len(graded)
    precision = correct_count / attempted_count if attempted_count else 0.0
    if correct_count:
        f1: Any | float = 2 * accuracy * precision / (accuracy + precision)
    else:
        f1 = 0.0
    shares = {"accuracy": accuracy, "attempted": attempted_count / len(graded)}
    return shares | {"accuracy_given_attempted": precision, "f1": f1}


judge_prompt, parse_judge = grade_hooks(
    lambda seed, response: _JUDGE.format(
        question=seed.prompt, target=seed.expected_answer, response=response, note=FENCE_NOTE
    ),
    {"CORRECT": 1.0, "INCORRECT": 0.0, "NOT_ATTEMPTED": 0.0},
    Canary(),
    details=lambda grade: {"correct": grade == "CORRECT", "attempted": grade != "NOT_ATTEMPTED"},
)


SELF_TEST: Final = SelfTest(mirror_rows=4326)


@benchmark(
    "simpleqa",
    dataset="hf://basicv8vc/SimpleQA?split=test",
    prepare_row=prepare,
    prompt="{problem}",
    target_field="answer",
    judge_prompt=judge_prompt,
    parse_judge=parse_judge,
    summary=summary,
    cluster=Independent("each question was written on its own"),
    info=BenchmarkInfo(
        title="SimpleQA",
        group="facts",
        size=4326,
        scorer="judge, three grades (without one: fuzzy_match)",
        needs=("judge",),
        judge_optional=True,
        license="MIT",
        source="https://huggingface.co/datasets/basicv8vc/SimpleQA",
        columns=("problem", "answer", "metadata"),
        categories="topic (10)",
        published=Published(
            protocol=(
                "The question as it stands; a grader says CORRECT, INCORRECT or NOT_ATTEMPTED "
                "(Wei et al., 2024: GPT-4o with the authors' prompt)."
            ),
            differs="A judge of your choice with a prompt of our own and the same three grades.",
            comparable="nearly, with a judge as strong",
        ),
    ),
)
def simpleqa(sample: ScorerInput) -> Score:
    """Left to the judge; without one, does the response state the answer?"""
    return fallback(fuzzy_match(sample), sample, "normalised match")
