"""Global MMLU: MMLU translated and checked by people, in 42 languages."""

from collections.abc import Sequence
from typing import Final

from nemo_evaluator.benchmarks._declared import builtin
from nemo_evaluator.benchmarks._rows import LETTERS, configs, kept, lettered
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.datasets import Rows
from nemo_evaluator.scoring import multichoice_regex

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
    """The problems of some languages, one language after another."""
    return configs("CohereLabs/Global-MMLU", "language", languages, split=split)


def prepare(row: JsonDict) -> JsonDict:
    """The language is the category; the subject is kept beside it."""
    choices = [row[f"option_{letter}"] for letter in "abcd"]
    columns = kept(row, "sample_id", "subject", "question", "language")
    return {
        **columns,
        **lettered(choices, LETTERS.index(row["answer"])),
        "category": row["language"],
    }


builtin(
    "global_mmlu",
    dataset=dataset,
    prepare_row=prepare,
    params={"languages": list(LANGUAGES)},
    fewshot_dataset=lambda: dataset(LANGUAGES, "dev"),
)(lambda sample: multichoice_regex(sample, labels="ABCD"))
