"""Numerals: what a run of digits with its sign, separators and units may stand for; and numbers in words."""

import re
from collections.abc import Iterator
from fractions import Fraction
from typing import Final, Self, TypeAlias

from nemo_evaluator.core.lazy import lazy_pattern
from nemo_evaluator.core.values import dataclass
from nemo_evaluator.scoring._patterns import pattern, words
from nemo_evaluator.scoring._text import prepare, unlatex

# Starts with a digit, so that the engine can skip to one; sign, currency and a leading point are read backwards.
# No group repeats possessively: before Python 3.11.5 (Debian 12 has 3.11.2) that loses where the match ends.
NUMBER: Final = pattern("numeral.number")
_SIGN: Final = pattern("numeral.sign")
_SIGN_WIDTH: Final = 8
_SCALES: Final = {
    word: int(scale) for scale, *named in map(str.split, words("numeral.scales")) for word in named
}
# Languages in which 1.234 may be one thousand two hundred thirty-four.
_COMMA_LANGUAGES: Final = words("numeral.comma_languages")
_SMALLEST_GROUP: Final = 3
# Beyond these it is not an answer but a memory bomb.
_LARGEST_EXPONENT: Final = 400
_LONGEST: Final = 400

Value: TypeAlias = int | Fraction


@dataclass(frozen=True, slots=True)
class Number:
    """A number as it was written and every value it may stand for (50% is 50 and 0.5)."""

    text: str
    readings: tuple[Value, ...]

    def equals(self, other: Self, tolerance: Fraction | None = None) -> bool:
        """True when some reading of one is some reading of the other."""
        if tolerance is None:
            return not set(self.readings).isdisjoint(other.readings)
        return any(
            abs(Fraction(mine) - theirs) <= tolerance
            for mine in self.readings
            for theirs in other.readings
        )

    @property
    def canonical(self) -> str:
        """Return the first reading as text: an integer, a decimal that ends, or a fraction."""
        value = self.readings[0]
        if value.denominator == 1:
            return str(value.numerator)
        remaining_factor = value.denominator
        for prime in (2, 5):
            while remaining_factor % prime == 0:
                remaining_factor //= prime
        if remaining_factor == 1:
            return f"{float(value):.12g}"
        return f"{value.numerator}/{value.denominator}"


def parse_number(text: str, *, language: str | None = None) -> Number | None:
    """Return the number that a short text (a target, a cell) is, with or without a unit; None when it is none."""
    if text.isascii() and text.isdigit() and len(text) <= _LONGEST:
        return Number(text, (int(text),))
    match = NUMBER.search(unlatex(prepare(text)))
    if match:
        return read(match, language)
    return None


def read(match: re.Match[str], language: str | None) -> Number | None:
    """The number of a match of NUMBER, with its sign and currency; None if it is too long to be an answer."""
    text = match.string
    start = match.start()
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
    if values:
        return Number(written, tuple(values))
    return None


# What may surround the number of a target: a unit, a currency, but no operator and no second number.
_BEFORE_ONLY: Final = pattern("numeral.before_only")
_AFTER_ONLY: Final = pattern("numeral.after_only")


def whole_number(text: str) -> Number | None:
    """The number that a text is, with or without a unit; None if the text has anything else."""
    if text.isascii() and text.isdigit() and len(text) <= _LONGEST:
        return Number(text, (int(text),))
    plain_text = unlatex(prepare(text))
    match = NUMBER.search(plain_text)
    if (
        match is None
        or not _BEFORE_ONLY.fullmatch(plain_text, 0, match.start())
        or not _AFTER_ONLY.fullmatch(plain_text, match.end())
    ):
        return None
    return read(match, None)


def _before(text: str, start: int) -> str:
    """Sign, currency and leading point in front of the digits."""
    if start == 0 or text[start - 1] not in "-$€£¥₹₩฿. ":
        return ""
    window = text[max(0, start - _SIGN_WIDTH) : start]
    sign = _SIGN.search(window)
    if sign and sign[0].strip():
        return sign[0]
    return ""


def _scaled(match: re.Match[str], values: list[Value]) -> list[Value]:
    """Apply a fraction, a power of ten, a percent sign, or a word such as million."""
    if match["bottom"]:
        bottom = int(match["bottom"])
        if bottom:
            values = [value + Fraction(int(match["top"]), bottom) for value in values]
        else:
            values = []
    if match["under"]:
        under = int(match["under"])
        if under:
            values = [Fraction(value) / under for value in values]
        else:
            values = []
    exponent = match["exp"] or match["power"]
    if exponent:
        if abs(int(exponent)) > _LARGEST_EXPONENT:
            values = []
        else:
            values = [v * Fraction(10) ** int(exponent) for v in values]
    if match["percent"]:
        values += [Fraction(value) / 100 for value in values]
    if match["scale"]:
        scale = _SCALES[match["scale"].lower()]
        values = [value * scale for value in values]
    return values


