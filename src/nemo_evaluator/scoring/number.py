"""Numbers in text: found where the response announces them, read exactly, compared as fractions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, TypeAlias

from nemo_evaluator.core.errors import ScorerError
from nemo_evaluator.scoring._claims import Claim, Kind, claims, foreign_claims
from nemo_evaluator.scoring._number_words import find_words
from nemo_evaluator.scoring._text import prepare, unlatex
from nemo_evaluator.scoring.types import Score, ScorerInput, found, versioned

# Starts with a digit, so that the engine can skip to one; sign, currency and a leading point are read backwards.
NUMBER: Final = re.compile(
    """\\d(?<![A-Za-z_\\d^]\\d)(?<!\\d[.,]\\d)
    (?P<rest>\\d*(?:(?:[.,'’]|[ \u00a0](?=\\d{3}(?!\\d)))\\d+)*)
    (?:[ ]+(?P<top>\\d+)/(?P<bottom>\\d+)(?!\\d)|\\s?/\\s?(?P<under>\\d+)(?![\\d.,]*\\d))?
    (?:[eE](?P<exp>[+-]?\\d+)(?!\\w)|\\s?[×x*·]\\s?10\\s?\\^\\s?\\{?(?P<power>-?\\d+)\\}?)?
    (?:\\s?(?P<percent>%)
      |\\s?(?P<scale>thousand|million|billion|trillion|lakh|crore|mn|bn|k|万|萬|億|亿|千|百万)(?![A-Za-z]))?""",
    re.VERBOSE | re.IGNORECASE,
)
_SIGN: Final = re.compile(r"(?:(?<![\w)\]}.])-)?(?:(?:US|HK|[RAC])?[$€£¥₹₩฿]\s?-?)?(?:(?<![\w.])\.)?\Z")
_SIGN_WIDTH: Final = 8
_SCALES: Final = {
    "thousand": 10**3, "k": 10**3, "千": 10**3, "万": 10**4, "萬": 10**4, "lakh": 10**5, "million": 10**6, "mn": 10**6,
    "百万": 10**6, "crore": 10**7, "億": 10**8, "亿": 10**8, "billion": 10**9, "bn": 10**9, "trillion": 10**12,
}  # fmt: skip
# Languages in which 1.234 may be one thousand two hundred thirty-four.
_COMMA_LANGUAGES: Final = frozenset(
    "de es fr it pt nl ru pl tr id sv da fi nb no cs ro uk vi el bg hr sr sl sk hu ca".split()  # noqa: SIM905
)
_SMALLEST_GROUP: Final = 3
# Beyond these it is not an answer but a memory bomb.
_LARGEST_EXPONENT: Final = 400
_LONGEST: Final = 400
_TAIL: Final = 64
_SAFE: Final = 16
_WORDS_WITHIN: Final = 80

Value: TypeAlias = int | Fraction


@dataclass(frozen=True, slots=True)
class Number:
    """A number as it was written and every value it may stand for (50% is 50 and 0.5; 2 million is 2 and 2000000)."""

    text: str
    readings: tuple[Value, ...]

    def equals(self, other: Number, tolerance: Fraction | None = None) -> bool:
        """True when some reading of one is some reading of the other."""
        if tolerance is None:
            return not set(self.readings).isdisjoint(other.readings)
        return any(abs(Fraction(mine) - theirs) <= tolerance for mine in self.readings for theirs in other.readings)

    @property
    def canonical(self) -> str:
        """The first reading: an integer, a decimal that ends, or a fraction."""
        value = self.readings[0]
        if value.denominator == 1:
            return str(value.numerator)
        rest = value.denominator
        for prime in (2, 5):
            while rest % prime == 0:
                rest //= prime
        return f"{float(value):.12g}" if rest == 1 else f"{value.numerator}/{value.denominator}"


def parse_number(text: str, *, language: str | None = None) -> Number | None:
    """The number that a short text is (a target, a cell), with or without a unit; None when there is none."""
    if text.isascii() and text.isdigit():
        return Number(text, (int(text),))
    match = NUMBER.search(unlatex(prepare(text)))
    return _read(match, language) if match else None


def _read(match: re.Match[str], language: str | None) -> Number | None:
    text, start = match.string, match.start()
    before = _before(text, start)
    token = text[start : match.end("rest")]
    if len(token) > _LONGEST:
        return None
    if not before and match.end() == match.end("rest") and token.isascii() and token.isdigit():
        return Number(token, (int(token),))
    if before.endswith("."):
        token = f".{token}"
    values = _scaled(match, list(_values(token, language)))
    if "-" in before:
        values = [-value for value in values]
    written = f"{before.rstrip('.')}{token}{text[match.end('rest') : match.end()]}".strip()
    return Number(written, tuple(values)) if values else None


def _before(text: str, start: int) -> str:
    """Sign, currency and leading point in front of the digits."""
    if start == 0 or text[start - 1] not in "-$€£¥₹₩฿. ":
        return ""
    window = text[max(0, start - _SIGN_WIDTH) : start]
    sign = _SIGN.search(window)
    return sign[0] if sign and sign[0].strip() else ""


def _scaled(match: re.Match[str], values: list[Value]) -> list[Value]:
    """Fraction, power of ten, percent and words such as million applied."""
    if match["bottom"]:
        bottom = int(match["bottom"])
        values = [value + Fraction(int(match["top"]), bottom) for value in values] if bottom else []
    if match["under"]:
        under = int(match["under"])
        values = [Fraction(value) / under for value in values] if under else []
    exponent = match["exp"] or match["power"]
    if exponent:
        values = [] if abs(int(exponent)) > _LARGEST_EXPONENT else [v * Fraction(10) ** int(exponent) for v in values]
    if match["percent"]:
        values += [Fraction(value) / 100 for value in values]
    if match["scale"]:
        scale = _SCALES[match["scale"].lower()]
        values = [value * scale for value in values] + values
    return values


def _values(token: str, language: str | None) -> Iterator[Value]:
    """What a run of digits with points, commas, spaces or apostrophes may mean."""
    token = _ungroup(token)
    commas, points = token.count(","), token.count(".")
    if commas and points:
        decimal, other = (",", ".") if token.rfind(",") > token.rfind(".") else (".", ",")
        head, _, tail = token.rpartition(decimal)
        if decimal not in head and _grouped(head, other):
            yield Fraction(f"{head.replace(other, '')}.{tail}")
        else:
            yield Fraction(tail)
    elif commas + points == 0:
        yield Fraction(int(token))
    elif commas + points > 1:
        separator = "," if commas else "."
        yield Fraction(
            int(token.replace(separator, "") if _grouped(token, separator) else token.rpartition(separator)[2])
        )
    else:
        separator = "," if commas else "."
        head, _, tail = token.partition(separator)
        as_group = len(tail) == _SMALLEST_GROUP and 0 < len(head) <= _SMALLEST_GROUP and int(head) != 0
        as_decimal = Fraction(f"{head or 0}.{tail}")
        comma_language = (language or "")[:2].lower() in _COMMA_LANGUAGES
        if as_group and (separator == "," or comma_language):
            yield Fraction(int(head + tail))
            if comma_language:
                yield as_decimal
        else:
            yield as_decimal


def _ungroup(token: str) -> str:
    """Spaces and apostrophes between groups of three taken out; otherwise only the last piece is the number."""
    for separator in (" ", "\u00a0", "'", "’"):
        if separator in token:
            pieces = token.split(separator)
            whole = len(pieces[0]) <= _SMALLEST_GROUP and all(len(re.split("[.,]", p)[0]) == 3 for p in pieces[1:])
            token = "".join(pieces) if whole else pieces[-1]
    return token


def _grouped(digits: str, separator: str) -> bool:
    """Western (1,234,567) or Indian (12,34,567) grouping."""
    first, *groups = digits.split(separator)
    if not 0 < len(first) <= _SMALLEST_GROUP or not groups or len(groups[-1]) != _SMALLEST_GROUP:
        return False
    return all(len(g) == 3 for g in groups) or all(len(g) == 2 for g in groups[:-1])


_OPERATOR: Final = re.compile(r"\s*(?:[^\W\d]{1,14}\s*)?([-+*/×÷·x=≈])[\s($€£¥₹.-]*")
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
    return _read(result, language)


def _cut(text: str, start: int) -> int:
    reason = _REASON.search(text, start)
    return reason.start() if reason else len(text)


def _last(text: str, language: str | None) -> Number | None:
    # Most texts have a number near their end; one that begins where the tail was cut may be torn, then read it all.
    for start in (len(text) - _TAIL, 0) if len(text) > _TAIL else (0,):
        for match in reversed(list(NUMBER.finditer(text, start))):
            if start and match.start() < start + _SAFE:
                break
            number = _read(match, language)
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
    return _read(match, language)


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
