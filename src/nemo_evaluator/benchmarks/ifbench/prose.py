"""IFBench: checkers that count, locate or compare words, sentences, names, numbers and signs."""

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
    """Whether the five keywords occur exactly once, twice, three, five and seven times."""
    text_words = lower_words(text)
    return all(
        text_words.count(args[f"keyword{number}"].casefold()) == times
        for number, times in enumerate(_TIMES, 1)
    )


def punctuation(text: str, args: JsonDict) -> bool:
    """Whether the response has an interrobang and every other punctuation mark: ``.,:;?!``."""
    without_interrobangs = re.sub(r"\?!|!\?|‽", "", text)
    return without_interrobangs != text and all(mark in without_interrobangs for mark in ".,:;?!")


def _trigrams(text: str) -> set[tuple[str, ...]]:
    """Return the distinct runs of three words in a text."""
    text_words = lower_words(text)
    return set(zip(text_words, text_words[1:], text_words[2:], strict=False))


def overlap(text: str, args: JsonDict) -> bool:
    """Whether the requested percentage of the response's word trigrams, give or take two, is in the reference text."""
    text_trigrams = _trigrams(text)
    if not text_trigrams:
        return False
    share = 100 * len(text_trigrams & _trigrams(args["reference_text"])) / len(text_trigrams)
    return bool(abs(share - args["percentage"]) <= _TOLERANCE)


def _kinds(text: str) -> Counter[str]:
    """Count the sentences of a text by kind."""
    return Counter(kind_of(sentence) for sentence in sentences(text))


def sentence_balance(text: str, args: JsonDict) -> bool:
    """Whether there are as many statements as questions and exclamations, and at least one of each."""
    kinds = _kinds(text)
    return kinds["declarative"] > 0 and len({kinds[kind] for kind in _KINDS}) == 1


def sentence_type(text: str, args: JsonDict) -> bool:
    """Whether there are exactly two statements for every question, and at least one question."""
    kinds = _kinds(text)
    return kinds["interrogative"] > 0 and kinds["declarative"] == 2 * kinds["interrogative"]


def sentence_words(text: str, args: JsonDict) -> bool:
    """Whether there are three sentences of equal length in characters that contain no word twice."""
    text_sentences = sentences(text)
    all_words: list[str] = []
    for sentence in text_sentences:
        for word in lower_words(sentence):
            all_words.append(word)
    return (
        len(text_sentences) == 3
        and len({len(sentence) for sentence in text_sentences}) == 1
        and len(all_words) == len(set(all_words))
    )


def stop_words(text: str, args: JsonDict) -> bool:
    """Whether at most the given percentage of the words are stop words."""
    text_words = lower_words(text)
    return bool(text_words) and bool(
        100 * sum(word in STOP_WORDS for word in text_words) / len(text_words) <= args["percentage"]
    )


def _flat(text: str) -> str:
    """Join the words of a text with single spaces, without the quotes around it."""
    return " ".join(text.split()).strip('"“”` ')


def repeat_change(text: str, args: JsonDict) -> bool:
    """Whether the response repeats the prompt with only its first word changed."""
    text_words = _flat(text).split()
    prompt_words = _flat(args["prompt_to_repeat"]).split()
    return (
        len(text_words) == len(prompt_words)
        and text_words[1:] == prompt_words[1:]
        and text_words[:1] != prompt_words[:1]
    )


def repeat_span(text: str, args: JsonDict) -> bool:
    """Whether the response is the prompt's words from one index to another, both included and counted from 0."""
    prompt_words = args["prompt_to_repeat"].split()
    return _flat(text) == _flat(
        " ".join(prompt_words[int(args["n_start"]) : int(args["n_end"]) + 1])
    )


def _alliteration(sentence: str) -> int:
    """Return the length of the longest run of words that begin with the same letter."""
    runs = itertools.groupby(words(sentence.casefold()), key=lambda word: word[0])
    return max((len(list(run)) for _, run in runs), default=0)