def _values(token: str, language: str | None) -> Iterator[Value]:
    """Yield the possible meanings of digits with points, commas, spaces or apostrophes."""
    token = _ungroup(token)
    commas = token.count(",")
    points = token.count(".")
    if commas and points:
        # The last separator parts the decimals.
        decimal = max(",", ".", key=token.rfind)
        group_separator = "." if decimal == "," else ","
        head, _, tail = token.rpartition(decimal)
        if decimal not in head and _grouped(head, group_separator):
            yield Fraction(f"{head.replace(group_separator, '')}.{tail}")
        else:
            yield Fraction(tail)
    elif commas + points == 0:
        yield Fraction(int(token))
    elif commas + points > 1:
        separator = "," if commas else "."
        grouped = _grouped(token, separator)
        digits = token.replace(separator, "") if grouped else token.rpartition(separator)[2]
        yield Fraction(int(digits))
    else:
        separator = "," if commas else "."
        head, _, tail = token.partition(separator)
        as_group = (
            len(tail) == _SMALLEST_GROUP and 0 < len(head) <= _SMALLEST_GROUP and int(head) != 0
        )
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
            # The last group may have decimals behind it.
            groups = [re.split("[.,]", piece)[0] for piece in pieces[1:]]
            is_grouped = all(len(group) == _SMALLEST_GROUP for group in groups)
            if is_grouped and len(pieces[0]) <= _SMALLEST_GROUP:
                token = "".join(pieces)
            else:
                token = pieces[-1]
    return token


def _grouped(digits: str, separator: str) -> bool:
    """Western (1,234,567) or Indian (12,34,567) grouping."""
    first_group, *groups = digits.split(separator)
    if (
        not 0 < len(first_group) <= _SMALLEST_GROUP
        or not groups
        or len(groups[-1]) != _SMALLEST_GROUP
    ):
        return False
    is_western = all(len(group) == 3 for group in groups)
    is_indian = all(len(group) == 2 for group in groups[:-1])
    return is_western or is_indian


# English number words: eighteen, twenty-five, one thousand two hundred and thirty-four.
_UP_TO_NINETEEN: Final = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
)  # fmt: skip
_FROM_TWENTY: Final = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_UNITS: Final = {word: value for value, word in enumerate(_UP_TO_NINETEEN)}
_TENS: Final = {word: 10 * value for value, word in enumerate(_FROM_TWENTY, 2)}
_LONGEST_WORDS: Final = 120
_WORD_SCALES: Final = {"hundred": 100, "thousand": 10**3, "million": 10**6, "billion": 10**9}
_WORD: Final = "|".join((*_UNITS, *_TENS, *_WORD_SCALES))
_RUN: Final = lazy_pattern(
    rf"(?<![\w-])(?:minus |negative )?(?:{_WORD})(?:(?:[ -]|[ -]and[ -])(?:{_WORD}))*(?!\w)", re.I
)
_PARTS: Final = {
    "half": 2, "halves": 2, "third": 3, "quarter": 4, "fourth": 4, "fifth": 5, "sixth": 6, "eighth": 8, "tenth": 10,
}  # fmt: skip
_PART: Final = lazy_pattern(
    rf"(?P<and> and (?:an?|one))?[ -](?P<part>{'|'.join(_PARTS)})s?\b", re.I
)


def find_words(text: str) -> tuple[str, int | Fraction] | None:
    """Find the last number that is written in words; return its text and its value."""
    last_run = max(_RUN.finditer(text), key=lambda run: run.start(), default=None)
    if last_run is None or len(last_run[0]) > _LONGEST_WORDS:
        return None
    value = _value(last_run[0].lower())
    part = _PART.match(text, last_run.end())
    if part is None:
        return last_run[0], value
    written = text[last_run.start() : part.end()]
    fraction = Fraction(1, _PARTS[part["part"].lower()])
    if part["and"]:
        # "three and a half"; without "and" it is "three halves".
        return written, value + fraction
    return written, value * fraction


def _value(run: str) -> int:
    """The value of English number words; ``current`` is the part below the next thousand."""
    total = 0
    current = 0
    for number_word in re.split("[ -]", run):
        if number_word in _UNITS or number_word in _TENS:
            current += _UNITS.get(number_word, 0) + _TENS.get(number_word, 0)
        elif number_word == "hundred":
            current = max(1, current) * 100
        elif number_word in _WORD_SCALES:
            total += max(1, current) * _WORD_SCALES[number_word]
            current = 0
    if run.startswith(("minus", "negative")):
        return -(total + current)
    return total + current
