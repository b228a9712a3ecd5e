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

# Letters before a number in which a word says that it is the answer, that it is negative, or that it is only a bound.
_NEAR: Final = 40
_MINUS_WINDOW: Final = 10
_BOUND_WINDOW: Final = 24
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
# "48 hours and 30 minutes" is neither 48 nor 30.
_COMPOUND: Final = pattern("number.compound")
_MINUS: Final = lazy_pattern(r"\b(?:minus|negative)\s+\Z", re.IGNORECASE)
_ASSERTS: Final = pattern("number.asserts")


class Numbers:
    """Finds numbers in clauses (see Reader)."""

    def __init__(self, language: str | None, *, last: bool = False) -> None:
        self._language = language
        # Whether an unannounced clause gives its last number.
        self._last = last

    def read(self, clause: str, *, cued: bool) -> NamedValues[Number] | None:
        """Find the number, or several joined ones, that a clause commits to."""
        match = NUMBER.search(clause)
        if match is None:
            return _number_in_words(clause) if cued else None
        opening = _OPENING.match(clause)
        opens_clause = opening is not None and opening.end() >= match.start()
        if opens_clause and self._last and not cued:
            match = _equated(clause, match)
        is_alone = _ALONE.fullmatch(clause, match.end()) is not None
        if opens_clause and (cued or self._last or is_alone):
            return self._named(clause, _result(clause, match), bare=is_alone)
        if cued or self._last:
            start, end = _last_bold(clause)
            return self._named(clause, _last_of(clause, start, end))
        window_start = max(0, match.start() - _NEAR)
        is_asserted = _ASSERTS.search(clause, window_start, match.start()) is not None
        if not is_asserted:
            return None
        return self._named(clause, _result(clause, match))

    def weak(self, line: str) -> NamedValues[Number] | None:
        """The number of a line that consists of a number and perhaps its unit."""
        match = NUMBER.search(line)
        if match is None:
            return None
        opening = _OPENING.match(line)
        opens_line = opening is not None and opening.end() >= match.start()
        if not opens_line or not _ALONE.fullmatch(line, match.end()):
            return None
        return self._named(line, match)

    def _named(
        self, clause: str, match: re.Match[str] | None, bare: bool = False
    ) -> NamedValues[Number] | None:
        """A number with those joined to it ("5 or 6"); None for a bound or a part of a formula."""
        if match is None or _FORMULA.match(clause, match.end()):
            return None
        number = read(match, self._language)
        if number is None or _bounded(clause, match.start()) or _is_compound(clause, match):
            return None
        if _MINUS.search(clause, max(0, match.start() - _MINUS_WINDOW), match.start()):
            negative_readings = tuple(-value for value in number.readings)
            number = Number(f"-{number.text}", negative_readings)
        values, end = self._joined(clause, number, match.end())
        if len(values) == 1:
            values = [*self._before(clause, match), number]
        return NamedValues(tuple(dict.fromkeys(values)), match.start(), end, bare=bare)

    def _joined(self, clause: str, number: Number, end: int) -> tuple[list[Number], int]:
        """A number and those that follow it behind "or", a comma or a dash, and where they end."""
        values = [number]
        while (joined := _JOINED.match(clause, end)) is not None:
            following = NUMBER.match(clause, joined.end())
            if following is None:
                break
            following_number = read(following, self._language)
            if following_number is None or _other_unit(clause, joined, following):
                break
            values.append(following_number)
            end = following.end()
        return values, end

    def _before(self, clause: str, match: re.Match[str]) -> list[Number]:
        """The number to which the last one of a clause is joined: "either 5 or 6", "from 5 to 6"."""
        window_start = max(0, match.start() - _NEAR)
        for earlier_match in NUMBER.finditer(clause, window_start, match.start()):
            joined = _JOINED.match(clause, earlier_match.end(), match.start() + 1)
            if joined is None or joined.end() < match.start() - 1:
                continue
            if "=" in clause[: match.start()]:
                continue
            number = read(earlier_match, self._language)
            if number is not None and not _other_unit(clause, joined, match):
                return [number]
            return []
        return []


def _number_in_words(clause: str) -> NamedValues[Number] | None:
    """The number that a clause spells near its beginning."""
    number = _spelled(clause[:_WORDS_WITHIN])
    if number is None:
        return None
    return NamedValues((number,), 0, len(clause), bare=True)


def _last_bold(clause: str) -> tuple[int, int]:
    """Where the last bold number of a clause stands; all of the clause if nothing is bold."""
    bold = list(_BOLD.finditer(clause))
    return bold[-1].span(1) if bold else (0, len(clause))


def _bounded(clause: str, at: int) -> bool:
    """Whether a bound or an operation precedes a number: more than 5, twice 5, sqrt(5)."""
    before = clause[max(0, at - _BOUND_WINDOW) : at]
    last_word = before.rstrip(" \t\n$€£¥₹({*-").lower()
    # The list of words is quicker than the expression, which decides.
    return last_word.endswith(_LIMITS) and _BOUND.search(before) is not None


def _is_compound(clause: str, match: re.Match[str]) -> bool:
    """Whether a number is a part of a quantity with two units: "48 hours and 30 minutes"."""
    for quantity in _COMPOUND.finditer(clause, max(0, match.start() - _NEAR)):
        if quantity.start() >= match.end():
            return False
        if quantity.end() > match.start():
            return True
    return False


