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
    for number, times in enumerate(_TIMES, 1):
        keyword_text = args[f"keyword{number}"].casefold()
        if text_words.count(keyword_text) != times:
            return False
    return True


def punctuation(text: str, args: JsonDict) -> bool:
    """Whether the response has an interrobang and every other punctuation mark: ``.,:;?!``."""
    without_interrobangs = re.sub(r"\?!|!\?|‽", "", text)
    has_interrobang = without_interrobangs != text
    return has_interrobang and all(mark in without_interrobangs for mark in ".,:;?!")


def _trigrams(text: str) -> set[tuple[str, ...]]:
    """Return the distinct runs of three words in a text."""
    text_words = lower_words(text)
    return set(zip(text_words, text_words[1:], text_words[2:], strict=False))


def overlap(text: str, args: JsonDict) -> bool:
    """Whether the requested percentage of the response's word trigrams, give or take two, is in the reference text."""
    text_trigrams = _trigrams(text)
    if not text_trigrams:
        return False
    shared_trigrams = text_trigrams & _trigrams(args["reference_text"])
    percentage = 100 * len(shared_trigrams) / len(text_trigrams)
    return bool(abs(percentage - args["percentage"]) <= _TOLERANCE)


def _kinds(text: str) -> Counter[str]:
    """Count the sentences of a text by kind."""
    return Counter(kind_of(sentence) for sentence in sentences(text))


def sentence_balance(text: str, args: JsonDict) -> bool:
    """Whether there are as many statements as questions and exclamations, and at least one of each."""
    kinds = _kinds(text)
    different_counts = {kinds[kind] for kind in _KINDS}
    return kinds["declarative"] > 0 and len(different_counts) == 1


def sentence_type(text: str, args: JsonDict) -> bool:
    """Whether there are exactly two statements for every question, and at least one question."""
    kinds = _kinds(text)
    return kinds["interrogative"] > 0 and kinds["declarative"] == 2 * kinds["interrogative"]


def sentence_words(text: str, args: JsonDict) -> bool:
    """Whether there are three sentences of equal length in characters that contain no word twice."""
    text_sentences = sentences(text)
    if len(text_sentences) != 3:
        return False
    different_lengths = {len(sentence) for sentence in text_sentences}
    if len(different_lengths) != 1:
        return False
    all_words: list[str] = []
    for sentence in text_sentences:
        all_words += lower_words(sentence)
    return len(all_words) == len(set(all_words))


def stop_words(text: str, args: JsonDict) -> bool:
    """Whether at most the given percentage of the words are stop words."""
    text_words = lower_words(text)
    if not text_words:
        return False
    stop_word_count = sum(word in STOP_WORDS for word in text_words)
    percentage = 100 * stop_word_count / len(text_words)
    return bool(percentage <= args["percentage"])


def _flat(text: str) -> str:
    """Join the words of a text with single spaces, without the quotes around it."""
    return " ".join(text.split()).strip('"“”` ')


def repeat_change(text: str, args: JsonDict) -> bool:
    """Whether the response repeats the prompt with only its first word changed."""
    text_words = _flat(text).split()
    prompt_words = _flat(args["prompt_to_repeat"]).split()
    # Without words, there is no first word that could differ.
    first_word_differs = text_words[:1] != prompt_words[:1]
    if len(text_words) != len(prompt_words) or not first_word_differs:
        return False
    return text_words[1:] == prompt_words[1:]


def repeat_span(text: str, args: JsonDict) -> bool:
    """Whether the response is the prompt's words from one index to another, both included and counted from 0."""
    prompt_words = args["prompt_to_repeat"].split()
    start = int(args["n_start"])
    end = int(args["n_end"]) + 1
    span = " ".join(prompt_words[start:end])
    return _flat(text) == _flat(span)


def _alliteration(sentence: str) -> int:
    """Return the length of the longest run of words that begin with the same letter."""
    longest_run = 0
    for _, run in itertools.groupby(words(sentence.casefold()), key=lambda word: word[0]):
        run_length = len(list(run))
        longest_run = max(longest_run, run_length)
    return longest_run


def keyword(text: str, args: JsonDict) -> bool:
    """Whether the Nth sentence contains the word."""
    text_sentences = sentences(text)
    sentence_number = int(args["N"])
    if len(text_sentences) < sentence_number:
        return False
    nth_sentence_words = lower_words(text_sentences[sentence_number - 1])
    return args["word"].casefold() in nth_sentence_words


def _letters(text: str) -> list[str]:
    """Return the words that begin with a letter, in lower case."""
    return [word.casefold() for word in words(text) if word[0].isalpha()]


def keywords_specific_position(text: str, args: JsonDict) -> bool:
    """Whether the keyword is the mth word of the nth sentence."""
    text_sentences = sentences(text)
    sentence_number = int(args["n"])
    word_number = int(args["m"])
    if len(text_sentences) < sentence_number:
        return False
    nth_sentence_words = lower_words(text_sentences[sentence_number - 1])
    if len(nth_sentence_words) < word_number:
        return False
    return bool(nth_sentence_words[word_number - 1] == args["keyword"].casefold())


def start_verb(text: str, args: JsonDict) -> bool:
    """Whether the first word is a verb or may be a form of one."""
    text_words = words(text)
    first_word = ""
    if text_words:
        # The verb of a contraction: "let" of "let's".
        first_word = re.split("['’]", text_words[0].casefold())[0]
    return first_word in _FORMS or not _BASES.isdisjoint(_bases(first_word))


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
    if len(text_words) <= 3:
        return False
    keyword_text = args["keyword"].casefold()
    return bool(text_words[1] == keyword_text and text_words[-2] == keyword_text)


