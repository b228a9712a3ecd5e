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
    """A phrase as it is looked for: folded, in lower case, without its article."""
    plain = " ".join(fold(phrase).casefold().split()).strip(" .\"'")
    article = _ARTICLE.match(plain)
    if article:
        return plain[article.end() :]
    return plain


@lru_cache(maxsize=256)
def _pattern(phrase: str) -> re.Pattern[str] | None:
    """A phrase however its words are parted."""
    plain = fold(phrase)
    article = _ARTICLE.match(plain)
    if article:
        plain = plain[article.end() :]
    else:
        plain = plain
    parts = list(_PARTS.finditer(plain))
    if not parts:
        return None
    spelled = re.escape(parts[0][0])
    for left, right in pairwise(parts):
        gap = plain[left.end() : right.start()]
        spelled += (r"[\W_]{1,4}" if gap.isspace() or len(gap) > 1 else r"[\W_]{0,2}") + re.escape(
            right[0]
        )
    if parts[0][0][0] < "\u3000":
        spelled = rf"(?<!{_LETTER})(?<![$€£-])(?:{spelled})(?!{_LETTER}|[.,]\d)"
    return re.compile(spelled, re.IGNORECASE)


class Mentions:
    """Reads the numbers of known phrases, or OTHER for a claim to something else (see Reader)."""

    def __init__(self, phrases: Sequence[str], *, question: str = "") -> None:
        self.strict = False  # only "it was ..." asserts: other names stand around
        self._phrases = tuple(phrases[:_MOST_PHRASES])
        self._question = fold(question)
        self._names = any(sign.isupper() for phrase in phrases for sign in phrase)

    def masked(self, text: str) -> str:
        """The text with every phrase as one letter, and lists that hold one as such."""
        text = fold(text)
        said = ""
        for number, phrase in sorted(enumerate(self._phrases), key=lambda pair: -len(pair[1])):
            lower = lowered(text)
            plain = _plainly(phrase)
            token = chr(_FIRST + number)
            if plain:
                at = lower.find(plain)
            else:
                at = -1
            hidden = False
            while at >= 0:
                end = at + len(plain)
                if not _WITHIN.match(lower[max(0, at - 1) : at]) and not _WITHIN_AFTER.match(
                    lower, end
                ):
                    text = f"{text[:at]}{token}{text[end:]}"
                    lower = f"{lower[:at]}{token}{lower[end:]}"
                    hidden = True
                at = lower.find(plain, at + 1)
            if hidden:
                continue
            # Spelled with other signs between its words.
            said = said or f" {normalise(text)} "
            if f" {normalise(phrase)} " in said and (pattern := _pattern(phrase)):
                text = pattern.sub(token, text)
        if "," in text:
            return _LISTS[self._names].sub(_many, text)
        return text

    def read(self, clause: str, *, cued: bool) -> NamedValues[int] | None:
        if _MANY in clause:
            return NamedValues((OTHER, 0), 0, len(clause))
        known = list(_KNOWN.finditer(clause))
        if not known:
            return self._another(clause, cued)
        first = known[0]
        values = dict.fromkeys(ord(match[0]) - _FIRST for match in known)
        start = first.start()
        end = first.end()
        if len(values) > 1:
            values = dict.fromkeys((0,))  # several spellings of one answer
        if (
            self.strict
            and not cued
            and (not _PLAINLY_SO.search(clause, 0, start) or self.rival_names(clause[:start]))
        ):
            return None
        if (
            _PARTS.search(clause, 0, max(0, clause.rfind("(", 0, start)))
            and ")" not in clause[:start]
        ):
            return NamedValues((0, OTHER), start, end)  # only in parentheses behind something else
        # Joined to something else by "or", "and" or a slash.
        rivals = _JOINED_AFTER.match(clause, end) or _JOINED_BEFORE.search(clause, 0, start)
        asserted = _ASSERTED.search(clause, 0, start) is not None or (
            cued and not self.rival_names(clause[:start])
        )
        if rivals or (not asserted and self.rival_names(clause)):
            return NamedValues((0, OTHER), start, end)
        return NamedValues((0,), start, end, bare=not _PARTS.search(_KNOWN.sub("", clause)))

    def weak(self, line: str) -> NamedValues[int] | None:
        if _PARTS.search(_KNOWN.sub("", line)):
            return None
        return self.read(line, cued=True)

    def opens(self, text: str) -> bool:
        """Whether a masked text begins with a phrase."""
        return _KNOWN.match(text.lstrip(" *_`\"'“‘:>#(-\n\t$")[:1]) is not None

    def _another(self, clause: str, cued: bool) -> NamedValues[int] | None:
        if not (cued or _SUBJECT.search(clause) or _MAYBE.match(clause)) or _FILLER.fullmatch(
            clause
        ):
            return None
        # Whatever it is, every mark of the clause speaks of it.
        if _PARTS.search(clause):
            return NamedValues((OTHER,), len(clause), len(clause))
        return None

    def rival_names(self, text: str, whole: int = 0) -> bool:
        """Whether a clause (of a text of ``whole`` letters) names something that the question does not."""
        if not self._names and max(len(text), whole) <= _LONG_CLAUSE:
            return False
        return any(name[0] not in self._question for name in _NAME.finditer(text.strip()))


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
    """A list of candidates that holds a phrase; what only looks like a list ("wait, no, Paris") stays."""
    known = _KNOWN.search(match[0]) is not None
    if known and all(mark_of(item.strip(), "") is None for item in match[0].split(",")):
        return _MANY
    return match[0]
