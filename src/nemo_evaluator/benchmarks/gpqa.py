"""GPQA Diamond: graduate questions in biology, physics and chemistry that searching does not answer."""

import random
from typing import Final

from nemo_evaluator.benchmarks._rows import lettered
from nemo_evaluator.benchmarks._self_test import SelfTest
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.environments.custom import BenchmarkInfo, Independent, Published, benchmark
from nemo_evaluator.scoring import Score, ScorerInput, multichoice_regex

_WRONG = ("Incorrect Answer 1", "Incorrect Answer 2", "Incorrect Answer 3")


def prepare(row: JsonDict, idx: int, rng: random.Random) -> JsonDict:
    """Letter the four answers in shuffled order.

    The order of a row is the same in every run.
    """
    right_answer = row["Correct Answer"].strip()
    choices = [right_answer, *(row[column].strip() for column in _WRONG)]
    rng.shuffle(choices)
    columns = lettered(choices, choices.index(right_answer))
    return {"question": row["Question"].strip(), **columns, "category": row["High-level domain"]}


SELF_TEST: Final = SelfTest()


@benchmark(
    "gpqa",
    dataset="hf://Idavidrein/gpqa?config=gpqa_diamond&split=train",
    prepare_row=prepare,
    prompt=(
        "Answer the following multiple choice question. The last line of your response should "
        "be of the following format: 'Answer: $LETTER' (without quotes) where LETTER is one of "
        "ABCD. Think step by step before answering.\n"
        "\n"
        "{question}\n"
        "\n"
        "{lines}"
    ),
    carried=("choices",),
    cluster=Independent("each question was written on its own"),
    info=BenchmarkInfo(
        title="GPQA Diamond",
        group="knowledge",
        size=198,
        scorer="multichoice_regex",
        needs=("gated",),
        license="CC-BY-4.0",
        source="https://huggingface.co/datasets/Idavidrein/gpqa",
        columns=(
            "Question",
            "Correct Answer",
            "Incorrect Answer 1",
            "Incorrect Answer 2",
            "Incorrect Answer 3",
            "High-level domain",
        ),
        categories="High-level domain (3)",
        published=Published(
            protocol=(
                "Zero-shot chain of thought, options shuffled, a letter is generated "
                "(simple-evals; Rein et al., 2023)."
            ),
            differs="The same, with a shuffle of our own that is fixed for each row.",
            comparable="yes, within the noise of the shuffle",
        ),
    ),
)
def gpqa(sample: ScorerInput) -> Score:
    """Is the letter that the response picks the right one?"""
    return multichoice_regex(sample, labels="ABCD")
