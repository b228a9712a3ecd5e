"""Numbers in responses: found where the response commits to one, compared as fractions."""

import re
from fractions import Fraction
from itertools import pairwise
from typing import Any, Final

from nemo_evaluator.core.errors import ScorerError
from nemo_evaluator.core.lazy import lazy_pattern
from nemo_evaluator.scoring._claims import PLAINLY
from nemo_evaluator.scoring._clauses import VOID, NamedValues, clauses
from nemo_evaluator.scoring._commitments import Commitments
from nemo_evaluator.scoring._numeral import (
    NUMBER,
    Number,
    find_words,
    parse_number,
    read,
    whole_number,
)
from nemo_evaluator.scoring._patterns import pattern, words
from nemo_evaluator.scoring._settle import declines, plain_ending, settle
from nemo_evaluator.scoring._text import readable, unlatex
from nemo_evaluator.scoring._vocabulary import cut_off, is_offer, is_task
from nemo_evaluator.scoring.types import Score, ScorerInput, found, versioned

__all__ = [
    "Number",
    "extract_number",
    "language_of",
    "numeric_match",
    "parse_number",
    "target_number",
]

_WORDS_WITHIN: Final = 80
_FEW_WORDS: Final = 12
_REGION: Final = 600
_SENTENCES: Final = 6
_OPERATOR: Final = lazy_pattern(
    r"(?:\^\{?-?\d+\}?)?\s*(?:[^\W\d]{1,14}\s*)?([-–+*/×÷·x=≈])[\s($€£¥₹.-]*"
)
_BOLD: Final = lazy_pattern(r"\*\*([^*\n]*\d[^*\n]*)\*\*")
_OPENING: Final = pattern("number.opening")
_ALONE: Final = lazy_pattern(r"\W*(?:[^\W\d]{1,15}[\s.]*){0,2}\W*")
_JOINED: Final = pattern("number.joined")
_ITEM: Final = lazy_pattern(r"\s*(?:\d{1,2}[.)]|[-*•])\s+([$€£-]?\d[\d.,]*)\s*")
_WHOLE: Final = lazy_pattern(
    rf"(?:{PLAINLY}|\s*####\s*)\*{{0,2}}\$?(?P<digits>-?[0-9]{{1,15}})\$?\*{{0,2}}\.?\s*|\s*\$?\\boxed\{{(?P<boxed>-?[0-9]{{1,15}})\}}\$?\.?\s*"
)
_SHORT: Final = 60
_UNIT: Final = lazy_pattern(r"\s*([^\W\d]{1,14})")
_BOUND: Final = pattern("number.bound")
_LIMITS: Final = words("number.limits")
# A number that goes on as a formula is not the value: 18 + x, 18^2, 18x.
_FORMULA: Final = pattern("number.formula")
# "5 books cost 30", "20 divided by 4 equals 5": what such a sentence opens with is not its result.
_EQUALS: Final = pattern("number.equals")
_GOES_ON: Final = pattern("number.goes_on")
_MINUS: Final = lazy_pattern(r"\b(?:minus|negative)\s+\Z", re.IGNORECASE)
_ASSERTS: Final = pattern("number.asserts")


