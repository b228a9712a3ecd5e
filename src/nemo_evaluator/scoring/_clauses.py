"""A response as clauses: which values it claims, denies, doubts or takes back, and what remains in the end. Scorers
bring a reader that finds values of their kind in a clause; everything else about a claim is decided here."""

import re
from collections.abc import Hashable, Iterator
from functools import lru_cache
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

from nemo_evaluator.core.lazy import lazy_pattern
from nemo_evaluator.scoring._patterns import pattern
from nemo_evaluator.scoring._vocabulary import SCAN, ClauseMark, is_opinion, mark_of

V = TypeVar("V", bound=Hashable)
V_co = TypeVar("V_co", bound=Hashable, covariant=True)


class Said(NamedTuple, Generic[V_co]):
    """The values that a clause names in one breath (two are a hedge), where, and whether it says nothing else."""

    values: tuple[V_co, ...]
    start: int
    end: int
    bare: bool = False


class Reader(Protocol[V_co]):
    """How a scorer finds its values."""

    # The values of a clause: after an announcement (``cued``), else only if the clause itself asserts them.
    def read(self, clause: str, *, cued: bool) -> Said[V_co] | None: ...

    # The value of a line that announces one only if nothing else stands on it.
    def weak(self, line: str) -> Said[V_co] | None: ...


class Clause(NamedTuple):
    """A stretch between two edges, the marks in it, what opened it and what closed it."""

    text: str
    marks: tuple[tuple[int, int, int], ...]
    opener: int
    edge: str
    first: bool  # of its sentence

    def has(self, mark: int) -> bool:
        """Whether some word of the clause has one of these marks."""
        return any(one & mark for _, _, one in self.marks)


_HARD: Final = frozenset(".!?…。！？；;\n")
_BOUNDARY: Final = ClauseMark.BUT | ClauseMark.CORRECT | ClauseMark.SO
VOID: Final = (
    ClauseMark.NOT | ClauseMark.REJECT | ClauseMark.WRONG | ClauseMark.CONTRARY | ClauseMark.REFUSAL
)
_BACK: Final = ClauseMark.NOT | ClauseMark.WRONG | ClauseMark.CONTRARY | ClauseMark.REFUSAL
BLANK: Final = " \t\n*_`\"'.:)(#>-$“"
# What may follow "B is not": anything else would be said of something else.
_COMPLEMENTS: Final = (
    "",
    "correct",
    "right",
    "true",
    "it",
    "the answer",
    "the one",
    "so",
    "fit",
    "work",
    "possible",
)
_COMMAS: Final = (",", "，", "、")
_ARROWS: Final = ("->", "=>", "→")
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
# "If it had rained, the answer would be B" says that it is not.
_WERE_IT_SO: Final = lazy_pattern(r"\bwould\b.*\bif\b", re.IGNORECASE | re.DOTALL)
_UNREAL: Final = pattern("clauses.unreal")
# What may stand between a value and a word that denies it: "B is (clearly) wrong", not "B) Nothing is wrong".
_PREDICATE: Final = pattern("clauses.predicate")
_ANAPHOR: Final = pattern("clauses.anaphor")


@lru_cache(maxsize=16)
def clauses(text: str, start: int, end: int) -> tuple[Clause, ...]:
    """The clauses of a stretch; reasons (from "because" to the end of the sentence) are left out. A stretch is often
    read several times in a row."""
    return tuple(_cut(text, start, end))


