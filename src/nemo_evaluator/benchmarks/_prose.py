"""Split prose into what the instruction checkers count: sentences, words and syllables."""

import re
from collections.abc import Callable, Iterable
from itertools import pairwise
from pathlib import Path
from typing import Final, TypeVar

T = TypeVar("T")

WORD: Final = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")
_ABBREVIATIONS: Final = re.compile(
    r"\b(?:(?i:Mr|Mrs|Ms|Dr|Prof|Sr|Jr|St|vs|etc|e\.g|i\.e|cf|al|Inc|Ltd|Co|No|Fig|approx)|[A-Z])\.$"
)
# The possessive quantifiers and the lookbehind match a run of signs only from its beginning: time stays linear.
_END: Final = re.compile(r"(?<![.!?…])[.!?…]++[\"'”’)\]*_]*+(?=\s|$)|[。！？]+")
# At least the length of the longest abbreviation.
_BEFORE_END: Final = 24
_MARKS: Final = re.compile(r"^[ \t]*(?:[*+-]|#+|\d+[.)])[ \t]+")
_VOWELS: Final = re.compile(r"[aeiouy]+")
# Endings whose vowel is silent: "make", "rule", "walked", "makes".
_SILENT_ENDINGS: Final = (
    re.compile(r"(?<![leyiou])e$"),
    re.compile(r"[aeiouy]le$"),
    re.compile(r"[^aeiouydt]ed$"),
    re.compile(r"[^aeiouysxzgc]es$"),
)


def word_list(name: str) -> frozenset[str]:
    """Load a list of words from the folder ``data``."""
    file = Path(__file__).parent / "data" / f"{name}.txt"
    return frozenset(file.read_text(encoding="utf-8").split())


STOP_WORDS: Final = word_list("stop_words")
PRONOUNS: Final = word_list("pronouns")


def every(items: Iterable[T], holds: Callable[[T], object]) -> bool:
    """Whether there is at least one item and all items meet the condition."""
    item_list = list(items)
    return bool(item_list) and all(map(holds, item_list))


def in_turn(items: Iterable[T], holds: Callable[[T, T], object]) -> bool:
    """Whether there are at least two items and all pairs of neighbours meet the condition."""
    return every(pairwise(items), lambda pair: holds(*pair))


def words(text: str) -> list[str]:
    """Return the words of a text; apostrophes and hyphens inside a word are part of it."""
    return WORD.findall(text)


def lower_words(text: str) -> list[str]:
    """Return the words of a text in lower case."""
    return [word.casefold() for word in words(text)]


def sentences(text: str) -> list[str]:
    """Split a text into sentences.

    A sentence also ends at a blank line and before a list item or heading.
    """
    all_sentences: list[str] = []
    for paragraph in re.split(r"\n\s*\n", text.strip()):
        open_lines: list[str] = []
        for line in paragraph.strip().split("\n"):
            if _MARKS.match(line):
                all_sentences += _split(" ".join(open_lines))
                open_lines = [_MARKS.sub("", line)]
            elif open_lines or line.strip():
                open_lines.append(line.strip())
        all_sentences += _split(" ".join(open_lines))
    return all_sentences


def _split(text: str) -> list[str]:
    """Split a paragraph after sentence ends that do not belong to an abbreviation; wordless pieces are dropped."""
    candidates: list[str] = []
    start = 0
    for end_mark in _END.finditer(text):
        if not _ends_abbreviation(text, end_mark, start):
            candidates.append(text[start : end_mark.end()].strip())
            start = end_mark.end()
    candidates.append(text[start:].strip())
    return [candidate for candidate in candidates if WORD.search(candidate)]


def _ends_abbreviation(text: str, end_mark: re.Match[str], start: int) -> bool:
    """Whether a full stop inside a text belongs to an abbreviation.

    Args:
        text: The paragraph.
        end_mark: The full stop or other mark, with the quotes after it.
        start: Where the sentence starts.
    """
    if end_mark[0] != "." or end_mark.end() == len(text):
        return False
    text_before = text[max(start, end_mark.start() - _BEFORE_END) : end_mark.start()]
    return _ABBREVIATIONS.search(f"{text_before}.") is not None


def kind_of(sentence: str) -> str:
    """Classify a sentence by its last sign as ``declarative``, ``interrogative`` or ``exclamatory``."""
    unquoted = sentence.rstrip("\"'”’)]*_ ")
    if unquoted.endswith("?"):
        return "interrogative"
    if unquoted.endswith("!"):
        return "exclamatory"
    return "declarative"


def syllables(word: str) -> int:
    """Estimate the number of syllables of an English word from its vowel groups.

    The estimate is right for most words; a word has at least one syllable.
    """
    letters = re.sub(r"[^a-z]", "", word.lower())
    count = len(_VOWELS.findall(letters))
    for silent_ending in _SILENT_ENDINGS:
        if count > 1 and silent_ending.search(letters):
            count -= 1
    return max(count, 1)
