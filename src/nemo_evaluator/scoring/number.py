"""Numbers in responses: found where the response announces them, compared as fractions."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any, Final

from nemo_evaluator.core.errors import ScorerError
from nemo_evaluator.scoring._claims import Claim, Kind, claims, foreign_claims
from nemo_evaluator.scoring._number_words import find_words
from nemo_evaluator.scoring._numeral import NUMBER, Number, parse_number, read
from nemo_evaluator.scoring._text import prepare, unlatex
from nemo_evaluator.scoring.types import Score, ScorerInput, found, versioned

__all__ = ["Number", "extract_number", "language_of", "numeric_match", "parse_number", "target_number"]

_TAIL: Final = 64
_SAFE: Final = 16
_WORDS_WITHIN: Final = 80
_OPERATOR: Final = re.compile(r"(?:\^\{?-?\d+\}?)?\s*(?:[^\W\d]{1,14}\s*)?([-+*/×÷·x=≈])[\s($€£¥₹.-]*")
_BOLD: Final = re.compile(r"\*\*([^*\n]*\d[^*\n]*)\*\*")
_REASON: Final = re.compile(
    r"\b(?:because|since|as|which|given that|so that|for|where)\b|[.;!?](?:\s|$)|\(", re.IGNORECASE
)
_OPENING: Final = re.compile(r"[\s*_`~\"'“‘(\[{\\$€£¥₹>:≈~-]*(?:(?:US|HK|[RAC])\$)?[.]?")
_ALONE: Final = re.compile(r"\W*(?:[^\W\d]{1,15}[\s.]*){0,2}\W*")


def _first(text: str, language: str | None) -> Number | None:
    """The number a claim is about: the one it opens with (or the result of the sum it opens with), else the last."""
    match = NUMBER.search(text)
    if match is None:
        return None
    opening = _OPENING.match(text)
    if opening is None or opening.end() < match.start():
        bold = list(_BOLD.finditer(text))
        scope = bold[-1][1] if bold else text[: _cut(text, match.start())]
        return _last(scope, language)
    result, seen_equals = match, False
    while (operator := _OPERATOR.match(text, match.end())) is not None:
        following = NUMBER.match(text, operator.end())
        if following is None:
            break
        seen_equals = seen_equals or operator[1] in "=≈"
        match = following
        if operator[1] == "=" or (operator[1] == "≈" and not seen_equals):
            result = following
    return read(result, language)


def _cut(text: str, start: int) -> int:
    reason = _REASON.search(text, start)
    return reason.start() if reason else len(text)


def _last(text: str, language: str | None) -> Number | None:
    # Most texts have a number near their end; one that begins where the tail was cut may be torn, then read it all.
    for start in (len(text) - _TAIL, 0) if len(text) > _TAIL else (0,):
        for match in reversed(list(NUMBER.finditer(text, start))):
            if start and match.start() < start + _SAFE:
                break
            number = read(match, language)
            if number is not None:
                return number
    return None


def _claimed(claim: Claim, language: str | None) -> Number | None:
    text = unlatex(claim.text)
    if claim.kind is Kind.AFTER:
        return _first(text, language)
    if claim.kind is Kind.WEAK:
        return _only(text, language)
    equals = max(text.rfind("="), text.rfind("≈") if "=" not in text else -1)
    return _last(text[equals + 1 :], language) or _last(text, language)


def _only(text: str, language: str | None) -> Number | None:
    """The number of a line on which nothing but a number and perhaps its unit stands."""
    match = NUMBER.search(text)
    opening = _OPENING.match(text)
    if match is None or opening is None or opening.end() < match.start() or not _ALONE.fullmatch(text, match.end()):
        return None
    return read(match, language)


def extract_number(text: str, *, language: str | None = None) -> Number | None:
    """The number a response gives as its answer.

    An announced one (boxed, tagged, "the answer is"), else one that fills the last or first line, else the last one.
    """
    text = prepare(text)
    for claim in claims(text):
        number = _claimed(claim, language)
        if number is None and claim.kind in (Kind.AFTER, Kind.BOXED):
            number = _in_words(claim.text[:_WORDS_WITHIN])
        if number is not None:
            return number
    for claim in foreign_claims(text):
        number = _claimed(claim, language)
        if number is not None:
            return number
    return _unannounced(text, language) or _in_words(text)


def _in_words(text: str) -> Number | None:
    words = find_words(text)
    return Number(words[0], (words[1],)) if words else None


def _unannounced(text: str, language: str | None) -> Number | None:
    lines = [line for line in text.split("\n") if line and not line.isspace()]
    if not lines:
        return None
    for line in (lines[-1], lines[0]):
        number = _only(unlatex(line), language)
        if number is not None:
            return number
    for line in reversed(lines):
        number = _last(unlatex(line), language)
        if number is not None:
            return number
    return None


def language_of(sample: ScorerInput, language: str | None = None) -> str | None:
    """The language of a sample, as the caller or the row says."""
    named = language or sample.metadata.get("language") or sample.metadata.get("lang")
    return str(named) if named else None


def target_number(target: Any) -> Number:
    """The number a target is; raises ScorerError when it is none, for then no answer could be judged."""
    number = parse_number(str(target))
    if number is None:
        raise ScorerError(f"the target {str(target)[:80]!r} is not a number")
    return number


@versioned("1")
def numeric_match(sample: ScorerInput, tolerance: float | None = None, language: str | None = None) -> Score:
    """Is the answer the same number as the target? No number is unparsed, never 0."""
    number = extract_number(sample.response, language=language_of(sample, language))
    target = target_number(sample.target)
    if number is None:
        return found(None, False)
    exact = None if tolerance is None else Fraction(str(tolerance))
    return found(number.canonical, number.equals(target, exact))
