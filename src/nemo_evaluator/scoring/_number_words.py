"""English number words: eighteen, twenty-five, one thousand two hundred and thirty-four."""

from __future__ import annotations

import re
from typing import Final

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
_RUN: Final = re.compile(rf"(?<![\w-])(?:minus |negative )?(?:{_WORD})(?:(?:[ -]|[ -]and[ -])(?:{_WORD}))*(?!\w)", re.I)


def find_words(text: str) -> tuple[str, int] | None:
    """The last number that is written in words, as it stands and as a number."""
    runs = _RUN.findall(text)
    return (runs[-1], _value(runs[-1].lower())) if runs and len(runs[-1]) <= _LONGEST else None


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
