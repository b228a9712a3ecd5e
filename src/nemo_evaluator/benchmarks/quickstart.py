"""Quickstart: sixty short questions of our own, for a first run with any model."""

from pathlib import Path

from nemo_evaluator.benchmarks._declared import builtin
from nemo_evaluator.benchmarks._words import one_of
from nemo_evaluator.scoring import Score, ScorerInput, fuzzy_match, multichoice_regex, numeric_match


@builtin("quickstart", dataset=Path(__file__).parent / "data" / "quickstart.jsonl")
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