def _other_unit(clause: str, joined: re.Match[str], following: re.Match[str]) -> bool:
    """Whether two numbers have different units: "45 minutes (or 0.75 hours)" names one value twice."""
    first_unit = joined["unit"].strip().lower()
    second_unit = _UNIT.match(clause, following.end())
    if not first_unit or second_unit is None:
        return False
    return second_unit[1].lower() not in (first_unit, "is", "or", "and")


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
    """The result that a sentence gives for the number it opens with ("5 books cost 30"); else that number."""
    for verb in _EQUALS.finditer(clause, match.end()):
        result = NUMBER.match(clause, verb.end())
        if result is not None and not _GOES_ON.match(clause, result.end()):
            match = result
    return match


def _last_of(clause: str, start: int, end: int) -> re.Match[str] | None:
    """The last number of a stretch; behind an equals sign the first one."""
    equals = clause.rfind("=", start, end)
    if "=" not in clause:
        equals = clause.rfind("≈", start, end)
    matches = list(NUMBER.finditer(clause, max(start, equals + 1), end))
    if not matches:
        return next(NUMBER.finditer(clause, start, end), None)
    return matches[0] if equals >= 0 else matches[-1]


def extract_number(text: str, *, language: str | None = None, question: str = "") -> Number | None:
    """Find the number that a response commits to.

    An announced number counts (boxed, tagged, "the answer is"), else one that fills the last or first line, else that
    of the last sentence.

    Args:
        text: The response.
        language: The language of the response, which decides what 1.234 means.
        question: The question, which does not count where the response repeats it.

    Returns:
        The number; None if the response commits to none or to several.
    """
    if len(text) < _SHORT:
        whole_match = _WHOLE.fullmatch(text)
        if whole_match is not None:
            digits = whole_match["digits"] or whole_match["boxed"]
            return Number(digits, (int(digits),))
    text = readable(text, question)
    ending = plain_ending(text, _WHOLE)
    if ending is not None:
        return Number(ending["digits"], (int(ending["digits"]),))
    text = unlatex(text, boxes=True)
    reader = Numbers(language)
    settled = settle(text, reader, lambda part: _unannounced(part, reader, language))
    if settled and all(settled[0].equals(further_number) for further_number in settled[1:]):
        return settled[0]
    return None


def _unannounced(text: str, reader: Numbers, language: str | None) -> tuple[Number, ...] | None:
    """The number of a line of its own, else of the last sentence, else of a few words."""
    lines = [line for line in text.split("\n") if line and not line.isspace()]
    if not lines or _is_list_of_numbers(lines):
        return None
    lone_numbers = _on_its_own_line(lines, reader)
    if lone_numbers is not None:
        return lone_numbers
    if cut_off(text) or declines(text[-_REGION // 2 :]):
        return None
    last_number_reader = Numbers(language, last=True)
    for sentence in _last_sentences(text):
        if is_offer(sentence):
            continue
        if is_task(sentence):
            return None
        ledger: Commitments[Number] = Commitments(last_number_reader, free=True)
        ledger.add_text(sentence, 0, len(sentence), cued=False)
        names_number = NUMBER.search(sentence) is not None
        if ledger.values or names_number:
            return ledger.values or None
    has_few_words = len(text.split()) <= _FEW_WORDS
    spelled_number = _spelled(text) if has_few_words else None
    return None if spelled_number is None else (spelled_number,)


def _spelled(text: str) -> Number | None:
    """The last number of a text that is written in words."""
    words_and_value = find_words(text)
    if words_and_value is None:
        return None
    written, value = words_and_value
    return Number(written, (value,))


def _on_its_own_line(lines: list[str], reader: Numbers) -> tuple[Number, ...] | None:
    """The number that is all of the last line, else of the first one; a denied one does not count."""
    for line in (lines[-1], lines[0]):
        named_values = reader.weak(line)
        if named_values is None:
            continue
        is_denied = any(clause.has(VOID) for clause in clauses(line, 0, len(line)))
        if not is_denied:
            return named_values.values
    return None


def _is_list_of_numbers(lines: list[str]) -> bool:
    """Whether the lines are items with different numbers: a list of candidates."""
    numbers = set()
    for line in lines:
        item = _ITEM.fullmatch(line)
        if item is None:
            return False
        numbers.add(item[1])
    return len(numbers) > 1


_SENTENCE_END: Final = lazy_pattern(r"[.!?…][\"'”)*_]*\s|[。！？\n]")


def _last_sentences(text: str) -> list[str]:
    """The last sentences, the last one first."""
    tail = text[-_REGION:]
    sentence_ends = [match.end() for match in _SENTENCE_END.finditer(tail)]
    edges = [0, *sentence_ends, len(tail)]
    pieces = [tail[start:end] for start, end in pairwise(edges)]
    sentences = [piece for piece in reversed(pieces) if piece.strip()]
    return sentences[:_SENTENCES]


def language_of(sample: ScorerInput, language: str | None = None) -> str | None:
    """Return the language of a sample: the one that the caller sets, else that of the row."""
    named = language or sample.metadata.get("language") or sample.metadata.get("lang")
    if named:
        return str(named)
    return None


def target_number(target: Any) -> Number:
    """Return the number that a target is.

    Raises:
        ScorerError: It is not a number, so no answer can be scored.
    """
    number = whole_number(str(target))
    if number is None:
        raise ScorerError(f"the target {str(target)[:80]!r} is not a number")
    return number


@versioned("5")
def numeric_match(
    sample: ScorerInput, tolerance: float | None = None, language: str | None = None
) -> Score:
    """Is the answer the same number as the target?

    Args:
        sample: The answer. With no number, or with several, it is unparsed.
        tolerance: The largest difference that still counts as equal.
        language: The language of the answer; by default that of the row.
    """
    number = extract_number(
        sample.response, language=language_of(sample, language), question=sample.question
    )
    target = target_number(sample.target)
    if number is None:
        return found(None, False)
    margin = None if tolerance is None else Fraction(str(tolerance))
    return found(number.canonical, number.equals(target, margin))
