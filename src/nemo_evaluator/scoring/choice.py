"""Which of the offered letters a response picks."""

import re
from collections.abc import Mapping, Sequence
from string import ascii_uppercase
from typing import Any, Final

from nemo_evaluator.core.lazy import lazy_pattern
from nemo_evaluator.scoring._pick import pick
from nemo_evaluator.scoring._text import prepare, unmark
from nemo_evaluator.scoring.types import Score, ScorerInput, found, versioned

_CLASS: Final = lazy_pattern(r"\[([A-Za-z0-9])-([A-Za-z0-9])\]|\[([A-Za-z0-9]{2,})\]")


def options_of(sample: ScorerInput) -> dict[str, str]:
    """The option texts of a sample by label, if the row has them (``options``, ``choices`` or columns A, B, ...)."""
    metadata = sample.metadata
    offered = metadata.get("options") or metadata.get("choices")
    if isinstance(offered, Mapping) and "text" in offered:
        labels = offered.get("label") or ascii_uppercase
        return {str(label): str(text) for label, text in zip(labels, offered["text"], strict=False)}
    if isinstance(offered, Mapping):
        return {str(label): str(text) for label, text in offered.items() if len(str(label)) == 1}
    if isinstance(offered, Sequence) and not isinstance(offered, str):
        return {
            label: str(text)
            for label, text in zip(ascii_uppercase, offered, strict=False)
            if str(text)
        }
    if "A" in metadata and "B" in metadata:
        return {
            letter: str(metadata[letter])
            for letter in "ABCDEFGHIJ"
            if metadata.get(letter) is not None
        }
    return {}


def _judge(sample: ScorerInput, labels: str | None, default: str) -> Score:
    options = options_of(sample)
    if all(len(label) == 1 for label in options):
        offered = "".join(options)
    else:
        offered = ""
    label = pick(sample.response, labels or offered or default, options, question=sample.question)
    return found(label, label == str(sample.target).strip().strip("()[].").upper())


@versioned("3")
def multichoice_regex(
    sample: ScorerInput, pattern: str | None = None, labels: str | None = None
) -> Score:
    """Does the response pick the target letter? The letters are ``labels``, or the range in ``pattern`` (``[A-J]``), or
    those of the row's options, or A to D. A pattern without such a range is a regular expression whose last match gives
    the letter."""
    if pattern is not None and not labels:
        ranged = _CLASS.search(pattern)
    else:
        ranged = None
    if pattern is not None and labels is None and ranged is None:
        hits = [m[m.lastindex or 0] for m in re.finditer(pattern, unmark(prepare(sample.response)))]
        if hits:
            letter: str | Any | None = hits[-1].strip().upper()
        else:
            letter = None
        return found(letter, letter == str(sample.target).strip().upper())
    if ranged is not None:
        labels = ranged[3] or "".join(map(chr, range(ord(ranged[1]), ord(ranged[2]) + 1)))
    return _judge(sample, labels, "ABCD")


def extract_mcq_letter(
    text: str, labels: str = "ABCDEFGHIJ", options: Mapping[str, Any] | None = None
) -> str | None:
    """The letter a response picks, or None."""
    return pick(text, labels, options)


@versioned("3")
def mcq_extract(sample: ScorerInput, labels: str | None = None) -> Score:
    """Like multichoice_regex, with the letters A to J unless the row's options say otherwise."""
    return _judge(sample, labels, "ABCDEFGHIJ")
