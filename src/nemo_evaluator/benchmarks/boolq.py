"""BoolQ: yes-or-no questions about a passage."""

from typing import Final

from nemo_evaluator.benchmarks._self_test import SelfTest
from nemo_evaluator.benchmarks._words import one_of
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.environments.custom import BenchmarkInfo, Published, benchmark
from nemo_evaluator.scoring import Score, ScorerInput


def prepare(row: JsonDict) -> JsonDict:
    """Select the columns and write the truth value as yes or no."""
    return {
        "passage": row["passage"],
        "question": row["question"],
        "target": "yes" if row["answer"] else "no",
    }


SELF_TEST: Final = SelfTest()


@benchmark(
    "boolq",
    dataset="hf://google/boolq?split=validation",
    prepare_row=prepare,
    prompt=(
        "Read the passage and answer the question with yes or no. Write a last line of the "
        "form 'Answer: yes' or 'Answer: no'.\n"
        "\n"
        "{fewshot}Passage: {passage}\n"
        "Question: {question}?"
    ),
    fewshot_split="train",
    fewshot_format="Passage: {passage}\nQuestion: {question}?\nAnswer: {target}",
    cluster="passage",
    info=BenchmarkInfo(
        title="BoolQ",
        group="reading",
        size=3270,
        scorer="one_of (yes, no)",
        license="CC-BY-SA-3.0",
        source="https://huggingface.co/datasets/google/boolq",
        columns=("passage", "question", "answer"),
        published=Published(
            protocol=(
                "Log-likelihood of yes and no, without examples or with a few (GPT-3, "
                "lm-evaluation-harness)."
            ),
            differs="The word is generated, after free reasoning.",
            comparable="no",
        ),
    ),
)
def boolq(sample: ScorerInput) -> Score:
    """Does the response settle on the right word?"""
    return one_of(sample, ("yes", "no"))