def keyword(text: str, args: JsonDict) -> bool:
    """Whether the Nth sentence contains the word."""
    text_sentences = sentences(text)
    nth = int(args["N"])
    return len(text_sentences) >= nth and args["word"].casefold() in lower_words(
        text_sentences[nth - 1]
    )


def _letters(text: str) -> list[str]:
    """Return the words that begin with a letter, in lower case."""
    return [word.casefold() for word in words(text) if word[0].isalpha()]


def keywords_specific_position(text: str, args: JsonDict) -> bool:
    """Whether the keyword is the mth word of the nth sentence."""
    text_sentences = sentences(text)
    sentence_number = int(args["n"])
    word_number = int(args["m"])
    if len(text_sentences) >= sentence_number:
        nth_sentence_words = lower_words(text_sentences[sentence_number - 1])
    else:
        nth_sentence_words = []
    return (
        len(nth_sentence_words) >= word_number
        and nth_sentence_words[word_number - 1] == args["keyword"].casefold()
    )


def start_verb(text: str, args: JsonDict) -> bool:
    """Whether the first word is a verb or may be a form of one."""
    text_words = words(text)
    if text_words:
        first_word: str = text_words[0].casefold().partition("'")[0].partition("’")[0]
    else:
        first_word = ""
    return first_word in _FORMS or any(base in _BASES for base in _bases(first_word))


def _bases(word: str) -> set[str]:
    """Return the base forms that a word may be an inflection of, whether they exist or not."""
    bases = {word}
    for ending in ("s", "es", "d", "ed", "ing"):
        if word.endswith(ending):
            stem = word[: -len(ending)]
            bases |= {stem, f"{stem}e"}
            if len(stem) > 2 and stem[-1] == stem[-2]:
                bases.add(stem[:-1])
            if stem.endswith("i"):
                bases.add(f"{stem[:-1]}y")
    if word.endswith(("ies", "ied")):
        bases.add(f"{word[:-3]}y")
    return bases


def words_position(text: str, args: JsonDict) -> bool:
    """Whether the second word and the second to last are the keyword."""
    text_words = lower_words(text)
    return len(text_words) > 3 and text_words[1] == text_words[-2] == args["keyword"].casefold()


CHECKS: Final[dict[str, Check]] = {
    **named("count", keywords_multiple, punctuation),
    **named("ratio", overlap, sentence_balance, sentence_type, sentence_words, stop_words),
    **named("repeat", repeat_change, repeat_span),
    **named("sentence", keyword),
    **named("words", keywords_specific_position, start_verb, words_position),
    # At least the given number of different coordinating conjunctions.
    "count:conjunctions": lambda text, args: (
        len(_CONJUNCTIONS.intersection(lower_words(text))) >= args["small_n"]
    ),
    # Exactly the given count of numbers in digits; 1,000 and 2.5 are one each.
    "count:numbers": lambda text, args: len(re.findall(r"\d+(?:[.,]\d+)*", text)) == args["N"],
    # At least the given number of different names from the list.
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
    # Exactly the sentence that the prompt asks for.
    "repeat:repeat_simple": lambda text, args: _flat(text).casefold() == _SENTENCE,
    # The longest alliteration grows from sentence to sentence.
    "sentence:alliteration_increment": lambda text, args: in_turn(
        map(_alliteration, sentences(text)), operator.lt
    ),
    # Each sentence has exactly the given number of words more than the one before.
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
    # Words with odd and even numbers of syllables alternate.
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
        lambda line_words: len(line_words) > 1 and line_words[0] == line_words[-1],
    ),
    # The length of every word is a prime number.
    "words:prime_lengths": lambda text, args: every(
        words(text), lambda word: len(re.sub(r"[^\w]", "", word)) in _PRIMES
    ),
    # No word occurs more often than the given number of times.
    "words:repeats": lambda text, args: (
        0 < max(Counter(lower_words(text)).values(), default=0) <= args["small_n"]
    ),
    # No more than three different vowels in the whole response.
    "words:vowel": lambda text, args: 0 < len(set(text.casefold()) & set("aeiou")) <= _VOWEL_KINDS,
}