class Numbers:
    """Reads numbers in clauses (see Reader). ``last``: an unannounced clause gives its last number."""

    def __init__(self, language: str | None, *, last: bool = False) -> None:
        self._language = language
        self._last = last

    def read(self, clause: str, *, cued: bool) -> NamedValues[Number] | None:
        """The number (or the several) that a clause commits to."""
        match = NUMBER.search(clause)
        if match is None:
            if cued:
                words = find_words(clause[:_WORDS_WITHIN])
            else:
                words = None
            if words:
                return NamedValues((Number(words[0], (words[1],)),), 0, len(clause), bare=True)
            return None
        opening = _OPENING.match(clause)
        opens = opening is not None and opening.end() >= match.start()
        if opens and self._last and not cued:
            match = _equated(clause, match)
        if opens and (cued or self._last or _ALONE.fullmatch(clause, match.end())):
            return self._said(
                clause,
                _result(clause, match),
                bare=_ALONE.fullmatch(clause, match.end()) is not None,
            )
        if cued or self._last:
            bold = list(_BOLD.finditer(clause))
            scope = bold[-1] if bold else None
            start, end = scope.span(1) if scope else (0, len(clause))
            return self._said(clause, _last_of(clause, start, end))
        asserted = _ASSERTS.search(clause, max(0, match.start() - 40), match.start())
        if asserted:
            return self._said(clause, _result(clause, match))
        return None

    def weak(self, line: str) -> NamedValues[Number] | None:
        """The number of a line on which nothing but a number and perhaps its unit stands."""
        match = NUMBER.search(line)
        if match:
            opening = _OPENING.match(line)
        else:
            opening = None
        if (
            match is None
            or opening is None
            or opening.end() < match.start()
            or not _ALONE.fullmatch(line, match.end())
        ):
            return None
        return self._said(line, match)

    def _said(
        self, clause: str, match: re.Match[str] | None, bare: bool = False
    ) -> NamedValues[Number] | None:
        if match is None or _FORMULA.match(clause, match.end()):
            return None
        number = read(match, self._language)
        if number is not None and _MINUS.search(clause, max(0, match.start() - 10), match.start()):
            number = Number(f"-{number.text}", tuple(-value for value in number.readings))
        if number is None or _bounded(clause, match.start()):
            return None
        values = [number]
        end = match.end()
        while (joined := _JOINED.match(clause, end)) is not None:
            following = NUMBER.match(clause, joined.end())
            if following:
                other = read(following, self._language)
            else:
                other = None
            if following is None or other is None or _other_unit(clause, joined, following):
                break
            values.append(other)
            end = following.end()
        if len(values) == 1:
            values = [*self._before(clause, match), number]
        return NamedValues(tuple(dict.fromkeys(values)), match.start(), end, bare=bare)

    def _before(self, clause: str, match: re.Match[str]) -> list[Number]:
        """The number to which the last one of a clause is joined: "either 5 or 6", "from 5 to 6"."""
        window = max(0, match.start() - 40)
        for earlier in NUMBER.finditer(clause, window, match.start()):
            joined = _JOINED.match(clause, earlier.end(), match.start() + 1)
            if (
                joined is not None
                and joined.end() >= match.start() - 1
                and "=" not in clause[: match.start()]
            ):
                number = read(earlier, self._language)
                if number is not None and not _other_unit(clause, joined, match):
                    return [number]
                return []
        return []


def _bounded(clause: str, at: int) -> bool:
    """Whether a bound or an operation stands before a number: more than 5, twice 5, sqrt(5)."""
    before = clause[max(0, at - 24) : at]
    return (
        before.rstrip(" \t\n$€£¥₹({*-").lower().endswith(_LIMITS)
        and _BOUND.search(before) is not None
    )


def _other_unit(clause: str, joined: re.Match[str], following: re.Match[str]) -> bool:
    """ "45 minutes (or 0.75 hours)" says one thing twice."""
    first = joined["unit"].strip().lower()
    second = _UNIT.match(clause, following.end())
    return (
        bool(first) and second is not None and second[1].lower() not in (first, "is", "or", "and")
    )


def _result(clause: str, match: re.Match[str]) -> re.Match[str] | None:
    """The number a claim opens with, or the result of the sum it opens with."""
    result = match
    seen_equals = False
    while (operator := _OPERATOR.match(clause, match.end())) is not None:
        following = NUMBER.match(clause, operator.end())
        if following is None:
            break
        seen_equals = seen_equals or operator[1] in "=≈"
        match = following
        if operator[1] == "=" or (operator[1] == "≈" and not seen_equals):
            result = following
    return result


def _equated(clause: str, match: re.Match[str]) -> re.Match[str]:
    """What a sentence that opens with a number says that this comes to; the number itself when it says nothing."""
    for verb in _EQUALS.finditer(clause, match.end()):
        result = NUMBER.match(clause, verb.end())
        if result is not None and not _GOES_ON.match(clause, result.end()):
            match = result
    return match


