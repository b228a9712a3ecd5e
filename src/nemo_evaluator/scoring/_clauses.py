"""A response as clauses: cuts a stretch of text at punctuation and at words such as "but", "wait" and "because".

``clauses`` is the only entry. What a word does to the clause it stands in is a row of ``CUT_RULES``.
"""

import re
from collections.abc import Callable, Hashable, Mapping
from functools import lru_cache
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

from nemo_evaluator.scoring._patterns import pattern
from nemo_evaluator.scoring._vocabulary import SCAN, ClauseMark, is_opinion, mark_of

V = TypeVar("V", bound=Hashable)
V_co = TypeVar("V_co", bound=Hashable, covariant=True)


class NamedValues(NamedTuple, Generic[V_co]):
    """The values that a clause names, and where.

    Attributes:
        values: One value, or several that are joined ("A or B"): those are a hedge.
        start: Where the values begin in the clause.
        end: Where they end.
        bare: Whether the clause consists of nothing but the values.
    """

    values: tuple[V_co, ...]
    start: int
    end: int
    bare: bool = False


class Reader(Protocol[V_co]):
    """How a scorer finds its values: letters, numbers, formulas or phrases."""

    def read(self, clause: str, *, cued: bool) -> NamedValues[V_co] | None:
        """Find the values of a clause.

        Args:
            clause: The text of the clause.
            cued: Whether the clause follows an announcement. If not, only an assertion counts.

        Returns:
            The values, or None if the clause names none.
        """

    def weak(self, line: str) -> NamedValues[V_co] | None:
        """Find the value of a line that consists of that value alone."""


class MarkedWord(NamedTuple):
    """A word of a clause that changes whether the values of the clause count.

    Attributes:
        start: Where the word begins in the clause.
        end: Where it ends.
        kind: One bit of ClauseMark.
    """

    start: int
    end: int
    kind: int


class Clause(NamedTuple):
    """A stretch of text between two cuts.

    Attributes:
        text: The text, without the words at which it was cut.
        marks: The words in it that have a mark, in their order.
        opener: The marks of the word that opened it (BUT, CORRECT, SO, OR), or 0.
        edge: The punctuation that closed it; empty when a word did.
        first: Whether it opens its sentence.
    """

    text: str
    marks: tuple[MarkedWord, ...]
    opener: int
    edge: str
    first: bool

    def has(self, kinds: int) -> bool:
        """Return whether some word of the clause has one of these marks."""
        return any(mark.kind & kinds for mark in self.marks)


# Marks of words that open a new clause.
OPENERS: Final = ClauseMark.BUT | ClauseMark.CORRECT | ClauseMark.SO
# Marks by which a clause makes a value not count.
VOID: Final = (
    ClauseMark.NOT | ClauseMark.REJECT | ClauseMark.WRONG | ClauseMark.CONTRARY | ClauseMark.REFUSAL
)
BLANK: Final = " \t\n*_`\"'.:)(#>-$“"
COMMAS: Final = (",", "，", "、")
_SENTENCE_ENDS: Final = frozenset(".!?…。！？；;\n")
# Words for "but" that deny what stands before them.
_DENIES_BEFORE: Final = (
    "では",
    "でな",
    "じゃ",
    "değil",
    "नहीं",
    "가 아니",
    "이 아니",
    "아니",
    "아닙",
)
_UNREAL: Final = pattern("clauses.unreal")
# "It would be B if it rained" supposes nothing for the clauses that follow it.
_COMPLETE: Final = pattern("commitments.unreal")


@lru_cache(maxsize=16)
def clauses(text: str, start: int, end: int) -> tuple[Clause, ...]:
    """Cut a stretch of text into clauses.

    A reason (from "because" to the end of its sentence) is left out. The result is cached, because a stretch is often
    read several times in a row.

    Args:
        text: The text.
        start: Where the stretch begins.
        end: Where the stretch ends.

    Returns:
        The clauses, in the order of the text.
    """
    return _Cutter(text, start, end).cut()


