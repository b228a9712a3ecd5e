"""IFBench: how many words, names, numbers and signs there are."""

import re
from typing import Final

from nemo_evaluator.benchmarks._instructions import named
from nemo_evaluator.benchmarks._prose import PRONOUNS, word_list, words
from nemo_evaluator.core.types import JsonDict

_CONJUNCTIONS: Final = frozenset(("for", "and", "nor", "but", "or", "yet", "so"))
_TIMES: Final = (1, 2, 3, 5, 7)
_JAPANESE: Final = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uff66-\uff9d々]")
_NAMES: Final = word_list("person_names")


def lower_words(text: str) -> list[str]:
    """The words in small letters."""
    return [word.casefold() for word in words(text)]


def conjunctions(text: str, args: JsonDict) -> bool:
    """At least so many different coordinating conjunctions."""
    return bool(len(_CONJUNCTIONS.intersection(lower_words(text))) >= args["small_n"])


def keywords_multiple(text: str, args: JsonDict) -> bool:
    """Five keywords, exactly once, twice, three, five and seven times."""
    said = lower_words(text)
    return all(said.count(args[f"keyword{n}"].casefold()) == times for n, times in enumerate(_TIMES, 1))


def numbers(text: str, args: JsonDict) -> bool:
    """Exactly so many numbers in digits; 1,000 and 2.5 are one each."""
    return bool(len(re.findall(r"\d+(?:[.,]\d+)*", text)) == args["N"])


def person_names(text: str, args: JsonDict) -> bool:
    """At least so many different names of the list."""
    return bool(len(_NAMES.intersection(lower_words(text))) >= args["N"])


def pronouns(text: str, args: JsonDict) -> bool:
    """At least so many pronouns."""
    return bool(sum(re.split(r"['’]", word)[0] in PRONOUNS for word in lower_words(text)) >= args["N"])


def punctuation(text: str, args: JsonDict) -> bool:
    """Full stop, comma, colon, semicolon, question mark, exclamation mark, and an interrobang."""
    rest = re.sub(r"\?!|!\?|‽", "", text)
    return rest != text and all(sign in rest for sign in ".,:;?!")


def unique_word_count(text: str, args: JsonDict) -> bool:
    """At least so many different words."""
    return bool(len(set(lower_words(text))) >= args["N"])


def word_count_range(text: str, args: JsonDict) -> bool:
    """Between so many and so many words, both included."""
    return bool(args["min_words"] <= len(text.split()) <= args["max_words"])


def words_japanese(text: str, args: JsonDict) -> bool:
    """Every Nth word is Japanese."""
    every = int(args["N"])
    chosen = text.split()[every - 1 :: every]
    return bool(chosen) and all(_JAPANESE.search(word) for word in chosen)


CHECKS: Final = named(
    "count", conjunctions, keywords_multiple, numbers, person_names, pronouns, punctuation, unique_word_count,
    word_count_range, words_japanese,
)  # fmt: skip
