"""Where a response says what its answer is: boxes, tags and phrases, the last one first."""

import re
from collections.abc import Callable, Iterator
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
    """Where a response announces its answer.

    Attributes:
        kind: Where the answer is in relation to the announcement.
        place: Where the announcement begins.
        start: Where the answer begins.
        end: Where the answer ends.
        after: Where the text continues behind announcement and answer.
    """

    kind: ClaimKind
    place: int
    start: int
    end: int
    after: int


_AFTER: Final = pattern("claims.after")
# The whole of a short answer: a plain announcement, or none, and the value behind it.
PLAINLY: Final = TEXTS["claims.plainly"]
_HEADING: Final = lazy_pattern(r"ans(?:wers?)?[*_`~ \t:)\]]*\n\s*", re.IGNORECASE)
_BARE: Final = lazy_pattern(r"ans(?:wers?)?[*_`~]*[ \t]+", re.IGNORECASE)
_LEAD: Final = pattern("claims.lead")
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
    # The last place of each needle that has not been looked at; a negative number when there is none.
    places = {needle: _last_place(lower, needle) for needle in _CLAIM_AT}
    for _ in range(_MOST):
        needle = max(places, key=places.__getitem__)
        place = places[needle]
        if place < 0:
            return
        claim = _CLAIM_AT[needle](text, lower, place)
        if claim is not None:
            yield claim
        places[needle] = lower.rfind(needle, 0, place)


def _last_place(lower: str, needle: str) -> int:
    """Where a needle occurs last; -1 if it does not, which ``in`` finds out much faster than ``rfind``."""
    if needle not in lower:
        return -1
    return lower.rfind(needle)


def lowered(text: str) -> str:
    """Lower the case of a text, with every character at its position."""
    lower = text.lower()
    if len(lower) == len(text):
        return lower
    # Some letters, such as İ, become two: those stay as they are.
    letters = []
    for letter in text:
        lowered_letter = letter.lower()
        is_one_letter = len(lowered_letter) == 1
        letters.append(lowered_letter if is_one_letter else letter)
    return "".join(letters)


def foreign_claims(text: str) -> Iterator[Claim]:
    """Yield the announcements in other languages, from the last to the first."""
    lower = lowered(text)
    announcing_words = _FOREIGN_ASCII if text.isascii() else _FOREIGN
    # Where each announcing word begins and ends; of two that begin together, the longer one.
    end_of_word: dict[int, int] = {}
    for announcing_word in announcing_words:
        # Most responses have none of these words.
        if announcing_word not in lower:
            continue
        for place in _last_places(lower, announcing_word):
            end = place + len(announcing_word)
            end_of_word[place] = max(end_of_word.get(place, 0), end)
    for place in sorted(end_of_word, reverse=True)[:_MOST]:
        start = end_of_word[place]
        separator = _FOREIGN_GAP.match(text, start)
        if separator is not None:
            start = separator.end()
        # A denial follows the word ("Die Antwort ist nicht ..."), so the clause counts from here.
        yield _line(text, start, start, kind=ClaimKind.AFTER)


def _last_places(lower: str, announcing_word: str) -> Iterator[int]:
    """Yield where a word begins, from the last to the first, without those places where it is the end of another one.

    In scripts without spaces between words, every place counts.
    """
    needs_boundary = announcing_word[0] < _WORD_SCRIPTS
    place = lower.rfind(announcing_word)
    for _ in range(_MOST):
        if place < 0:
            return
        follows_letter = place > 0 and lower[place - 1].isalpha()
        if not (needs_boundary and follows_letter):
            yield place
        place = lower.rfind(announcing_word, 0, place)


def _announced(text: str, lower: str, place: int) -> Claim | None:
    """The announcement around the word "answer": a tag, "B is the answer", "the answer is B", a heading.

    Args:
        text: The response.
        lower: The response in lower case.
        place: Where the word begins.
    """
    if lower.startswith("</", place - 2):
        return _tagged(lower, place)
    if lower.startswith("<answer>", place - 1):
        return _open_tag(text, lower, place)
    subject = _subject(text, lower, place)
    if subject is not None:
        return Claim(
            kind=ClaimKind.BEFORE,
            place=subject.start,
            start=subject.start,
            end=subject.end,
            after=place + len("answer"),
        )
    announcement = _AFTER.match(text, place) or _HEADING.match(text, place)
    if announcement is not None:
        start = announcement.end()
        lead_in = _LEAD.match(text, start)
        if lead_in is not None:
            start = lead_in.end()
        return _line(text, place, start, kind=ClaimKind.AFTER)
    bare_word = _BARE.match(text, place)
    if bare_word is not None:
        return _line(text, place, bare_word.end(), kind=ClaimKind.WEAK)
    return None