class _Cutter:
    """Cuts one stretch: one method for each kind of word, and the clause that is open at the moment."""

    def __init__(self, text: str, start: int, end: int) -> None:
        self._text = text
        self._start = start
        self._end = end
        self._clauses: list[Clause] = []
        # The open clause: where it begins, its marks, its opener, whether it opens its sentence.
        self._begin = start
        self._marks: list[MarkedWord] = []
        self._opener = 0
        self._first = True
        self._in_reason = False

    def cut(self) -> tuple[Clause, ...]:
        """All clauses of the stretch."""
        text = self._text
        rules = _CUTS
        for match in SCAN.finditer(text, self._start, self._end):
            # A reason at the beginning ends at a comma: the words before it have been passed.
            if match.start() < self._begin:
                continue
            following = text[match.end() : match.end() + 2]
            kind = mark_of(match[0], following)
            rule = rules.get(kind)
            if rule is not None:
                rule(self, match, kind)
            elif kind is not None:
                self._add_mark(match, kind)
        if self._in_reason:
            self._clauses.append(Clause("", (), self._opener, edge="", first=self._first))
        else:
            self._close(self._end)
        return tuple(self._clauses)

    def _close(self, end: int, edge: str = "") -> None:
        """End the open clause."""
        text = self._text[self._begin : end]
        marks = tuple(self._marks)
        self._clauses.append(Clause(text, marks, self._opener, edge=edge, first=self._first))

    def _open(self, begin: int, opener: int, *, first: bool) -> None:
        """Begin a clause."""
        self._begin = begin
        self._marks = []
        self._opener = opener
        self._first = first

    def _is_empty(self, end: int) -> bool:
        return not self._text[self._begin : end].strip(BLANK)

    def at_punctuation(self, match: re.Match[str], kind: int | None) -> None:
        """End the clause at a full stop, comma, dash or arrow; a full stop also ends the sentence."""
        clause_end = match.start()
        ends_sentence = match[0][0] in _SENTENCE_ENDS
        carried = None if ends_sentence else self._opinion_before(clause_end)
        # "The correct choice, however, is C": a word between commas opens what follows.
        opener = self._opener if self._is_empty(clause_end) and not ends_sentence else 0
        if not self._in_reason:
            self._close(clause_end, edge=match[0])
        self._open(match.end(), opener, first=ends_sentence)
        if carried is not None:
            self._marks.append(carried)
        self._in_reason = self._in_reason and not ends_sentence

    def _opinion_before(self, at: int) -> MarkedWord | None:
        """ "One might think, the answer is B": the opinion word before the comma marks the next clause."""
        if not self._marks:
            return None
        last_mark = self._marks[-1]
        ends_here = self._begin + last_mark.end == at
        if not (last_mark.kind & ClauseMark.CONTRARY and ends_here):
            return None
        if not is_opinion(self._text[self._begin + last_mark.start : at]):
            return None
        return MarkedWord(0, 0, ClauseMark.CONTRARY)

    def at_reason(self, match: re.Match[str], kind: int | None) -> None:
        """Leave out what follows "because", up to the end of the sentence."""
        if self._in_reason:
            return
        clause_end = match.start()
        leads = self._first and self._is_empty(clause_end)
        self._close(clause_end)
        self._open(match.end(), 0, first=False)
        self._in_reason = True
        if leads:
            self._skip_leading_reason()

    def _skip_leading_reason(self) -> None:
        """ "Since 3 + 4 is 7, she has ...": a reason that opens its sentence ends at the comma."""
        comma = self._text.find(",", self._begin, self._end)
        if comma < 0:
            return
        if _SENTENCE_ENDS.isdisjoint(self._text[self._begin : comma]):
            self._in_reason = False
            self._begin = comma + 1

    def at_opener(self, match: re.Match[str], kind: int | None) -> None:
        """Begin a clause at "but", "wait" or "so". A "but" inside a reason belongs to the reason."""
        if self._in_reason and kind == ClauseMark.BUT:
            return
        clause_end = match.start()
        if match[0].lower() == "instead" and not self._is_empty(clause_end) and self._ends(match):
            # "I should choose C instead": the clause before is the correction.
            self._opener |= ClauseMark.CORRECT
            return
        if not self._in_reason:
            if match[0].startswith(_DENIES_BEFORE):
                length = clause_end - self._begin
                self._marks.append(MarkedWord(length, length, ClauseMark.WRONG))
            self._close(clause_end)
        self._open(match.end(), kind or 0, first=False)
        self._in_reason = False

    def _ends(self, match: re.Match[str]) -> bool:
        """Whether a sentence, or the stretch, ends behind a word."""
        following = self._text[match.end() : min(match.end() + 1, self._end)]
        return not following or following in _SENTENCE_ENDS or following == ","

    def _add_mark(self, match: re.Match[str], kind: int) -> None:
        """Note a word such as "not" or "perhaps" in the open clause; an "or" at its beginning opens it."""
        mark_start = match.start()
        opens = not self._marks and not self._text[self._begin : mark_start].strip(" (")
        if kind == ClauseMark.OR and opens:
            self._opener |= ClauseMark.OR
        self._marks.append(MarkedWord(mark_start - self._begin, match.end() - self._begin, kind))


class CutRule(NamedTuple):
    """Where a clause ends.

    Attributes:
        kinds: The marks of the words at which the rule cuts; None stands for punctuation.
        cut: The method that cuts.
        examples: Answers, each with the letter it picks.
    """

    kinds: tuple[int | None, ...]
    cut: Callable[[_Cutter, re.Match[str], int | None], None]
    examples: Mapping[str, str | None]


# Any other word with a mark belongs to its clause.
CUT_RULES: Final = {
    "punctuation": CutRule(
        (None,),
        _Cutter.at_punctuation,
        {
            "The answer is B. Not C.": "B",
            "One might think, the answer is C.": None,
            "I would, however, choose C.": "C",
        },
    ),
    "reason": CutRule(
        (ClauseMark.BECAUSE,),
        _Cutter.at_reason,
        {
            "The answer is B because C is wrong.": "B",
            "Since A is wrong, the answer is B.": "B",
        },
    ),
    "opener": CutRule(
        (ClauseMark.BUT, ClauseMark.CORRECT, ClauseMark.SO),
        _Cutter.at_opener,
        {
            "The answer is not B but C.": "C",
            "The answer is B, wait, C.": "C",
            "The answer is B. I should choose C instead.": "C",
            "A and B are wrong so the answer is C.": "C",
        },
    ),
}
_CUTS: Final = {kind: rule.cut for rule in CUT_RULES.values() for kind in rule.kinds}


def supposed(clause: Clause) -> int:
    """Determine how a clause affects those that follow it in its sentence.

    Returns:
        SOFT after a supposition ("If that holds, ..."), with CONTRARY if it is contrary to fact ("If it had rained,
        ..."), or 0.
    """
    if not clause.has(ClauseMark.SOFT | ClauseMark.CONTRARY):
        return 0
    if _COMPLETE.search(clause.text):
        return 0
    supposition = ClauseMark.SOFT if clause.has(ClauseMark.SOFT) else 0
    if _UNREAL.search(clause.text):
        supposition |= ClauseMark.CONTRARY
    return supposition
