"""WinoGrande: which of two names fills the gap in a sentence."""

from typing import Final

from nemo_evaluator.benchmarks._rows import lettered
from nemo_evaluator.benchmarks._self_test import SelfTest
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.environments.custom import BenchmarkInfo, Published, benchmark
from nemo_evaluator.scoring import Score, ScorerInput, multichoice_regex

# Most pairs differ only near the end; so many characters tell other pairs with the same options apart.
_TWIN_START: Final = 12


def prepare(row: JsonDict) -> JsonDict:
    """Letter the two options."""
    return {
        "sentence": row["sentence"],
        **lettered([row["option1"], row["option2"]], int(row["answer"]) - 1),
    }


def twins(row: JsonDict) -> str:
    """Return what the two sentences of a pair share: the options, and how they begin."""
    options = sorted(row["choices"])
    return "/".join([*options, row["sentence"][:_TWIN_START]])


SELF_TEST: Final = SelfTest(mirror_rows=1267, answers="choice")


@benchmark(
    "winogrande",
    dataset="hf://allenai/winogrande?config=winogrande_xl&split=validation",
    prepare_row=prepare,
    prompt=(
        "Answer the following question: what belongs in the gap (_)?. The last line of your "
        "response should be of the following format: 'Answer: $LETTER' (without quotes) where "
        "LETTER is one of AB. Think step by step before answering.\n"
        "\n"
        "{fewshot}{sentence}\n"
        "\n"
        "{lines}"
    ),
    carried=("choices",),
    fewshot_split="train",
    fewshot_format="{sentence}\n\n{lines}\nAnswer: {target}",
    cluster=twins,
    info=BenchmarkInfo(
        title="WinoGrande",
        group="common sense",
        size=1267,
        scorer="multichoice_regex",
        license="CC-BY",
        source="https://huggingface.co/datasets/allenai/winogrande",
        columns=("sentence", "option1", "option2", "answer"),
        published=Published(
            protocol="5 examples, log-likelihood of the sentence with each option in the gap.",
            differs="No examples, the options lettered, a letter is generated.",
            comparable="no",
        ),
    ),
)
def winogrande(sample: ScorerInput) -> Score:
    """Is the letter that the response picks the right one?"""
    return multichoice_regex(sample, labels="AB")
