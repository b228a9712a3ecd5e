"""Quickstart: sixty short questions of our own, for a first run with any model."""

from __future__ import annotations

from pathlib import Path

from nemo_evaluator.benchmarks._words import one_of
from nemo_evaluator.environments.custom import BenchmarkInfo, Published, ScorerInput, benchmark, scorer
from nemo_evaluator.scoring import Score, fuzzy_match, multichoice_regex, numeric_match


@benchmark(
    name="quickstart",
    dataset=Path(__file__).parent / "data" / "quickstart.jsonl",
    prompt="{question}",
    target_field="answer",
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
@scorer
def quickstart(sample: ScorerInput) -> Score:
    """Compare as the category asks: a number, a letter, or a word."""
    category = sample.metadata["category"]
    if category == "arithmetic":
        return numeric_match(sample)
    if category == "choice":
        return multichoice_regex(sample, labels="ABC")
    return one_of(sample, ("yes", "no")) if category == "yes or no" else fuzzy_match(sample)
