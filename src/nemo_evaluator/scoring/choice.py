"""Which of the offered letters a response picks."""

import re
from collections.abc import Mapping, Sequence
from string import ascii_uppercase
from typing import Any, Final

from nemo_evaluator.core.lazy import lazy_pattern
from nemo_evaluator.scoring._pick import pick
from nemo_evaluator.scoring._text import prepare, unmark
from nemo_evaluator.scoring.types import Score, ScorerInput, found, versioned

# Rows may have one column for each option.
_COLUMNS: Final = "ABCDEFGHIJ"
_CLASS: Final = lazy_pattern(r"\[([A-Za-z0-9])-([A-Za-z0-9])\]|\[([A-Za-z0-9]{2,})\]")


def options_of(sample: ScorerInput) -> dict[str, str]:
    """Return a sample's option texts by label, if the row has them (``options``, ``choices`` or columns A, B, ...)."""
    metadata = sample.metadata
    offered = metadata.get("options") or metadata.get("choices")
    if isinstance(offered, Mapping):
        return _mapped_options(offered)
    if isinstance(offered, Sequence) and not isinstance(offered, str):
        lettered_texts = zip(ascii_uppercase, map(str, offered), strict=False)
        return {label: text for label, text in lettered_texts if text}
    if "A" not in metadata or "B" not in metadata:
        return {}
    options: dict[str, str] = {}
    for label in _COLUMNS:
        if metadata.get(label) is not None:
            options[label] = str(metadata[label])
    return options


def _mapped_options(offered: Mapping[str, Any]) -> dict[str, str]:
    """Return the options of ``{"text": [...], "label": [...]}`` or of ``{"A": ..., "B": ...}``."""
    if "text" in offered:
        labels = map(str, offered.get("label") or ascii_uppercase)
        return dict(zip(labels, map(str, offered["text"]), strict=False))
    options: dict[str, str] = {}
    for label, text in offered.items():
        if len(str(label)) == 1:
            options[str(label)] = str(text)
    return options


def _judge(sample: ScorerInput, labels: str | None, default: str) -> Score:
    """Compare the picked letter with the target; ``default`` are the letters of a row without options."""
    options = options_of(sample)
    one_letter_each = all(len(label) == 1 for label in options)
    offered = "".join(options) if one_letter_each else ""
    label = pick(sample.response, labels or offered or default, options, question=sample.question)
    target = str(sample.target).strip().strip("()[].").upper()
    return found(label, label == target)


@versioned("3")
def multichoice_regex(
    sample: ScorerInput, pattern: str | None = None, labels: str | None = None
) -> Score:
    """Does the response pick the target letter?

    Args:
        sample: The answer.
        pattern: A range of letters such as ``[A-J]``, or a regular expression whose last match gives the letter.
        labels: The letters; by default those of ``pattern``, else of the row's options, else A to D.
    """
    letter_class = _CLASS.search(pattern) if pattern is not None and not labels else None
    if pattern is not None and labels is None and letter_class is None:
        return _judge_by_pattern(sample, pattern)
    if letter_class is not None:
        labels = letter_class[3] or _letter_range(letter_class[1], letter_class[2])
    return _judge(sample, labels, "ABCD")


def _judge_by_pattern(sample: ScorerInput, pattern: str) -> Score:
    """Compare the last match of a regular expression (its last group) with the target."""
    letter: str | None = None
    for match in re.finditer(pattern, unmark(prepare(sample.response))):
        letter = match[match.lastindex or 0].strip().upper()
    return found(letter, letter == str(sample.target).strip().upper())


def _letter_range(first: str, last: str) -> str:
    return "".join(chr(code) for code in range(ord(first), ord(last) + 1))


def extract_mcq_letter(
    text: str, labels: str = "ABCDEFGHIJ", options: Mapping[str, Any] | None = None
) -> str | None:
    """Return the letter that a response picks, or None."""
    return pick(text, labels, options)


@versioned("3")
def mcq_extract(sample: ScorerInput, labels: str | None = None) -> Score:
    """Like multichoice_regex, with the letters A to J unless the row's options say otherwise."""
    return _judge(sample, labels, "ABCDEFGHIJ")
