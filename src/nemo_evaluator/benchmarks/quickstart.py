"""Quickstart: sixty short questions of our own, for a first run with any model."""

from pathlib import Path
from typing import Final

from nemo_evaluator.benchmarks._self_test import SelfTest
from nemo_evaluator.benchmarks._words import one_of
from nemo_evaluator.environments.custom import BenchmarkInfo, Independent, Published, benchmark
from nemo_evaluator.scoring import Score, ScorerInput, fuzzy_match, multichoice_regex, numeric_match

SELF_TEST: Final = SelfTest(mirror_rows=60)


@benchmark(
    "quickstart",
    dataset=Path(__file__).parent / "data" / "quickstart.jsonl",
    prompt="{question}",
    target_field="answer",
    cluster=Independent("each question was written on its own"),
    info=BenchmarkInfo(
        title="Quickstart",
        group="start",
        size=60,
        scorer="by category: number, letter, yes or no, word",
        license="Apache-2.0",
        source="shipped with the package",
        columns=("question", "answer", "category"),
        categories="category (capitals, arithmetic, words, choice, yes or no)",
        published=Published(
            protocol="None: the problems were written for this project.",
            differs="Nothing.",
            comparable="no: there is nothing to compare with",
        ),
    ),
)
def quickstart(sample: ScorerInput) -> Score:
    """Compare as the category asks: a number, a letter, or a word."""
    category = sample.metadata["category"]
    if category == "arithmetic":
        return numeric_match(sample)
    if category == "choice":
        return multichoice_regex(sample, labels="ABC")
    if category == "yes or no":
        return one_of(sample, ("yes", "no"))
    return fuzzy_match(sample)