def _last_of(clause: str, start: int, end: int) -> re.Match[str] | None:
    equals = max(
        clause.rfind("=", start, end), clause.rfind("≈", start, end) if "=" not in clause else -1
    )
    found = list(NUMBER.finditer(clause, max(start, equals + 1), end))
    if not found:
        return next(NUMBER.finditer(clause, start, end), None)
    return found[0] if equals >= 0 else found[-1]


def extract_number(text: str, *, language: str | None = None, question: str = "") -> Number | None:
    """The number a response commits to; None when it commits to none or to several. An announced one (boxed, tagged,
    "the answer is"), else one that fills the last or first line, else that of the last sentence."""
    if len(text) < _SHORT:
        whole = _WHOLE.fullmatch(text)
    else:
        whole = None
    if whole is not None:
        digits = whole["digits"] or whole["boxed"]
        return Number(digits, (int(digits),))
    text = readable(text, question)
    ending = plain_ending(text, _WHOLE)
    if ending is not None:
        return Number(ending["digits"], (int(ending["digits"]),))
    text = unlatex(text, boxes=True)
    reader = Numbers(language)
    settled = settle(text, reader, lambda part: _unannounced(part, reader, language))
    if settled and all(settled[0].equals(other) for other in settled[1:]):
        return settled[0]
    return None


def _unannounced(text: str, reader: Numbers, language: str | None) -> tuple[Number, ...] | None:
    lines = [line for line in text.split("\n") if line and not line.isspace()]
    if not lines:
        return None
    listed = {item[1] for line in lines if (item := _ITEM.fullmatch(line))}
    if len(listed) > 1 and all(map(_ITEM.fullmatch, lines)):
        return None
    for line in (lines[-1], lines[0]):
        said = reader.weak(line)
        if said is not None and not any(clause.has(VOID) for clause in clauses(line, 0, len(line))):
            return said.values
    if cut_off(text) or declines(text[-_REGION // 2 :]):
        return None
    last = Numbers(language, last=True)
    for sentence in _last_sentences(text):
        if is_offer(sentence):
            continue
        if is_task(sentence):
            return None
        ledger: Commitments[Number] = Commitments(last, free=True)
        ledger.add_text(sentence, 0, len(sentence), cued=False)
        if ledger.values or NUMBER.search(sentence):
            return ledger.values or None
    if len(text.split()) <= _FEW_WORDS:
        words = find_words(text)
    else:
        words = None
    if words:
        return (Number(words[0], (words[1],)),)
    return None


_SENTENCE_END: Final = lazy_pattern(r"[.!?…][\"'”)*_]*\s|[。！？\n]")


def _last_sentences(text: str) -> list[str]:
    """The last sentences, the last one first."""
    tail = text[-_REGION:]
    edges = [0, *(match.end() for match in _SENTENCE_END.finditer(tail)), len(tail)]
    pieces = [tail[start:end] for start, end in pairwise(edges)]
    return [piece for piece in reversed(pieces) if piece.strip()][:_SENTENCES]


def language_of(sample: ScorerInput, language: str | None = None) -> str | None:
    """The language of a sample, as the caller or the row says."""
    named = language or sample.metadata.get("language") or sample.metadata.get("lang")
    if named:
        return str(named)
    return None


def target_number(target: Any) -> Number:
    """The number a target is; raises ScorerError when it is none, for then no answer could be judged."""
    number = whole_number(str(target))
    if number is None:
        raise ScorerError(f"the target {str(target)[:80]!r} is not a number")
    return number


@versioned("4")
def numeric_match(
    sample: ScorerInput, tolerance: float | None = None, language: str | None = None
) -> Score:
    """Is the answer the same number as the target? No number, or several, is unparsed, never 0."""
    number = extract_number(
        sample.response, language=language_of(sample, language), question=sample.question
    )
    target = target_number(sample.target)
    if number is None:
        return found(None, False)
    if tolerance is None:
        exact: Fraction | None = None
    else:
        exact = Fraction(str(tolerance))
    return found(number.canonical, number.equals(target, exact))
