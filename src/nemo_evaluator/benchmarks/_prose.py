"""Prose as pieces: sentences, words, paragraphs, syllables; what the instruction checkers count."""

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
# A run of signs is looked at from its beginning only, once: a long one costs no more than its length.
_END: Final = re.compile(r"(?<![.!?…])[.!?…]++[\"'”’)\]*_]*+(?=\s|$)|[。！？]+")
# No abbreviation is longer.
_BEFORE_END: Final = 24
_MARKS: Final = re.compile(r"^[ \t]*(?:[*+-]|#+|\d+[.)])[ \t]+")
_VOWELS: Final = re.compile(r"[aeiouy]+")


def word_list(name: str) -> frozenset[str]:
    """A list of words in the folder ``data``."""
    return frozenset(
        (Path(__file__).parent / "data" / f"{name}.txt").read_text(encoding="utf-8").split()
    )


STOP_WORDS: Final = word_list("stop_words")
PRONOUNS: Final = word_list("pronouns")


def every(items: Iterable[T], holds: Callable[[T], object]) -> bool:
    """Whether there is an item, and each of them holds."""
    kept = list(items)
    return bool(kept) and all(map(holds, kept))


def in_turn(items: Iterable[T], holds: Callable[[T, T], object]) -> bool:
    """Whether there are two items at least, and any two neighbours hold."""
    return every(pairwise(items), lambda pair: holds(*pair))


def words(text: str) -> list[str]:
    """The words of a text, apostrophes and hyphens inside them kept."""
    return WORD.findall(text)


def lower_words(text: str) -> list[str]:
    """The words in small letters."""
    return [word.casefold() for word in words(text)]


def sentences(text: str) -> list[str]:
    """The sentences of a text. A blank line and the start of a list item or heading end a sentence too."""
    parts: list[str] = []
    for block in re.split(r"\n\s*\n", text.strip()):
        lines: list[str] = []
        for line in block.strip().split("\n"):
            if _MARKS.match(line):
                parts += _split(" ".join(lines))
                lines = [_MARKS.sub("", line)]
            elif lines or line.strip():
                lines.append(line.strip())
        parts += _split(" ".join(lines))
    return parts


def _split(text: str) -> list[str]:
    pieces = []
    start = 0
    for end in _END.finditer(text):
        before = text[max(start, end.start() - _BEFORE_END) : end.start()]
        upto = before + end[0].rstrip("\"'”’)]*_")
        if end[0] == "." and _ABBREVIATIONS.search(upto) and end.end() < len(text):
            continue
        pieces.append(text[start : end.end()].strip())
        start = end.end()
    pieces.append(text[start:].strip())
    return [piece for piece in pieces if WORD.search(piece)]


def kind_of(sentence: str) -> str:
    """declarative, interrogative or exclamatory, by the sign at the end."""
    bare = sentence.rstrip("\"'”’)]*_ ")
    if bare.endswith("?"):
        return "interrogative"
    if bare.endswith("!"):
        return "exclamatory"
    return "declarative"


def syllables(word: str) -> int:
    """How many syllables an English word has, by its vowel groups: right for most words, a guess for the rest."""
    plain = re.sub(r"[^a-z]", "", word.lower())
    count = len(_VOWELS.findall(plain))
    if (
        plain.endswith("e")
        and not plain.endswith(("le", "ee", "ye", "ie", "oe", "ue"))
        and count > 1
    ):
        count -= 1
    if plain.endswith("le") and len(plain) > 2 and plain[-3] in "aeiouy" and count > 1:
        count -= 1
    if re.search(r"[^aeiouydt]ed$", plain) and count > 1:
        count -= 1
    if re.search(r"[^aeiouysxzgc]es$", plain) and count > 1:
        count -= 1
    return max(count, 1)
