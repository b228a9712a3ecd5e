"""Global MMLU: MMLU translated and checked by people, in 42 languages."""

from collections.abc import Sequence
from typing import Final

from nemo_evaluator.benchmarks._rows import LETTERS, configs, kept, lettered
from nemo_evaluator.benchmarks._self_test import SelfTest
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.datasets import Rows
from nemo_evaluator.environments.custom import BenchmarkInfo, Published, benchmark
from nemo_evaluator.scoring import Score, ScorerInput, multichoice_regex

# The languages whose translations were post-edited by professionals.
LANGUAGES: Final = (
    "ar",
    "bn",
    "de",
    "en",
    "es",
    "fr",
    "hi",
    "id",
    "it",
    "ja",
    "ko",
    "pt",
    "sw",
    "yo",
    "zh",
)


def dataset(languages: str | Sequence[str], split: str = "test") -> Rows:
    """Load the problems of some languages, one language after another."""
    return configs("CohereLabs/Global-MMLU", "language", languages, split=split)


def prepare(row: JsonDict) -> JsonDict:
    """Letter the options and keep the subject; the language is the category."""
    choices = [row[f"option_{letter}"] for letter in "abcd"]
    columns = kept(row, "sample_id", "subject", "question", "language")
    return {
        **columns,
        **lettered(choices, LETTERS.index(row["answer"])),
        "category": row["language"],
    }


SELF_TEST: Final = SelfTest()


@benchmark(
    "global_mmlu",
    dataset=dataset,
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
    params={"languages": list(LANGUAGES)},
    fewshot_dataset=lambda: dataset(LANGUAGES, "dev"),
    fewshot_by="language",
    fewshot_format="{question}\n\n{lines}\nAnswer: {target}",
    cluster="sample_id",
    info=BenchmarkInfo(
        title="Global MMLU",
        group="knowledge",
        size=210630,
        scorer="multichoice_regex",
        license="Apache-2.0",
        source="https://huggingface.co/datasets/CohereLabs/Global-MMLU",
        columns=(
            "sample_id",
            "subject",
            "question",
            "option_a",
            "option_b",
            "option_c",
            "option_d",
            "answer",
        ),
        categories="language",
        params={
            "languages": (
                "a language or a list of them; default: ar bn de en es fr hi id it ja ko pt sw "
                "yo zh"
            ),
        },
        published=Published(
            protocol=(
                "5 examples of the language, log-likelihood of the letter (lm-evaluation-harness)."
            ),
            differs="No examples, instruction in English, free reasoning, a letter is generated.",
            comparable="no",
        ),
    ),
)
def global_mmlu(sample: ScorerInput) -> Score:
    """Is the letter that the response picks the right one?"""
    return multichoice_regex(sample, labels="ABCD")
