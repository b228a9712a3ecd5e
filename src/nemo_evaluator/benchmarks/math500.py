"""MATH-500: competition mathematics with answers in LaTeX, compared as mathematics."""

from typing import Final

from nemo_evaluator.benchmarks._rows import kept
from nemo_evaluator.benchmarks._self_test import SelfTest
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.environments.custom import BenchmarkInfo, Independent, Published, benchmark
from nemo_evaluator.scoring import Score, ScorerInput, math


def prepare(row: JsonDict) -> JsonDict:
    """Select the columns; the subject is the category."""
    return kept(row, "problem", "answer", "level", "unique_id") | {"category": row["subject"]}


SELF_TEST: Final = SelfTest(mirror_rows=500, answers="math")


@benchmark(
    "math500",
    dataset="hf://HuggingFaceH4/MATH-500?split=test",
    prepare_row=prepare,
    prompt=(
        "Solve the following math problem step by step. The last line of your response should "
        "be of the form 'Answer: $ANSWER' (without quotes) where $ANSWER is the answer to the "
        "problem.\n"
        "\n"
        "{problem}"
    ),
    target_field="answer",
    cluster=Independent("the problems are a random draw"),
    info=BenchmarkInfo(
        title="MATH-500",
        group="math",
        size=500,
        scorer="math",
        license="MIT",
        source="https://huggingface.co/datasets/HuggingFaceH4/MATH-500",
        columns=("problem", "answer", "subject", "level", "unique_id"),
        categories="subject (7)",
        published=Published(
            protocol=(
                "Zero-shot or 4 examples, answer in a box, equality by a symbolic checker "
                "(Lightman et al., 2023; math-verify)."
            ),
            differs="Zero-shot, answer on a last line, equality by math-verify.",
            comparable="yes with reports that use math-verify; nearly with others",
        ),
    ),
)
async def math500(sample: ScorerInput) -> Score:
    """Is the announced answer mathematically equal to the published one?"""
    return await math(sample)
