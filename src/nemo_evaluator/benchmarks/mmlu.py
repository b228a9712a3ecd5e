"""MMLU: four-way questions from 57 subjects, elementary to professional."""

from typing import Final

from nemo_evaluator.benchmarks._rows import lettered, shared_passage
from nemo_evaluator.benchmarks._self_test import SelfTest
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.environments.custom import BenchmarkInfo, Published, benchmark
from nemo_evaluator.scoring import Score, ScorerInput, multichoice_regex


def prepare(row: JsonDict) -> JsonDict:
    """Letter the options; the subject is the category."""
    return {
        "question": row["question"],
        **lettered(row["choices"], int(row["answer"])),
        "category": row["subject"],
    }


SELF_TEST: Final = SelfTest(mirror_rows=14042, answers="choice", wrong_share=3)


@benchmark(
    "mmlu",
    dataset="hf://cais/mmlu?config=all&split=test",
    prepare_row=prepare,
    prompt=(
        "Answer the following multiple choice question. The last line of your response should "
        "be of the following format: 'Answer: $LETTER' (without quotes) where LETTER is one of "
        "ABCD. Think step by step before answering.\n"
        "\n"
        "{fewshot}{question}\n"
        "\n"
        "{lines}"
    ),
    carried=("choices",),
    fewshot_split="dev",
    fewshot_by="category",
    fewshot_format="{question}\n\n{lines}\nAnswer: {target}",
    cluster=shared_passage,
    info=BenchmarkInfo(
        title="MMLU",
        group="knowledge",
        size=14042,
        scorer="multichoice_regex",
        license="MIT",
        source="https://huggingface.co/datasets/cais/mmlu",
        columns=("question", "subject", "choices", "answer"),
        categories="subject (57)",
        published=Published(
            protocol=(
                "5 examples of the subject, log-likelihood of the letter (Hendrycks et al., 2021)."
            ),
            differs="No examples, free reasoning, a letter is generated, as in simple-evals.",
            comparable=(
                "no with the published protocol; nearly with zero-shot chain-of-thought reports"
            ),
        ),
    ),
)
def mmlu(sample: ScorerInput) -> Score:
    """Is the letter that the response picks the right one?"""
    return multichoice_regex(sample, labels="ABCD")
