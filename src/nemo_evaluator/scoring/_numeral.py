"""Numerals: what a run of digits with its sign, separators and units may stand for; and numbers in words."""

import re
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


def _scale_words() -> dict[str, int]:
    """Return the factor of each word such as million."""
    factors: dict[str, int] = {}
    for line in words("numeral.scales"):
        factor, *scale_words = line.split()
        factors.update(dict.fromkeys(scale_words, int(factor)))
    return factors


_SCALES: Final = _scale_words()
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
        """Return whether a reading of one number is a reading of the other, or differs by at most the tolerance."""
        if tolerance is None:
            return not set(self.readings).isdisjoint(other.readings)
        for own_value in self.readings:
            for other_value in other.readings:
                if abs(Fraction(own_value) - other_value) <= tolerance:
                    return True
        return False

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
    if _is_plain_integer(text) and len(text) <= _LONGEST:
        return Number(text, (int(text),))
    match = NUMBER.search(unlatex(prepare(text)))
    if match is None:
        return None
    return read(match, language)


def read(match: re.Match[str], language: str | None) -> Number | None:
    """The number of a match of NUMBER, with its sign and currency; None if it is too long to be an answer."""
    text = match.string
    start = match.start()
    # Digits and separators, and behind them a fraction, an exponent, a percent sign or a word such as million.
    digits_end = match.end("rest")
    before = _before(text, start)
    token = text[start:digits_end]
    behind = text[digits_end : match.end()]
    if len(token) > _LONGEST:
        return None
    if not before and not behind and _is_plain_integer(token):
        return Number(token, (int(token),))
    if before.endswith("."):
        before = before.rstrip(".")
        token = f".{token}"
    values = _scaled(match, _values(token, language))
    if "-" in before:
        values = [-value for value in values]
    if not values:
        return None
    written = f"{before}{token}{behind}"
    return Number(written.strip(), tuple(values))


def _is_plain_integer(text: str) -> bool:
    """Whether a text consists of the digits 0 to 9."""
    return text.isascii() and text.isdigit()


# What may surround the number of a target: a unit, a currency, but no operator and no second number.
_BEFORE_ONLY: Final = pattern("numeral.before_only")
_AFTER_ONLY: Final = pattern("numeral.after_only")


def whole_number(text: str) -> Number | None:
    """The number that a text is, with or without a unit; None if the text has anything else."""
    if _is_plain_integer(text) and len(text) <= _LONGEST:
        return Number(text, (int(text),))
    plain_text = unlatex(prepare(text))
    match = NUMBER.search(plain_text)
    if match is None:
        return None
    nothing_else_before = _BEFORE_ONLY.fullmatch(plain_text, 0, match.start())
    nothing_else_behind = _AFTER_ONLY.fullmatch(plain_text, match.end())
    if not nothing_else_before or not nothing_else_behind:
        return None
    return read(match, language=None)


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
        # A mixed number: 2 1/2.
        values = _plus_fraction(values, int(match["top"]), int(match["bottom"]))
    if match["under"]:
        values = _divided(values, int(match["under"]))
    exponent = match["exp"] or match["power"]
    if exponent:
        values = _times_power_of_ten(values, int(exponent))
    if match["percent"]:
        values = values + _divided(values, 100)
    if match["scale"]:
        scale = _SCALES[match["scale"].lower()]
        values = [value * scale for value in values]
    return values


def _plus_fraction(values: list[Value], top: int, bottom: int) -> list[Value]:
    if bottom == 0:
        return []
    return [value + Fraction(top, bottom) for value in values]


def _divided(values: list[Value], divisor: int) -> list[Value]:
    if divisor == 0:
        return []
    return [Fraction(value) / divisor for value in values]


def _times_power_of_ten(values: list[Value], exponent: int) -> list[Value]:
    if abs(exponent) > _LARGEST_EXPONENT:
        return []
    return [value * Fraction(10) ** exponent for value in values]


def _values(token: str, language: str | None) -> list[Value]:
    """List the possible meanings of digits with points, commas, spaces or apostrophes."""
    token = _ungroup(token)
    commas = token.count(",")
    points = token.count(".")
    separators = commas + points
    if separators == 0:
        return [Fraction(int(token))]
    if commas and points:
        return [_with_both_separators(token)]
    separator = "," if commas else "."
    if separators > 1:
        return [_with_repeated_separator(token, separator)]
    return _with_one_separator(token, separator, language)


def _with_both_separators(token: str) -> Fraction:
    """The value of digits with commas and points, such as 1,234.5: the last separator starts the decimals."""
    decimal_separator = max(",", ".", key=token.rfind)
    group_separator = "." if decimal_separator == "," else ","
    head, _, decimals = token.rpartition(decimal_separator)
    if decimal_separator in head or not _grouped(head, group_separator):
        return Fraction(decimals)
    return Fraction(f"{head.replace(group_separator, '')}.{decimals}")


def _with_repeated_separator(token: str, separator: str) -> Fraction:
    """The value of 1,234,567; of digits that are not in groups, only the last ones count."""
    if _grouped(token, separator):
        return Fraction(int(token.replace(separator, "")))
    return Fraction(int(token.rpartition(separator)[2]))


def _with_one_separator(token: str, separator: str, language: str | None) -> list[Value]:
    """The values of digits with one comma or point, which may separate decimals or thousands.

    A comma before three digits separates thousands. A point there does so only in languages with a decimal comma; in
    these, either separator may also start decimals.
    """
    head, _, tail = token.partition(separator)
    as_decimal = Fraction(f"{head or 0}.{tail}")
    if len(tail) != _SMALLEST_GROUP:
        return [as_decimal]
    head_is_group = 0 < len(head) <= _SMALLEST_GROUP and int(head) != 0
    if not head_is_group:
        return [as_decimal]
    as_thousands = Fraction(int(head + tail))
    language_code = (language or "")[:2].lower()
    if language_code in _COMMA_LANGUAGES:
        return [as_thousands, as_decimal]
    if separator == ",":
        return [as_thousands]
    return [as_decimal]


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
    opens_properly = 0 < len(first_group) <= _SMALLEST_GROUP
    if not opens_properly or not groups:
        return False
    *inner_groups, last_group = groups
    if len(last_group) != _SMALLEST_GROUP:
        return False
    is_western = all(len(group) == 3 for group in inner_groups)
    is_indian = all(len(group) == 2 for group in inner_groups)
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
        if number_word in _UNITS:
            current += _UNITS[number_word]
        elif number_word in _TENS:
            current += _TENS[number_word]
        elif number_word == "hundred":
            current = max(1, current) * 100
        elif number_word in _WORD_SCALES:
            # "thousand" alone is one thousand.
            total += max(1, current) * _WORD_SCALES[number_word]
            current = 0
    value = total + current
    is_negative = run.startswith(("minus", "negative"))
    return -value if is_negative else value
