"""Where a response says what its answer is: boxes, tags and phrases, the last one first."""

import re
from collections.abc import Iterator
from enum import IntEnum
from typing import Final, NamedTuple

from nemo_evaluator.core.lazy import lazy_pattern
from nemo_evaluator.scoring._patterns import TEXTS, pattern, words


class ClaimKind(IntEnum):
    """Where the answer is in relation to the words that announce it."""

    BOXED = 0  # \boxed{42}, <answer>42</answer>: the answer and nothing else
    AFTER = 1  # The answer is 42 ..., Answer: 42
    BEFORE = 2  # ... 42 is the answer
    WEAK = 3  # Answer 42: counts only when nothing else stands on the line


class Claim(NamedTuple):
    """Where a response announces its answer: the announcement begins at ``place``; the answer is in [start, end)."""

    kind: ClaimKind
    place: int
    start: int
    end: int
    after: int  # where the text goes on


_AFTER: Final = pattern("claims.after")
# The whole of a short answer: a plain announcement, or none, and the value behind it.
PLAINLY: Final = TEXTS["claims.plainly"]
_HEADING: Final = lazy_pattern(r"ans(?:wers?)?[*_`~ \t:)\]]*\n\s*", re.IGNORECASE)
_BARE: Final = lazy_pattern(r"ans(?:wers?)?[*_`~]*[ \t]+", re.IGNORECASE)
_LEAD: Final = pattern("claims.lead")
_NEEDLES: Final = ("answer", "boxed{", "####")
# Bounds that no honest answer reaches and that keep a hostile one from costing more than its length.
_MOST: Final = 50
_LONGEST: Final = 4000
# The word for "answer" elsewhere; looked for only when no English claim could be read.
_FOREIGN: Final = words("claims.foreign")
_FOREIGN_ASCII: Final = tuple(word for word in _FOREIGN if word.isascii())
_WORD_SCRIPTS: Final = (
    "\u0600"  # scripts below this one part words with spaces, so a needle must begin one
)
_FOREIGN_GAP: Final = pattern("claims.foreign_gap")


def claims(text: str) -> Iterator[Claim]:
    """Yield the announcements of an answer in a response, from the last to the first."""
    lower = lowered(text)
    places = [lower.rfind(needle) if needle in lower else -1 for needle in _NEEDLES]
    for _ in range(_MOST):
        place = max(places)
        if place < 0:
            return
        needle = places.index(place)
        claim = _CLAIM_AT[needle](text, lower, place)
        if claim is not None:
            yield claim
        places[needle] = lower.rfind(_NEEDLES[needle], 0, place)


def lowered(text: str) -> str:
    """Lower the case of a text, with every character at its position."""
    lower = text.lower()
    if len(lower) == len(text):
        return lower
    # Some letters, such as İ, become two: those stay as they are.
    letters = []
    for letter in text:
        lowered_letter = letter.lower()
        letters.append(lowered_letter if len(lowered_letter) == 1 else letter)
    return "".join(letters)


def foreign_claims(text: str) -> Iterator[Claim]:
    """Yield the announcements in other languages, from the last to the first."""
    lower = lowered(text)
    places: dict[int, int] = {}
    for announcing_word in _FOREIGN_ASCII if text.isascii() else _FOREIGN:
        if announcing_word not in lower:
            continue
        place = lower.rfind(announcing_word)
        for _ in range(_MOST):
            if place < 0:
                break
            if not (announcing_word[0] < _WORD_SCRIPTS and place and lower[place - 1].isalpha()):
                places[place] = max(places.get(place, 0), place + len(announcing_word))
            place = lower.rfind(announcing_word, 0, place)
    for place in sorted(places, reverse=True)[:_MOST]:
        separator = _FOREIGN_GAP.match(text, places[place])
        start = separator.end() if separator else places[place]
        # A denial follows the word ("Die Antwort ist nicht ..."), so the clause counts from here.
        yield _line(text, start, start, kind=ClaimKind.AFTER)


