"""The answer on its line: ``Answer: ...``, a box, or the last line; compared as number or text."""

import re
from typing import Final

from nemo_evaluator.core.lazy import lazy_pattern
from nemo_evaluator.scoring._text import normalise, prepare, readable, unlatex, unmark
from nemo_evaluator.scoring.number import extract_number, language_of, parse_number
from nemo_evaluator.scoring.text import claimed_texts, states
from nemo_evaluator.scoring.types import Score, ScorerInput, found, versioned

_PURE_NUMBER: Final = lazy_pattern(r"\s*[-−+]?\s*[$€£¥]?\s*\d[\d.,'\s]*(?:/\d+)?\s*%?\s*")
_LONGEST_BARE_ANSWER: Final = 12
_IGNORED: Final = lazy_pattern(r"[,$%\s]")


@versioned("3")
def answer_line(sample: ScorerInput, pattern: str | None = None) -> Score:
    """Is the announced answer the target?

    Args:
        sample: The answer.
        pattern: A regular expression whose last match (group 1) is the answer. By default the last announcement counts,
            else a short last line.
    """
    target = _Target(str(sample.target), language_of(sample))
    if pattern is not None:
        answer = _last_match(pattern, sample.response)
        is_right = answer != "" and target.is_stated_by(answer)
        return found(answer or None, is_right)
    if target.number is not None:
        announced = extract_number(sample.response, language=target.language)
        if announced is not None:
            return found(announced.canonical, announced.equals(target.number))
    text = readable(sample.response, sample.question)
    claimed = next(claimed_texts(text), None)
    if claimed is not None:
        return found(claimed, target.is_stated_by(claimed))
    line = _last_line(text)
    if not line:
        return found(None, False)
    if target.is_stated_by(line):
        return found(line, True)
    # A long last line that is not the target is not an answer.
    is_short = len(line.split()) <= _LONGEST_BARE_ANSWER
    return found(line if is_short else None, False)


def _last_match(pattern: str, response: str) -> str:
    """Group 1 of the last match, or the whole match of a pattern without groups; "" without a match."""
    text = prepare(response)
    matches = list(re.finditer(pattern, text))
    if not matches:
        matches = list(re.finditer(pattern, unmark(text)))
    if not matches:
        return ""
    last_match = matches[-1]
    answer = last_match[1] if last_match.lastindex else last_match[0]
    return unmark(unlatex(answer)).strip()


def _last_line(text: str) -> str:
    """The last line of a response, without markup."""
    plain_text = unmark(unlatex(text)).strip()
    _, _, line = plain_text.rpartition("\n")
    return line.strip()


class _Target:
    """The expected answer, and how an answer is compared with it.

    Attributes:
        text: The expected answer.
        language: The language of the row, which decides what 1.234 means.
        number: The expected answer as a number; None if it is a text.
    """

    def __init__(self, text: str, language: str | None) -> None:
        self.text = text
        self.language = language
        is_number = _PURE_NUMBER.fullmatch(text) is not None
        self.number = parse_number(text) if is_number else None

    def is_stated_by(self, answer: str) -> bool:
        """Whether an answer is the target: as a number if the target is one, else as text."""
        if self.number is not None:
            answered = extract_number(answer, language=self.language)
            return answered is not None and answered.equals(self.number)
        squeezed_answer = _squeezed(answer)
        if squeezed_answer == _squeezed(self.text) or states(answer, self.text):
            return True
        plain_target = unmark(unlatex(self.text))
        if normalise(plain_target) == normalise(answer):
            return True
        return _squeezed(plain_target) == squeezed_answer


def _squeezed(text: str) -> str:
    """A text in lower case without commas, dollar and percent signs, blanks and the full stop."""
    remaining = _IGNORED.sub("", text.lower())
    return remaining.rstrip(".")