def _cut(text: str, start: int, end: int) -> Iterator[Clause]:
    begin = start
    opener = 0
    first = True
    reasons = False
    marks: list[tuple[int, int, int]] = []
    for match in SCAN.finditer(text, start, end):
        word = match[0]
        at = match.start()
        mark = mark_of(word, text[match.end() : match.end() + 2])
        if at < begin:
            continue
        if mark is None:
            hard = word[0] in _HARD
            if not reasons:
                yield Clause(text[begin:at], tuple(marks), opener, edge=word, first=first)
            # "One might think, the answer is ...": what ends on such a word speaks of the next clause.
            if marks and marks[-1][2] & ClauseMark.CONTRARY and begin + marks[-1][1] == at:
                last: tuple[int, int, int] | None = marks[-1]
            else:
                last = None
            if last and is_opinion(text[begin + last[0] : at]):
                carried = [(0, 0, ClauseMark.CONTRARY)]
            else:
                carried = []
            # "The correct choice, however, is C": a word between commas opens what follows.
            if hard or text[begin:at].strip(BLANK):
                opener = 0
            else:
                opener = opener
            begin = match.end()
            marks = [] if hard else carried
            first = hard
            reasons = reasons and not hard
        elif mark == ClauseMark.BECAUSE:
            if reasons:
                continue
            yield Clause(text[begin:at], tuple(marks), opener, edge="", first=first)
            led = first and not text[begin:at].strip(BLANK)
            begin = match.end()
            marks = []
            opener = 0
            first = False
            # "Since 3 + 4 is 7, she has ..." gives its reason first, up to the comma.
            if led:
                stop = text.find(",", begin, end)
            else:
                stop = -1
            reasons = stop < 0 or not _HARD.isdisjoint(text[begin:stop])
            begin = begin if reasons else stop + 1
        elif mark & _BOUNDARY:
            if reasons and mark == ClauseMark.BUT:
                continue
            if not reasons:
                denied = (
                    ((at - begin, at - begin, ClauseMark.WRONG),)
                    if word.startswith(_DENIES_BEFORE)
                    else ()
                )
                yield Clause(text[begin:at], (*marks, *denied), opener, edge="", first=first)
            begin = match.end()
            marks = []
            opener = mark
            first = False
            reasons = False
        else:
            if mark == ClauseMark.OR and not marks and not text[begin:at].strip(" ("):
                opener |= ClauseMark.OR
            marks.append((at - begin, match.end() - begin, mark))
    yield Clause(
        "" if reasons else text[begin:end],
        () if reasons else tuple(marks),
        opener,
        edge="",
        first=first,
    )


def supposed(clause: Clause) -> int:
    """What a clause makes of those that follow it in its sentence: a supposition, or one that is contrary to fact."""
    if not clause.has(ClauseMark.SOFT | ClauseMark.CONTRARY):
        return 0
    return (ClauseMark.SOFT if clause.has(ClauseMark.SOFT) else 0) | (
        ClauseMark.CONTRARY if _UNREAL.search(clause.text) else 0
    )


def _stance(clause: Clause, said: Said[V]) -> int:
    """NOT when the clause denies the value, CONTRARY when it is not the speaker's word, SOFT, or nothing."""
    stance = 0
    for at, end, mark in clause.marks:
        if at >= said.end:
            applies = (
                bool(mark & _BACK) and _PREDICATE.fullmatch(clause.text, said.end, at) is not None
            )
            if mark == ClauseMark.NOT and applies:
                applies = clause.text[end:].strip(" .,!*)") in _COMPLEMENTS
        else:
            applies = end <= said.start or mark == ClauseMark.SOFT or at < said.start < end
        if applies and mark & (ClauseMark.NOT | ClauseMark.REJECT | ClauseMark.WRONG):
            stance |= ClauseMark.NOT
        elif applies and mark & (ClauseMark.CONTRARY | ClauseMark.REFUSAL):
            stance |= ClauseMark.CONTRARY
        elif applies and mark & (ClauseMark.SOFT | ClauseMark.OR):
            stance |= mark
    return stance


