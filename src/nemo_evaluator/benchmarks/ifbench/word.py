"""IFBench: what each word must be, or where it must stand."""

import itertools
import re
from collections import Counter
from collections.abc import Sequence
from typing import Final

from nemo_evaluator.benchmarks._instructions import named
from nemo_evaluator.benchmarks._prose import same_word, sentences, syllables, word_list, words
from nemo_evaluator.core.types import JsonDict

_CLUSTER: Final = re.compile(r"[bcdfghjklmnpqrstvwxyz]{2}")
_PRIMES: Final = frozenset((2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43))
_PALINDROMES: Final = 10
_PALINDROME_LENGTH: Final = 5
_VOWEL_KINDS: Final = 3


def _letters(text: str) -> list[str]:
    """The words in small letters, those without a letter left out."""
    return [word.casefold() for word in words(text) if word[0].isalpha()]


def alphabet(text: str, args: JsonDict) -> bool:
    """Each word begins with the letter after the one before; A follows Z."""
    codes = [ord(word[0]) - ord("a") for word in _letters(text)]
    return len(codes) > 1 and all((left + 1) % 26 == right for left, right in itertools.pairwise(codes))


def consonants(text: str, args: JsonDict) -> bool:
    """Every word has two consonants in a row."""
    said = _letters(text)
    return bool(said) and all(_CLUSTER.search(word) for word in said)


def keywords_specific_position(text: str, args: JsonDict) -> bool:
    """The keyword is the mth word of the nth sentence."""
    parts = sentences(text)
    nth, mth = int(args["n"]), int(args["m"])
    if len(parts) < nth:
        return False
    said = words(parts[nth - 1])
    return len(said) >= mth and same_word(said[mth - 1], args["keyword"])


def _linked(pairs: Sequence[tuple[list[str], list[str]]]) -> bool:
    return bool(pairs) and all(left and right and same_word(left[-1], right[0]) for left, right in pairs)


def last_first(text: str, args: JsonDict) -> bool:
    """The last word of each sentence is the first of the next."""
    parts = [words(sentence) for sentence in sentences(text)]
    return _linked(list(itertools.pairwise(parts)))


def paragraph_last_first(text: str, args: JsonDict) -> bool:
    """Each paragraph ends with the word it begins with."""
    parts = [words(line) for line in text.split("\n") if words(line)]
    return bool(parts) and all(len(part) > 1 and same_word(part[0], part[-1]) for part in parts)


def no_consecutive(text: str, args: JsonDict) -> bool:
    """No two words in a row begin with the same letter."""
    said = _letters(text)
    return len(said) > 1 and all(left[0] != right[0] for left, right in itertools.pairwise(said))


def odd_even_syllables(text: str, args: JsonDict) -> bool:
    """Words with odd and even numbers of syllables in turn."""
    parities = [syllables(word) % 2 for word in _letters(text)]
    return len(parities) > 1 and all(left != right for left, right in itertools.pairwise(parities))


def palindrome(text: str, args: JsonDict) -> bool:
    """At least ten different palindromes of five letters or more."""
    found = {word for word in _letters(text) if len(word) >= _PALINDROME_LENGTH and word == word[::-1]}
    return len(found) >= _PALINDROMES


def prime_lengths(text: str, args: JsonDict) -> bool:
    """Every word is as long as a prime number."""
    said = words(text)
    return bool(said) and all(len(re.sub(r"[^\w]", "", word)) in _PRIMES for word in said)


def repeats(text: str, args: JsonDict) -> bool:
    """No word occurs more than so many times."""
    counts = Counter(word.casefold() for word in words(text))
    return bool(counts) and max(counts.values()) <= args["small_n"]


def start_verb(text: str, args: JsonDict) -> bool:
    """The first word is a verb."""
    said = words(text)
    return bool(said) and is_verb(said[0])


def vowel(text: str, args: JsonDict) -> bool:
    """No more than three different vowels in the whole response."""
    used = set(text.casefold()) & set("aeiou")
    return bool(used) and len(used) <= _VOWEL_KINDS


def words_position(text: str, args: JsonDict) -> bool:
    """The second word and the last but one are the keyword."""
    said = words(text)
    return len(said) > 3 and same_word(said[1], args["keyword"]) and same_word(said[-2], args["keyword"])


CHECKS: Final = named(
    "words", alphabet, consonants, keywords_specific_position, last_first, no_consecutive, odd_even_syllables,
    palindrome, paragraph_last_first, prime_lengths, repeats, start_verb, vowel, words_position,
)  # fmt: skip


_FORMS: Final = word_list("verb_forms")
_BASES: Final = word_list("verbs")


def is_verb(word: str) -> bool:
    """Whether a word is a form of a verb we know."""
    plain = word.casefold().partition("'")[0].partition("’")[0]
    return plain in _FORMS or any(base in _BASES for base in _bases(plain))


def _bases(word: str) -> set[str]:
    """What a word may be a form of."""
    found = {word}
    for ending in ("s", "es", "d", "ed", "ing"):
        if word.endswith(ending):
            stem = word[: -len(ending)]
            found |= {stem, f"{stem}e"}
            if len(stem) > 2 and stem[-1] == stem[-2]:
                found.add(stem[:-1])
            if stem.endswith("i"):
                found.add(f"{stem[:-1]}y")
    if word.endswith(("ies", "ied")):
        found.add(f"{word[:-3]}y")
    return found
