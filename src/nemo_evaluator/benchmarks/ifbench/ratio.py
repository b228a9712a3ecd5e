"""IFBench: shares and proportions."""

from collections import Counter
from typing import Final

from nemo_evaluator.benchmarks._instructions import named
from nemo_evaluator.benchmarks._prose import STOP_WORDS, kind_of, sentences, words
from nemo_evaluator.core.types import JsonDict

_TOLERANCE: Final = 2.0
_KINDS: Final = ("declarative", "interrogative", "exclamatory")


def _trigrams(text: str) -> set[tuple[str, ...]]:
    said = [word.casefold() for word in words(text)]
    return set(zip(said, said[1:], said[2:], strict=False))


def overlap(text: str, args: JsonDict) -> bool:
    """So many percent (give or take two) of the response's word trigrams are in the reference text."""
    said = _trigrams(text)
    if not said:
        return False
    share = 100 * len(said & _trigrams(args["reference_text"])) / len(said)
    return bool(abs(share - args["percentage"]) <= _TOLERANCE)


def _kinds(text: str) -> Counter[str]:
    return Counter(kind_of(sentence) for sentence in sentences(text))


def sentence_balance(text: str, args: JsonDict) -> bool:
    """As many statements as questions as exclamations."""
    kinds = _kinds(text)
    return kinds["declarative"] > 0 and len({kinds[kind] for kind in _KINDS}) == 1


def sentence_type(text: str, args: JsonDict) -> bool:
    """Two statements to every question."""
    kinds = _kinds(text)
    return kinds["interrogative"] > 0 and kinds["declarative"] == 2 * kinds["interrogative"]


def sentence_words(text: str, args: JsonDict) -> bool:
    """Three sentences, equally long in characters, that share no word."""
    parts = sentences(text)
    said = [word.casefold() for part in parts for word in words(part)]
    return len(parts) == 3 and len({len(part) for part in parts}) == 1 and len(said) == len(set(said))


def stop_words(text: str, args: JsonDict) -> bool:
    """At most so many percent of the words are stop words."""
    said = [word.casefold() for word in words(text)]
    return bool(said) and bool(100 * sum(word in STOP_WORDS for word in said) / len(said) <= args["percentage"])


CHECKS: Final = named("ratio", overlap, sentence_balance, sentence_type, sentence_words, stop_words)