def _tagged(lower: str, place: int) -> Claim | None:
    """<answer>42</answer>: what is between the tags; None without an opening tag.

    Args:
        lower: The response in lower case.
        place: Where the word begins in the closing tag.
    """
    opening_tag = lower.rfind("<answer>", 0, place)
    if opening_tag < 0:
        return None
    return Claim(
        kind=ClaimKind.BOXED,
        place=opening_tag,
        start=opening_tag + len("<answer>"),
        end=place - len("</"),
        after=place + len("answer>"),
    )


def _open_tag(text: str, lower: str, place: int) -> Claim | None:
    """<answer>42: an opening tag that is never closed announces its line; None for one that is closed.

    Args:
        text: The response.
        lower: The response in lower case.
        place: Where the word begins in the opening tag.
    """
    if "</answer>" in lower[place:]:
        return None
    return _line(text, place, place + len("answer>"), kind=ClaimKind.AFTER)


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
# The letters before "answer" that are read as words, and those before the copula in which its subject begins.
_WORDS_WINDOW: Final = 48
_SUBJECT_WINDOW: Final = 160


class _Subject(NamedTuple):
    """Where the subject of "... is the answer" begins and ends."""

    start: int
    end: int


def _subject(text: str, lower: str, place: int) -> _Subject | None:
    """Find the subject of "... is the (final, correct) answer".

    Args:
        text: The response.
        lower: The response in lower case.
        place: Where the word "answer" begins.

    Returns:
        The subject; None when the words before do not form such a sentence.
    """
    window = lower[max(0, place - _WORDS_WINDOW) : place]
    copula = _copula(window.replace("*", " ").replace("_", " ").split())
    if copula is None:
        return None
    end = lower.rfind(f" {copula} ", 0, place)
    start = max(0, end - _SUBJECT_WINDOW)
    for match in _SENTENCE_START.finditer(text, start, end):
        start = match.end()
    if start >= end:
        return None
    return _Subject(start, end)


def _copula(words_before: list[str]) -> str | None:
    """The verb of "(subject) (thus) is (clearly) the (final) answer", read from the last word to the first.

    Args:
        words_before: The words before "answer".

    Returns:
        The verb; None when the words are others, or the subject is one such as "what" or "this".
    """
    remaining = list(words_before)
    _drop_last(remaining, _ADJECTIVES)
    if not remaining or remaining.pop() not in _ARTICLES:
        return None
    _drop_last(remaining, _ADVERBS)
    if not remaining or remaining[-1] not in _COPULAS:
        return None
    copula = remaining.pop()
    _drop_last(remaining, _ADVERBS)
    if not remaining:
        return None
    last_word_of_subject = remaining[-1].strip(",:")
    return None if last_word_of_subject in _NO_SUBJECTS else copula


def _drop_last(words: list[str], droppable: frozenset[str]) -> None:
    """Remove the words at the end of a list that are among ``droppable``."""
    while words and words[-1] in droppable:
        words.pop()


def _line(text: str, place: int, start: int, kind: ClaimKind) -> Claim:
    """An announcement whose answer is on its line.

    Args:
        text: The response.
        place: Where the announcement begins.
        start: Where the answer begins.
        kind: The kind of the announcement.
    """
    furthest_end = start + _LONGEST
    end = text.find("\n", start, furthest_end)
    if end < 0:
        end = min(len(text), furthest_end)
    return Claim(kind, place, start, end=end, after=end)


def _boxed(text: str, lower: str, place: int) -> Claim | None:
    """\\boxed{42}: the content of a box; None when it does not close."""
    start = place + len("boxed{")
    end = closing(text, start)
    if end is None:
        return None
    return Claim(ClaimKind.BOXED, place, start, end=end, after=end + 1)


def closing(text: str, start: int) -> int | None:
    """Return the position of the brace that closes the one before ``start``; None when it does not close."""
    depth = 1
    furthest_end = min(len(text), start + _LONGEST)
    for position in range(start, furthest_end):
        is_escaped = text[position - 1] == "\\"
        if is_escaped:
            continue
        if text[position] == "{":
            depth += 1
        elif text[position] == "}":
            depth -= 1
        if depth == 0:
            return position
    return None


def _hashed(text: str, lower: str, place: int) -> Claim | None:
    """#### 42 ends a worked solution; "#### Heading" is only a heading, so the claim is a weak one."""
    start = place + len("####")
    if text.startswith("#", start):
        return None
    return _line(text, place, start, kind=ClaimKind.WEAK)


# What reads an announcement, by the letters at which it is looked for.
_CLAIM_AT: Final[dict[str, Callable[[str, str, int], Claim | None]]] = {
    "answer": _announced,
    "boxed{": _boxed,
    "####": _hashed,
}