class Commitments(Generic[V]):
    """What a response has committed to so far. ``free``: nothing was announced, so each assertion replaces the last."""

    def __init__(self, reader: Reader[V], *, free: bool = False) -> None:
        self.values: tuple[V, ...] = ()
        self.soft = False
        self.retracted = False  # a commitment was taken back and none took its place
        self.reader = reader
        self._free = free
        self._pending = False  # a correction has begun
        self._correcting = False  # in this sentence
        self._supposing = 0  # SOFT when this sentence began with "if"
        self._joined = False  # only a comma since the last commitment
        self._void = False  # only a comma since a value that does not count
        self._denied: bool | None = (
            None  # a value was denied, True when announced: "the answer is not B but A"
        )

    def hear(self, text: str, start: int, end: int, *, cued: bool, prefix: int = 0) -> None:
        """Go through a stretch; ``cued``: it follows an announcement, in whose sentence ``prefix`` stood before."""
        for clause in clauses(text, start, end):
            if clause.first:
                self._correcting = False
                self._supposing = 0
            if clause.opener & ClauseMark.CORRECT:
                self._pending = self._correcting = True
            if clause.text.strip(BLANK):
                cued = self._clause(clause, cued, prefix)
            self._supposing |= supposed(clause)
            if clause.edge in _ARROWS:
                self._pending = self._correcting = True

    def _clause(self, clause: Clause, cued: bool, prefix: int) -> bool:
        adds = self.values and clause.opener & ClauseMark.OR
        denied = self._denied is not None and (self._denied or bool(clause.opener & ClauseMark.BUT))
        taken_up = bool(adds) or self._correcting or (denied and not self.values)
        said = self.reader.read(clause.text, cued=cued or taken_up)
        if said is None and clause.has(ClauseMark.REJECT):
            # "A (and not B)"
            rejected = next(at for at, _, mark in clause.marks if mark & ClauseMark.REJECT)
            said = self.reader.read(clause.text[:rejected], cued=cued or taken_up)
        if said is None:
            self._take_back(clause)
            self._void = clause.has(VOID) and clause.edge[:1] in _COMMAS
            return cued and (
                clause.edge[:1] == "\n" or (clause.edge[:1] in _COMMAS and not clause.has(VOID))
            )
        stance = _stance(clause, said) | self._supposing | (prefix if cued else 0)
        if clause.edge[:1] in ("?", "？") or _WERE_IT_SO.search(clause.text, said.end):
            stance |= ClauseMark.CONTRARY
        before = next(
            (at for at, _, mark in clause.marks if mark & (ClauseMark.NOT | ClauseMark.REJECT)), 0
        )
        if stance & ClauseMark.NOT and 0 < before <= said.start and not (prefix & VOID and cued):
            # "It is A rather than B": what stands before the denial is meant.
            kept = self.reader.read(clause.text[:before], cued=False)
            if kept is not None:
                said = kept
                stance = self._supposing
        if self._void and said.bare and not clause.opener & _BOUNDARY:
            stance |= ClauseMark.CONTRARY
        self._void = bool(stance & VOID) and clause.edge[:1] in _COMMAS
        if stance & VOID:
            if (
                stance & (ClauseMark.NOT | ClauseMark.WRONG)
                and self.values
                and set(said.values) >= set(self.values)
            ):
                self.values = ()
                self.retracted = True
            self._take_back(clause)
            self._denied = self._denied or cued
        elif self._counts(clause, said, stance, cued=cued or taken_up):
            if self._adds(clause, said, stance):
                self.values = tuple(dict.fromkeys((*self.values, *said.values)))
            else:
                self.values = said.values
                self.soft = bool(stance & ClauseMark.SOFT)
            self._pending = self.retracted = False
            self._joined = clause.edge[:1] in (*_COMMAS, ";", "；")
            return False
        self._joined = False
        return False

    def _counts(self, clause: Clause, said: Said[V], stance: int, cued: bool) -> bool:
        if cued or self._adds(clause, said, stance) or self._pending:
            return True
        if self.values and not self._free:
            return False
        return not said.bare or self._free or bool(clause.opener & (ClauseMark.BUT | ClauseMark.SO))

    def _adds(self, clause: Clause, said: Said[V], stance: int) -> bool:
        """Whether the clause names a further value in the same breath."""
        if not self.values or self._correcting:
            return False
        return bool((clause.opener | stance) & (ClauseMark.OR | ClauseMark.SOFT)) or (
            self._joined and said.bare
        )

    def _take_back(self, clause: Clause) -> None:
        """ "That is wrong." after a claim leaves none."""
        self._joined = False
        if (
            self.values
            and clause.has(ClauseMark.WRONG)
            and (self._pending or _ANAPHOR.match(clause.text))
        ):
            self.values = ()
            self.retracted = True
