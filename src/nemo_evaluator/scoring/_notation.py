"""Notation that algebra does not see: bases, powers of units, membership, sets and lists in words.

Each is a small rule with its examples: a target, and answers with the verdict.
"""

import re
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from nemo_evaluator.core.lazy import lazy_pattern
from nemo_evaluator.scoring._formula import split_list

_GAPS: Final = lazy_pattern(r"\\[,;:! ]|\\left\b|\\right\b|\\displaystyle|~|\$")
_WRAP: Final = lazy_pattern(
    r"\\(?:text|textrm|textbf|mathrm|mathbf|mbox|operatorname)\s*\{([^{}]*)\}"
)
_WORD_BASES: Final = {
    "two": "2", "three": "3", "four": "4", "five": "5", "six": "6", "seven": "7", "eight": "8", "nine": "9",
    "ten": "10", "eleven": "11", "twelve": "12", "sixteen": "16",
}  # fmt: skip
_BASED: Final = lazy_pattern(
    r"(?P<digits>-?[0-9A-Za-z.]+)\s*(?:_\s*\{?\s*(?P<base>\d+|[a-z]+)\s*\}?"
    r"|[\s,(]*(?:in\s+)?base[\s-]*(?P<worded>\d+|[a-z]+)\)?)"
)
_UNIT_NAME: Final = (
    r"(?:[mckdn]m|ft|yd|miles?|inch(?:es)?|foot|feet|yards?|units?"
    r"|(?:centi|milli|kilo|deci)?met(?:er|re)s?|(?<=@)(?:m|in))"
)
_UNIT: Final = lazy_pattern(
    rf"(?P<value>.*?[\d}})a-z])\s*(?:(?P<word>square|sq\.?|cubic|cu\.?)[\s-]*{_UNIT_NAME}"
    rf"|(?<![a-z\\])@?{_UNIT_NAME}(?:\s*\^?\s*\{{?(?P<power>[123²³])\}}?)?)\.?",
    re.DOTALL,
)
_MEMBER: Final = lazy_pattern(r"[a-zA-Z](?:_\{?\w\}?)?\s*\\in\b\s*")
_CHAIN: Final = lazy_pattern(
    r"(?P<low>[^<>≤≥\\]+|[^<>≤≥]*?\\(?:frac|sqrt|pi)[^<>≤≥]*?)\s*(?P<left><|≤|\\leq?(?:slant)?\b|\\lt\b)\s*[a-zA-Z]\s*"
    r"(?P<right><|≤|\\leq?(?:slant)?\b|\\lt\b)\s*(?P<high>.+)"
)
_NAME: Final = lazy_pattern(r"\s*[a-zA-Z](?:_\{?\w+\}?)?\s*=\s*")
_AND: Final = lazy_pattern(
    r"\\(?:text|textrm|mathrm|mbox)\s*\{\s*,?\s*(?:and|or|und|et|y)\s*\}|\s+(?:and|or)\s+|\\(?:lor|vee|land|wedge)\b|\\quad|;"
)
_STRICT: Final = ("<", "\\lt")


class NotationRule(NamedTuple):
    """A notation in which a difference is an error.

    Attributes:
        differs: Whether an answer differs from a target in this notation.
        examples: Answers to the target of the key, each with its verdict.
    """

    differs: Callable[[str, str], bool]
    examples: Mapping[tuple[str, str], bool]


def plain(formula: str) -> str:
    """Return a formula without gaps, and with its words outside their wrappers, each behind the sign @."""
    return _WRAP.sub(_unwrapped, _GAPS.sub(" ", formula)).strip()


def _unwrapped(match: re.Match[str]) -> str:
    return f" @{match[1].strip()} "


def _base_of(formula: str) -> tuple[str, str] | None:
    """The digits of a number with a base, and the base; None for any other formula."""
    match = _BASED.fullmatch(" ".join(plain(formula).replace("@", "").split()))
    if match is None or not any(sign.isdigit() for sign in match["digits"]):
        return None
    base = (match["base"] or match["worded"]).lower()
    base = _WORD_BASES.get(base, base)
    return (match["digits"].upper(), base) if base.isdecimal() else None


def _other_base(target: str, answer: str) -> bool:
    wanted = _base_of(target)
    given = _base_of(answer)
    return wanted is not None and given is not None and wanted != given


def _power_of(formula: str) -> int | None:
    """The power of the unit of length at the end of a formula; None without such a unit."""
    match = _UNIT.fullmatch(plain(formula))
    if match is None or not any(sign.isdigit() for sign in match["value"]):
        return None
    if match["word"]:
        return 3 if match["word"].startswith("cu") else 2
    power = match["power"] or "1"
    return int(power.translate({ord("²"): "2", ord("³"): "3"}))


def _other_power(target: str, answer: str) -> bool:
    wanted = _power_of(target)
    given = _power_of(answer)
    return wanted is not None and given is not None and wanted != given


NOTATIONS: Final = {
    "another base": NotationRule(
        _other_base, {("52_8", "52_9"): False, ("52_8", "52_{8}"): True, ("52_8", "52"): True}
    ),
    "another power of the unit": NotationRule(
        _other_power,
        {
            ("12\\text{ cm}^2", "12\\text{ cm}^3"): False,
            ("12\\text{ cm}^2", "12\\text{ cm}"): False,
            ("12\\text{ cm}^2", "12\\text{ cm}^2"): True,
        },
    ),
}


def notation_differs(target: str, answer: str) -> bool:
    """Return whether an answer is another value than the target by its notation alone."""
    return any(rule.differs(target, answer) for rule in NOTATIONS.values())


def without_notation(formula: str) -> str:
    """Return a formula without its base in words and its unit in words: algebra takes those for variables."""
    based = _base_of(formula)
    if based is not None:
        return f"{based[0]}_{based[1]}"
    match = _UNIT.fullmatch(plain(formula))
    if match is not None and any(sign.isdigit() for sign in match["value"]):
        return match["value"]
    return formula


def as_interval(formula: str) -> str:
    """Return the set of a membership or of a chain of inequalities.

    ``x \\in [1,4]`` and ``1 \\le x \\le 4`` are ``[1,4]``.
    """
    member = _MEMBER.match(formula.strip().strip("$"))
    if member is not None:
        return formula.strip().strip("$")[member.end() :].strip()
    chain = _CHAIN.fullmatch(formula.strip().strip("$"))
    if chain is None:
        return formula
    opening = "(" if chain["left"] in _STRICT else "["
    closing = ")" if chain["right"] in _STRICT else "]"
    return f"{opening}{chain['low'].strip()},{chain['high'].strip()}{closing}"


def values_of(formula: str) -> list[str]:
    """Return the values of a list or set: of "1, -2", "\\{1, -2\\}", "1 \\text{ and } -2" and "x = 1, x = -2"."""
    content = formula.strip().strip("$").replace("\\left", "").replace("\\right", "").strip()
    if content.startswith("\\{") and content.endswith("\\}"):
        content = content[2:-2]
    joined = _AND.sub(",", content)
    values: list[str] = []
    for part in split_list(joined):
        value = _NAME.sub("", part, count=1).strip().strip("$").strip()
        if value:
            values.append(value)
    return values


def is_set(formula: str) -> bool:
    """Return whether a formula is a set in braces."""
    content = formula.strip().strip("$").replace("\\left", "").strip()
    return content.startswith("\\{") and "|" not in content and "\\mid" not in content
