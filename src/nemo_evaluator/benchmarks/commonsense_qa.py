"""CommonsenseQA: five-way questions about everyday things."""

from typing import Final

from nemo_evaluator.benchmarks._rows import lettered
from nemo_evaluator.benchmarks._self_test import SelfTest
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.environments.custom import BenchmarkInfo, Independent, Published, benchmark
from nemo_evaluator.scoring import Score, ScorerInput, multichoice_regex


def prepare(row: JsonDict) -> JsonDict:
    """Letter the options."""
    columns = lettered(row["choices"]["text"], row["choices"]["label"].index(row["answerKey"]))
    return {"id": row["id"], "question": row["question"], **columns}


SELF_TEST: Final = SelfTest()


@benchmark(
    "commonsense_qa",
    dataset="hf://tau/commonsense_qa?split=validation",
    prepare_row=prepare,
    prompt=(
        "Answer the following multiple choice question. The last line of your response should "
        "be of the following format: 'Answer: $LETTER' (without quotes) where LETTER is one of "
        "ABCDE. Think step by step before answering.\n"
        "\n"
        "{fewshot}{question}\n"
        "\n"
        "{lines}"
    ),
    carried=("choices",),
    fewshot_split="train",
    fewshot_format="{question}\n\n{lines}\nAnswer: {target}",
    cluster=Independent("each question was written on its own"),
    info=BenchmarkInfo(
        title="CommonsenseQA",
        group="common sense",
        size=1221,
        scorer="multichoice_regex",
        license="MIT",
        source="https://huggingface.co/datasets/tau/commonsense_qa",
        columns=("id", "question", "choices", "answerKey"),
        published=Published(
            protocol=(
                "Few-shot with chain of thought (Wei et al., 2022: 7 examples), or "
                "log-likelihood of the letters."
            ),
            differs="No examples, free reasoning, a letter is generated.",
            comparable="no; nearly with zero-shot reports of chat models",
        ),
    ),
)
def commonsense_qa(sample: ScorerInput) -> Score:
    """Is the letter that the response picks the right one?"""
    return multichoice_regex(sample, labels="ABCDE")
