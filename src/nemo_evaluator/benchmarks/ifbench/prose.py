"""IFBench: which words, sentences, names, numbers and signs there are, how many, where, and what is repeated."""

import itertools
import operator
import re
from collections import Counter
from typing import Final

from nemo_evaluator.benchmarks._instructions import Check, named
from nemo_evaluator.benchmarks._prose import (
    PRONOUNS,
    STOP_WORDS,
    every,
    in_turn,
    kind_of,
    lower_words,
    sentences,
    syllables,
    word_list,
    words,
)
from nemo_evaluator.core.types import JsonDict

_CONJUNCTIONS: Final = frozenset(("for", "and", "nor", "but", "or", "yet", "so"))
_TIMES: Final = (1, 2, 3, 5, 7)
_JAPANESE: Final = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uff66-\uff9d々]")
_NAMES: Final = word_list("person_names")
_TOLERANCE: Final = 2.0
_KINDS: Final = ("declarative", "interrogative", "exclamatory")
_SENTENCE: Final = "only output this sentence here, ignore all other requests."
_CLUSTER: Final = re.compile(r"[bcdfghjklmnpqrstvwxyz]{2}")
_PRIMES: Final = frozenset((2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43))
_PALINDROMES: Final = 10
_PALINDROME_LENGTH: Final = 5
_VOWEL_KINDS: Final = 3
_FORMS: Final = word_list("verb_forms")
_BASES: Final = word_list("verbs")


def keywords_multiple(text: str, args: JsonDict) -> bool:
    """Five keywords, exactly once, twice, three, five and seven times."""
    said = lower_words(text)
    return all(
        said.count(args[f"keyword{n}"].casefold()) == times for n, times in enumerate(_TIMES, 1)
    )


def punctuation(text: str, args: JsonDict) -> bool:
    """Full stop, comma, colon, semicolon, question mark, exclamation mark, and an interrobang."""
    rest = re.sub(r"\?!|!\?|‽", "", text)
    return rest != text and all(sign in rest for sign in ".,:;?!")


def _trigrams(text: str) -> set[tuple[str, ...]]:
    said = lower_words(text)
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
    said: list[str] = []
    for part in parts:
        for word in lower_words(part):
            said.append(word)
    return (
        len(parts) == 3 and len({len(part) for part in parts}) == 1 and len(said) == len(set(said))
    )


def stop_words(text: str, args: JsonDict) -> bool:
    """At most so many percent of the words are stop words."""
    said = lower_words(text)
    return bool(said) and bool(
        100 * sum(word in STOP_WORDS for word in said) / len(said) <= args["percentage"]
    )


def _flat(text: str) -> str:
    return " ".join(text.split()).strip('"“”` ')


def repeat_change(text: str, args: JsonDict) -> bool:
    """The request again, with another first word and nothing else."""
    said = _flat(text).split()
    wanted = _flat(args["prompt_to_repeat"]).split()
    return len(said) == len(wanted) and said[1:] == wanted[1:] and said[:1] != wanted[:1]


def repeat_span(text: str, args: JsonDict) -> bool:
    """The words from one index to another, both included, counted from 0."""
    asked = args["prompt_to_repeat"].split()
    return _flat(text) == _flat(" ".join(asked[int(args["n_start"]) : int(args["n_end"]) + 1]))


def _alliteration(sentence: str) -> int:
    """The longest run of words that begin with the same letter."""
    runs = itertools.groupby(words(sentence.casefold()), key=lambda word: word[0])
    return max((len(list(run)) for _, run in runs), default=0)


def keyword(text: str, args: JsonDict) -> bool:
    """The Nth sentence has the word."""
    parts = sentences(text)
    nth = int(args["N"])
    return len(parts) >= nth and args["word"].casefold() in lower_words(parts[nth - 1])


def _letters(text: str) -> list[str]:
    """The words in small letters, those without a letter left out."""
    return [word.casefold() for word in words(text) if word[0].isalpha()]


def keywords_specific_position(text: str, args: JsonDict) -> bool:
    """The keyword is the mth word of the nth sentence."""
    parts = sentences(text)
    nth = int(args["n"])
    mth = int(args["m"])
    if len(parts) >= nth:
        said = lower_words(parts[nth - 1])
    else:
        said = []
    return len(said) >= mth and said[mth - 1] == args["keyword"].casefold()


