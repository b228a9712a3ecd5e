"""Accepted answers in free text, masked first, so that no mark hides in them."""

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Final

from nemo_evaluator.core.lazy import lazy_pattern
from nemo_evaluator.scoring._claims import lowered
from nemo_evaluator.scoring._clauses import NamedValues
from nemo_evaluator.scoring._patterns import TEXTS, pattern
from nemo_evaluator.scoring._text import fold, normalise
from nemo_evaluator.scoring._vocabulary import mark_of

# A phrase becomes one letter of the private use area, which no mark and no word contains.
_FIRST: Final = 0xE000
_MANY: Final = "\uf8fe"
OTHER: Final = -1
_MOST_PHRASES: Final = 400
_LONG_CLAUSE: Final = 24
# A letter of a script that parts its words.
_LETTER: Final = "[^\\W_\u0e00-\u0e7f\u3000-\u9fff\uac00-\ud7af]"
_PARTS: Final = lazy_pattern(r"[^\W_]+")
_ARTICLE: Final = lazy_pattern(r"(?:the|an?)\s+(?=\S)", re.IGNORECASE)
_JOINT: Final = r"(?:/|&|\b(?:or|possibly|perhaps|maybe|and|oder|und|ou|et|o|y|или|и|versus|vs)\b|或者?|和|または|か)"
_LEAD: Final = r"(?:(?:maybe|perhaps|possibly|even|probably|the|an?|by|in|at)\s+)*"
_NO_RIVAL: Final = TEXTS["mention.no_rival"]
_ASSERTED: Final = pattern("mention.asserted")
_SUBJECT: Final = pattern("mention.subject")
_FILLER: Final = pattern("mention.filler")
_PLAINLY_SO: Final = pattern("mention.plainly_so")
_MAYBE: Final = lazy_pattern(r"\W*(?:maybe|perhaps|possibly|or)\s+\S", re.IGNORECASE)
_WITHIN: Final = lazy_pattern(rf"{_LETTER}|[$€£-]")
_WITHIN_AFTER: Final = lazy_pattern(rf"{_LETTER}|[.,]\d")
_NAME: Final = lazy_pattern(r"(?<![.!?]\s)(?<!\A)(?<![\w'’])[A-Z][\w'’.-]+")


@lru_cache(maxsize=4096)
def _plainly(phrase: str) -> str:
    """A phrase in the form in which it is searched: folded, in lower case, without its article."""
    plain_phrase = " ".join(fold(phrase).casefold().split()).strip(" .\"'")
    article = _ARTICLE.match(plain_phrase)
    if article:
        return plain_phrase[article.end() :]
    return plain_phrase


@lru_cache(maxsize=256)
def _pattern(phrase: str) -> re.Pattern[str] | None:
    """Build the expression for a phrase, whatever signs separate its words."""
    plain_phrase = fold(phrase)
    article = _ARTICLE.match(plain_phrase)
    if article:
        plain_phrase = plain_phrase[article.end() :]
    parts = list(_PARTS.finditer(plain_phrase))
    if not parts:
        return None
    expression = re.escape(parts[0][0])
    for part, following_part in pairwise(parts):
        separator = plain_phrase[part.end() : following_part.start()]
        is_blank = separator.isspace() or len(separator) > 1
        expression += r"[\W_]{1,4}" if is_blank else r"[\W_]{0,2}"
        expression += re.escape(following_part[0])
    if parts[0][0][0] < "\u3000":
        expression = rf"(?<!{_LETTER})(?<![$€£-])(?:{expression})(?!{_LETTER}|[.,]\d)"
    return re.compile(expression, re.IGNORECASE)


def _masked_phrase(text: str, phrase: str, token: str) -> str:
    """The text with a phrase replaced by one letter, where it is whole words."""
    lower = lowered(text)
    start = lower.find(phrase)
    while start >= 0:
        end = start + len(phrase)
        begins_in_word = _WITHIN.match(lower[max(0, start - 1) : start])
        if not begins_in_word and not _WITHIN_AFTER.match(lower, end):
            text = f"{text[:start]}{token}{text[end:]}"
            lower = f"{lower[:start]}{token}{lower[end:]}"
        start = lower.find(phrase, start + 1)
    return text


