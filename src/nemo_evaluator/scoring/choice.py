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
        return _listed_options(offered)
    return _column_options(metadata)


def _listed_options(offered: Sequence[Any]) -> dict[str, str]:
    """Return the options of ``["Rome", "Paris"]``, labelled A, B, ...; an empty text is not an option."""
    options: dict[str, str] = {}
    for label, option in zip(ascii_uppercase, offered, strict=False):
        text = str(option)
        if text:
            options[label] = text
    return options


def _column_options(metadata: Mapping[str, Any]) -> dict[str, str]:
    """Return the options of a row with the columns A, B, ...; none without at least A and B."""
    if "A" not in metadata or "B" not in metadata:
        return {}
    options: dict[str, str] = {}
    for label in _COLUMNS:
        text = metadata.get(label)
        if text is not None:
            options[label] = str(text)
    return options


def _mapped_options(offered: Mapping[str, Any]) -> dict[str, str]:
    """Return the options of ``{"text": [...], "label": [...]}`` or of ``{"A": ..., "B": ...}``."""
    options: dict[str, str] = {}
    if "text" in offered:
        labels = offered.get("label") or ascii_uppercase
        for label, text in zip(labels, offered["text"], strict=False):
            options[str(label)] = str(text)
        return options
    for label, text in offered.items():
        if len(str(label)) == 1:
            options[str(label)] = str(text)
    return options


def _judge(sample: ScorerInput, labels: str | None, default: str) -> Score:
    """Compare the picked letter with the target.

    Args:
        sample: The answer.
        labels: The letters that the scorer's settings name; None for those of the row's options.
        default: The letters of a row without options.
    """
    options = options_of(sample)
    one_letter_each = all(len(label) == 1 for label in options)
    offered_labels = "".join(options) if one_letter_each else ""
    expected_labels = labels or offered_labels or default
    label = pick(sample.response, expected_labels, options, question=sample.question)
    target = str(sample.target).strip()
    target_label = target.strip("()[].").upper()
    return found(label, label == target_label)


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
    if pattern is None or labels:
        return _judge(sample, labels, "ABCD")
    letter_class = _CLASS.search(pattern)
    if letter_class is not None:
        return _judge(sample, _letters_of(letter_class), "ABCD")
    if labels is None:
        return _judge_by_pattern(sample, pattern)
    return _judge(sample, labels, "ABCD")


def _letters_of(letter_class: re.Match[str]) -> str:
    """The letters of ``[A-J]`` or of ``[ABCD]``."""
    first, last, listed = letter_class.groups()
    return listed or _letter_range(first, last)


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
