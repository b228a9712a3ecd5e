"""The answer on its line: ``Answer: ...``, a box, or the last line; compared as number or text."""

import re
from typing import Final

from nemo_evaluator.core.lazy import lazy_pattern
from nemo_evaluator.scoring._text import normalise, prepare, readable, unlatex, unmark
from nemo_evaluator.scoring.number import Number, extract_number, language_of, parse_number
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
    target = str(sample.target)
    number = parse_number(target) if _PURE_NUMBER.fullmatch(target) else None
    if pattern is not None:
        answer = _last_match(pattern, sample.response)
        is_right = answer != "" and _equal(answer, target, number, sample=sample)
        return found(answer or None, is_right)
    if number is not None:
        announced = extract_number(sample.response, language=language_of(sample))
        if announced is not None:
            return found(announced.canonical, announced.equals(number))
    text = readable(sample.response, sample.question)
    claimed = next(claimed_texts(text), None)
    if claimed is not None:
        return found(claimed, _equal(claimed, target, number, sample=sample))
    line = unmark(unlatex(text)).strip().rpartition("\n")[2].strip()
    if not line:
        return found(None, False)
    if _equal(line, target, number, sample=sample):
        return found(line, True)
    # A long last line that is not the target is not an answer.
    is_short = len(line.split()) <= _LONGEST_BARE_ANSWER
    return found(line if is_short else None, False)


def _last_match(pattern: str, response: str) -> str:
    """Group 1 of the last match, or the whole match of a pattern without groups; "" without a match."""
    text = prepare(response)
    matches = list(re.finditer(pattern, text)) or list(re.finditer(pattern, unmark(text)))
    if not matches:
        return ""
    last_match = matches[-1]
    answer = last_match[1] if last_match.lastindex else last_match[0]
    return unmark(unlatex(answer)).strip()


def _equal(answer: str, target: str, number: Number | None, sample: ScorerInput) -> bool:
    """Whether an answer is the target: as a number if the target is one, else as text."""
    if number is not None:
        answered = extract_number(answer, language=language_of(sample))
        return answered is not None and answered.equals(number)
    if _squeezed(answer) == _squeezed(target) or states(answer, target):
        return True
    plain_target = unmark(unlatex(target))
    return normalise(plain_target) == normalise(answer) or _squeezed(plain_target) == _squeezed(
        answer
    )


def _squeezed(text: str) -> str:
    return _IGNORED.sub("", text.lower()).rstrip(".")