class Mentions:
    """Finds known phrases in clauses, or OTHER for a claim to something else (see Reader).

    Attributes:
        strict: Whether only "it was ..." asserts a phrase, because the text has other names.
    """

    def __init__(self, phrases: Sequence[str], *, question: str = "") -> None:
        self.strict = False
        self._phrases = tuple(phrases[:_MOST_PHRASES])
        self._question = fold(question)
        self._names = any(sign.isupper() for phrase in phrases for sign in phrase)

    def masked(self, text: str) -> str:
        """Mask a text: every phrase becomes one letter, a list of candidates with a phrase another letter."""
        text = fold(text)
        lower = lowered(text)
        normalised_text = ""
        # The longest phrase first, since it may contain another one.
        for number, phrase in sorted(enumerate(self._phrases), key=lambda pair: -len(pair[1])):
            token = chr(_FIRST + number)
            plain_phrase = _plainly(phrase)
            if plain_phrase and plain_phrase in lower:
                masked_text = _masked_phrase(text, plain_phrase, token)
                if masked_text != text:
                    text = masked_text
                    lower = lowered(text)
                    continue
            # Spelled with other signs between its words.
            normalised_text = normalised_text or f" {normalise(text)} "
            if f" {normalise(phrase)} " in normalised_text:
                spelling = _pattern(phrase)
                if spelling is not None:
                    text = spelling.sub(token, text)
                    lower = lowered(text)
        if "," in text:
            return _LISTS[self._names].sub(_many, text)
        return text

    def read(self, clause: str, *, cued: bool) -> NamedValues[int] | None:
        """Find the phrase that a clause names.

        Returns:
            The phrase, or ``OTHER``, or both if the clause may mean either; None if the clause names nothing.
        """
        if _MANY in clause:
            return NamedValues((OTHER, 0), 0, len(clause))
        mention = _KNOWN.search(clause)
        if mention is None:
            return self._another(clause, cued)
        start, end = mention.span()
        if self.strict and not cued:
            is_asserted = _PLAINLY_SO.search(clause, 0, start) is not None
            if not is_asserted or self.rival_names(clause[:start]):
                return None
        if self._has_rival(clause, start, end, cued=cued):
            return NamedValues((0, OTHER), start, end)
        is_bare = not _PARTS.search(_KNOWN.sub("", clause))
        return NamedValues((0,), start, end, bare=is_bare)

    def _has_rival(self, clause: str, start: int, end: int, *, cued: bool) -> bool:
        """Whether a clause names something else besides the phrase at [start, end)."""
        if _in_parentheses(clause, start):
            return True
        # Joined to something else by "or", "and" or a slash.
        if _JOINED_AFTER.match(clause, end) or _JOINED_BEFORE.search(clause, 0, start):
            return True
        if _ASSERTED.search(clause, 0, start) is not None:
            return False
        if cued and not self.rival_names(clause[:start]):
            return False
        return self.rival_names(clause)

    def weak(self, line: str) -> NamedValues[int] | None:
        """Return the phrase of a line that consists of phrases alone; None for any other line."""
        if _PARTS.search(_KNOWN.sub("", line)):
            return None
        return self.read(line, cued=True)

    def opens(self, text: str) -> bool:
        """Whether a masked text begins with a phrase."""
        return _KNOWN.match(text.lstrip(" *_`\"'“‘:>#(-\n\t$")[:1]) is not None

    def _another(self, clause: str, cued: bool) -> NamedValues[int] | None:
        """Return OTHER when a clause claims something that is not a known phrase, else None."""
        makes_claim = cued or _SUBJECT.search(clause) or _MAYBE.match(clause)
        if not makes_claim or _FILLER.fullmatch(clause) or not _PARTS.search(clause):
            return None
        # Its place is not known: every mark of the clause is before it.
        return NamedValues((OTHER,), len(clause), len(clause))

    def rival_names(self, text: str, whole: int = 0) -> bool:
        """Whether a clause (of a text of ``whole`` letters) names something that the question does not."""
        if not self._names and max(len(text), whole) <= _LONG_CLAUSE:
            return False
        return any(name[0] not in self._question for name in _NAME.finditer(text.strip()))


def _in_parentheses(clause: str, start: int) -> bool:
    """Whether a phrase follows something else in parentheses: "Rome (the capital of ...)"."""
    bracket = max(0, clause.rfind("(", 0, start))
    return _PARTS.search(clause, 0, bracket) is not None and ")" not in clause[:start]


_KNOWN: Final = lazy_pattern("[\ue000-\uf8fd]")
_ITEM: Final = "(?:the[ ])?(?:[\ue000-\uf8fd]|[A-Z][\\w'’.-]*(?:[ ](?:of[ ])?[A-Z][\\w'’.-]*){0,3})"
_WORD_ITEM: Final = "(?:the[ ])?(?:[\ue000-\uf8fd]|[^\\W\\d_]+(?:[ ][^\\W\\d_]+){0,2})"
_LISTS: Final = {
    names: re.compile(
        rf"(?<![\w,])(?:{item},[ ]){{1,12}}(?:{item}(?:,[ ](?:and|or)|[ ](?:and|or))|{item},)[ ]{item}(?=\W*(?:\n|\Z))"
    )
    for names, item in ((True, _ITEM), (False, _WORD_ITEM))
}
_JOINED_AFTER: Final = lazy_pattern(
    rf"[\s*\"'”).]*\(?\s*{_JOINT}\s*{_LEAD}{_NO_RIVAL}[^\W_]", re.IGNORECASE
)
_JOINED_BEFORE: Final = lazy_pattern(
    rf"[^\W_][\s*\"'”)(]*{_JOINT}\s*{_LEAD}[\s*\"'“(]*\Z", re.IGNORECASE
)


def _many(match: re.Match[str]) -> str:
    """Mask a list of candidates that has a phrase; what only looks like a list ("wait, no, Paris") stays."""
    has_phrase = _KNOWN.search(match[0]) is not None
    if has_phrase and all(mark_of(item.strip(), "") is None for item in match[0].split(",")):
        return _MANY
    return match[0]
