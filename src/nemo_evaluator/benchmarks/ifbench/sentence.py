"""IFBench: what each sentence must be, in relation to the others."""

import itertools
from typing import Final

from nemo_evaluator.benchmarks._instructions import named
from nemo_evaluator.benchmarks._prose import sentences, words
from nemo_evaluator.core.types import JsonDict


def _run(sentence: str) -> int:
    """The longest run of words that begin with the same letter."""
    longest = current = 0
    before = ""
    for word in words(sentence.casefold()):
        current = current + 1 if word[0] == before else 1
        longest = max(longest, current)
        before = word[0]
    return longest


def alliteration_increment(text: str, args: JsonDict) -> bool:
    """The longest alliteration grows from sentence to sentence."""
    runs = [_run(sentence) for sentence in sentences(text)]
    return len(runs) > 1 and all(left < right for left, right in itertools.pairwise(runs))


def increment(text: str, args: JsonDict) -> bool:
    """Each sentence has exactly so many words more than the one before."""
    sizes = [len(words(sentence)) for sentence in sentences(text)]
    steps = [right - left for left, right in itertools.pairwise(sizes)]
    return bool(steps) and all(step == args["small_n"] for step in steps)


def keyword(text: str, args: JsonDict) -> bool:
    """The word stands in the Nth sentence."""
    parts = sentences(text)
    nth = int(args["N"])
    return len(parts) >= nth and args["word"].casefold() in [word.casefold() for word in words(parts[nth - 1])]


CHECKS: Final = named("sentence", alliteration_increment, increment, keyword)
