"""English number words: eighteen, twenty-five, one thousand two hundred and thirty-four."""

import re
from fractions import Fraction
from typing import Final

from nemo_evaluator.core.lazy import lazy_pattern

_UP_TO_NINETEEN: Final = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
)  # fmt: skip
_FROM_TWENTY: Final = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_UNITS: Final = {word: value for value, word in enumerate(_UP_TO_NINETEEN)}
_TENS: Final = {word: 10 * value for value, word in enumerate(_FROM_TWENTY, 2)}
_LONGEST: Final = 120
_SCALES: Final = {"hundred": 100, "thousand": 10**3, "million": 10**6, "billion": 10**9}
_WORD: Final = "|".join((*_UNITS, *_TENS, *_SCALES))
_RUN: Final = lazy_pattern(
    rf"(?<![\w-])(?:minus |negative )?(?:{_WORD})(?:(?:[ -]|[ -]and[ -])(?:{_WORD}))*(?!\w)", re.I
)
_PARTS: Final = {
    "half": 2, "halves": 2, "third": 3, "quarter": 4, "fourth": 4, "fifth": 5, "sixth": 6, "eighth": 8, "tenth": 10,
}  # fmt: skip
_PART: Final = lazy_pattern(rf"(?P<and> and (?:an?|one))?[ -](?P<part>{'|'.join(_PARTS)})s?\b", re.I)


def find_words(text: str) -> tuple[str, int | Fraction] | None:
    """The last number that is written in words, as it stands and as a number."""
    last = max(_RUN.finditer(text), key=lambda run: run.start(), default=None)
    if last is None or len(last[0]) > _LONGEST:
        return None
    value, part = _value(last[0].lower()), _PART.match(text, last.end())
    if part is None:
        return last[0], value
    share = Fraction(1, _PARTS[part["part"].lower()])
    return text[last.start() : part.end()], value + share if part["and"] else value * share


def _value(run: str) -> int:
    total = current = 0
    for word in re.split("[ -]", run):
        if word in _UNITS or word in _TENS:
            current += _UNITS.get(word, 0) + _TENS.get(word, 0)
        elif word == "hundred":
            current = max(1, current) * 100
        elif word in _SCALES:
            total += max(1, current) * _SCALES[word]
            current = 0
    return -(total + current) if run.startswith(("minus", "negative")) else total + current