def _announced(text: str, lower: str, place: int) -> Claim | None:
    """The announcement around the word "answer": a tag, "B is the answer", "the answer is B", a heading."""
    if lower.startswith("</", place - 2):
        start = lower.rfind("<answer>", 0, place)
        if start >= 0:
            return Claim(ClaimKind.BOXED, start, start + 8, end=place - 2, after=place + 7)
        return None
    if lower.startswith("<answer>", place - 1):
        if "</answer>" not in lower[place:]:
            return _line(text, place, place + 7, kind=ClaimKind.AFTER)
        return None
    subject_span = _before(text, lower, place)
    if subject_span is not None:
        return Claim(ClaimKind.BEFORE, subject_span[0], *subject_span, place + 6)
    announcement = _AFTER.match(text, place) or _HEADING.match(text, place)
    if announcement is not None:
        lead_in = _LEAD.match(text, announcement.end())
        return _line(
            text, place, lead_in.end() if lead_in else announcement.end(), kind=ClaimKind.AFTER
        )
    bare_word = _BARE.match(text, place)
    if bare_word:
        return _line(text, place, bare_word.end(), kind=ClaimKind.WEAK)
    return None


_ARTICLES: Final = frozenset(("the", "our", "my", "your"))
_ADJECTIVES: Final = frozenset(
    ("final", "correct", "right", "best", "only", "desired", "required", "likely", "most")
)
_COPULAS: Final = frozenset(("is", "was", "be", "are"))
_ADVERBS: Final = frozenset(
    ("thus", "therefore", "hence", "indeed", "clearly", "must", "should", "would")
)
_NO_SUBJECTS: Final = frozenset(
    ("what", "which", "this", "that", "it", "here", "there", "below", "above", "following", "so")
)
_SENTENCE_START: Final = lazy_pattern(r"(?:[.!?:]\s|\n)")
_WINDOW: Final = 160


def _before(text: str, lower: str, place: int) -> tuple[int, int] | None:
    """Find the subject of "... is the (final, correct) answer".

    Returns:
        Where it begins and ends; None when the words before do not form such a sentence.
    """
    words = lower[max(0, place - 48) : place].replace("*", " ").replace("_", " ").split()
    while words and words[-1] in _ADJECTIVES:
        words.pop()
    if not words or words.pop() not in _ARTICLES:
        return None
    while words and words[-1] in _ADVERBS:
        words.pop()
    if not words or words[-1] not in _COPULAS:
        return None
    copula = words.pop()
    while words and words[-1] in _ADVERBS:
        words.pop()
    if not words or words[-1].strip(",:") in _NO_SUBJECTS:
        return None
    end = lower.rfind(f" {copula} ", 0, place)
    start = max(0, end - _WINDOW)
    for match in _SENTENCE_START.finditer(text, start, end):
        start = match.end()
    return (start, end) if start < end else None


def _line(text: str, place: int, start: int, kind: ClaimKind) -> Claim:
    """An announcement whose answer is on its line."""
    end = text.find("\n", start, start + _LONGEST)
    if end < 0:
        end = min(len(text), start + _LONGEST)
    return Claim(kind, place, start, end=end, after=end)


def _boxed(text: str, lower: str, place: int) -> Claim | None:
    start = place + len("boxed{")
    end = closing(text, start)
    if end is None:
        return None
    return Claim(ClaimKind.BOXED, place, start, end=end, after=end + 1)


def closing(text: str, start: int) -> int | None:
    """Return the position of the brace that closes the one before ``start``; None when it does not close."""
    depth = 1
    for position in range(start, min(len(text), start + _LONGEST)):
        if text[position - 1] == "\\":
            continue
        depth += (text[position] == "{") - (text[position] == "}")
        if depth == 0:
            return position
    return None


def _hashed(text: str, lower: str, place: int) -> Claim | None:
    # "#### 42" ends a worked solution; "#### Heading" is only a heading, so a number must follow.
    if not text.startswith("#", place + 4):
        return _line(text, place, place + 4, kind=ClaimKind.WEAK)
    return None


# What reads the announcement at each of _NEEDLES.
_CLAIM_AT: Final = (_announced, _boxed, _hashed)