def conjunctions(text: str, args: JsonDict) -> bool:
    """Whether there are at least the given number of different coordinating conjunctions."""
    different_conjunctions = _CONJUNCTIONS.intersection(lower_words(text))
    return bool(len(different_conjunctions) >= args["small_n"])


def numbers(text: str, args: JsonDict) -> bool:
    """Whether there are exactly the given count of numbers in digits; 1,000 and 2.5 are one each."""
    numbers_in_text = re.findall(r"\d+(?:[.,]\d+)*", text)
    return bool(len(numbers_in_text) == args["N"])


def person_names(text: str, args: JsonDict) -> bool:
    """Whether there are at least the given number of different names from the list."""
    different_names = _NAMES.intersection(lower_words(text))
    return bool(len(different_names) >= args["N"])


def pronouns(text: str, args: JsonDict) -> bool:
    """Whether there are at least the given number of pronouns; the "I" of "I'm" is one."""
    count = 0
    for word in lower_words(text):
        uncontracted_word = re.split(r"['’]", word)[0]
        if uncontracted_word in PRONOUNS:
            count += 1
    return bool(count >= args["N"])


def unique_word_count(text: str, args: JsonDict) -> bool:
    """Whether there are at least the given number of different words."""
    return bool(len(set(lower_words(text))) >= args["N"])


def word_count_range(text: str, args: JsonDict) -> bool:
    """Whether the number of words, separated by spaces, is in the range."""
    return bool(args["min_words"] <= len(text.split()) <= args["max_words"])


def words_japanese(text: str, args: JsonDict) -> bool:
    """Whether every Nth word is Japanese."""
    interval = int(args["N"])
    nth_words = text.split()[interval - 1 :: interval]
    return every(nth_words, _JAPANESE.search)


def repeat_simple(text: str, args: JsonDict) -> bool:
    """Whether the response is exactly the sentence that the prompt asks for."""
    return _flat(text).casefold() == _SENTENCE


def alliteration_increment(text: str, args: JsonDict) -> bool:
    """Whether the longest alliteration grows from sentence to sentence."""
    return in_turn(map(_alliteration, sentences(text)), operator.lt)


def increment(text: str, args: JsonDict) -> bool:
    """Whether each sentence has exactly the given number of words more than the one before."""
    lengths = [len(words(sentence)) for sentence in sentences(text)]
    return in_turn(lengths, lambda left, right: right - left == args["small_n"])


def alphabet(text: str, args: JsonDict) -> bool:
    """Whether each word begins with the letter after that of the word before; A follows Z."""
    positions = [ord(word[0]) - ord("a") for word in _letters(text)]
    return in_turn(positions, lambda left, right: (left + 1) % 26 == right)


def consonants(text: str, args: JsonDict) -> bool:
    """Whether every word has two consonants in a row."""
    return every(_letters(text), _CLUSTER.search)


def last_first(text: str, args: JsonDict) -> bool:
    """Whether the last word of each sentence is the first of the next."""
    sentences_as_words = [lower_words(sentence) for sentence in sentences(text)]
    return in_turn(sentences_as_words, lambda left, right: left and right and left[-1] == right[0])


def no_consecutive(text: str, args: JsonDict) -> bool:
    """Whether no two words in a row begin with the same letter."""
    initials = [word[0] for word in _letters(text)]
    return in_turn(initials, operator.ne)


def odd_even_syllables(text: str, args: JsonDict) -> bool:
    """Whether words with odd and even numbers of syllables alternate."""
    parities = [syllables(word) % 2 for word in _letters(text)]
    return in_turn(parities, operator.ne)


def palindrome(text: str, args: JsonDict) -> bool:
    """Whether there are at least ten different palindromes of five letters or more."""
    palindromes: set[str] = set()
    for word in _letters(text):
        if len(word) >= _PALINDROME_LENGTH and word == word[::-1]:
            palindromes.add(word)
    return len(palindromes) >= _PALINDROMES


def paragraph_last_first(text: str, args: JsonDict) -> bool:
    """Whether each paragraph ends with the word it begins with."""
    paragraphs = [lower_words(line) for line in text.split("\n")]
    filled_paragraphs = [paragraph for paragraph in paragraphs if paragraph]
    return every(filled_paragraphs, _ends_as_it_begins)


def _ends_as_it_begins(line_words: list[str]) -> bool:
    return len(line_words) > 1 and line_words[0] == line_words[-1]


def prime_lengths(text: str, args: JsonDict) -> bool:
    """Whether the length of every word, without hyphens and apostrophes, is a prime number."""
    lengths = [len(re.sub(r"[^\w]", "", word)) for word in words(text)]
    return every(lengths, lambda length: length in _PRIMES)


def repeats(text: str, args: JsonDict) -> bool:
    """Whether no word occurs more often than the given number of times; a response without words fails."""
    highest_count = max(Counter(lower_words(text)).values(), default=0)
    return bool(0 < highest_count <= args["small_n"])


def vowel(text: str, args: JsonDict) -> bool:
    """Whether the whole response has no more than three different vowels, and at least one."""
    vowels = set(text.casefold()) & set("aeiou")
    return 0 < len(vowels) <= _VOWEL_KINDS


CHECKS: Final[dict[str, Check]] = {
    **named("count", conjunctions, keywords_multiple, numbers, person_names, pronouns),
    **named("count", punctuation, unique_word_count, word_count_range, words_japanese),
    **named("ratio", overlap, sentence_balance, sentence_type, sentence_words, stop_words),
    **named("repeat", repeat_change, repeat_simple, repeat_span),
    **named("sentence", alliteration_increment, increment, keyword),
    **named("words", alphabet, consonants, keywords_specific_position, last_first),
    **named("words", no_consecutive, odd_even_syllables, palindrome, paragraph_last_first),
    **named("words", prime_lengths, repeats, start_verb, vowel, words_position),
}