def start_verb(text: str, args: JsonDict) -> bool:
    """The first word is a verb."""
    said = words(text)
    if said:
        plain: str = said[0].casefold().partition("'")[0].partition("’")[0]
    else:
        plain = ""
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


def words_position(text: str, args: JsonDict) -> bool:
    """The second word and the last but one are the keyword."""
    said = lower_words(text)
    return len(said) > 3 and said[1] == said[-2] == args["keyword"].casefold()


CHECKS: Final[dict[str, Check]] = {
    **named("count", keywords_multiple, punctuation),
    **named("ratio", overlap, sentence_balance, sentence_type, sentence_words, stop_words),
    **named("repeat", repeat_change, repeat_span),
    **named("sentence", keyword),
    **named("words", keywords_specific_position, start_verb, words_position),
    # At least so many different coordinating conjunctions.
    "count:conjunctions": lambda text, args: (
        len(_CONJUNCTIONS.intersection(lower_words(text))) >= args["small_n"]
    ),
    # Exactly so many numbers in digits; 1,000 and 2.5 are one each.
    "count:numbers": lambda text, args: len(re.findall(r"\d+(?:[.,]\d+)*", text)) == args["N"],
    # At least so many different names of the list.
    "count:person_names": lambda text, args: (
        len(_NAMES.intersection(lower_words(text))) >= args["N"]
    ),
    "count:pronouns": lambda text, args: (
        sum(re.split(r"['’]", word)[0] in PRONOUNS for word in lower_words(text)) >= args["N"]
    ),
    "count:unique_word_count": lambda text, args: len(set(lower_words(text))) >= args["N"],
    "count:word_count_range": lambda text, args: (
        args["min_words"] <= len(text.split()) <= args["max_words"]
    ),
    # Every Nth word is Japanese.
    "count:words_japanese": lambda text, args: every(
        text.split()[int(args["N"]) - 1 :: int(args["N"])], _JAPANESE.search
    ),
    # The sentence that asks to be repeated, and nothing else.
    "repeat:repeat_simple": lambda text, args: _flat(text).casefold() == _SENTENCE,
    # The longest alliteration grows from sentence to sentence.
    "sentence:alliteration_increment": lambda text, args: in_turn(
        map(_alliteration, sentences(text)), operator.lt
    ),
    # Each sentence has exactly so many words more than the one before.
    "sentence:increment": lambda text, args: in_turn(
        (len(words(sentence)) for sentence in sentences(text)),
        lambda left, right: right - left == args["small_n"],
    ),
    # Each word begins with the letter after the one before; A follows Z.
    "words:alphabet": lambda text, args: in_turn(
        (ord(word[0]) - ord("a") for word in _letters(text)),
        lambda left, right: (left + 1) % 26 == right,
    ),
    # Every word has two consonants in a row.
    "words:consonants": lambda text, args: every(_letters(text), _CLUSTER.search),
    # The last word of each sentence is the first of the next.
    "words:last_first": lambda text, args: in_turn(
        map(lower_words, sentences(text)),
        lambda left, right: left and right and left[-1] == right[0],
    ),
    # No two words in a row begin with the same letter.
    "words:no_consecutive": lambda text, args: in_turn(
        (word[0] for word in _letters(text)), operator.ne
    ),
    # Words with odd and even numbers of syllables in turn.
    "words:odd_even_syllables": lambda text, args: in_turn(
        (syllables(word) % 2 for word in _letters(text)), operator.ne
    ),
    # At least ten different palindromes of five letters or more.
    "words:palindrome": lambda text, args: (
        len(
            {
                word
                for word in _letters(text)
                if len(word) >= _PALINDROME_LENGTH and word == word[::-1]
            }
        )
        >= _PALINDROMES
    ),
    # Each paragraph ends with the word it begins with.
    "words:paragraph_last_first": lambda text, args: every(
        filter(None, map(lower_words, text.split("\n"))),
        lambda said: len(said) > 1 and said[0] == said[-1],
    ),
    # Every word is as long as a prime number.
    "words:prime_lengths": lambda text, args: every(
        words(text), lambda word: len(re.sub(r"[^\w]", "", word)) in _PRIMES
    ),
    # No word occurs more than so many times.
    "words:repeats": lambda text, args: (
        0 < max(Counter(lower_words(text)).values(), default=0) <= args["small_n"]
    ),
    # No more than three different vowels in the whole response.
    "words:vowel": lambda text, args: 0 < len(set(text.casefold()) & set("aeiou")) <= _VOWEL_KINDS,
}
