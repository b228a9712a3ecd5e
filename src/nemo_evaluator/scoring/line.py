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
    """Is the announced answer the target? Without ``pattern`` the last announcement counts, else a short last line.
    With one, its last match (group 1)."""
    target = str(sample.target)
    if _PURE_NUMBER.fullmatch(target):
        number = parse_number(target)
    else:
        number = None
    if pattern is not None:
        text = prepare(sample.response)
        hits = list(re.finditer(pattern, text)) or list(re.finditer(pattern, unmark(text)))
        if hits:
            said = unmark(unlatex(hits[-1][1 if hits[-1].lastindex else 0])).strip()
        else:
            said = ""
        return found(said or None, bool(said) and _equal(said, target, number, sample=sample))
    if number is not None:
        given = extract_number(sample.response, language=language_of(sample))
        if given is not None:
            return found(given.canonical, given.equals(number))
    text = readable(sample.response, sample.question)
    for said in claimed_texts(text):
        return found(said, _equal(said, target, number, sample=sample))
    line = unmark(unlatex(text)).strip().rpartition("\n")[2].strip()
    right = bool(line) and _equal(line, target, number, sample=sample)
    # A long last line that is not the target says nothing.
    return found(
        line if right or (line and len(line.split()) <= _LONGEST_BARE_ANSWER) else None, right
    )


def _equal(said: str, target: str, number: Number | None, sample: ScorerInput) -> bool:
    if number is not None:
        given = extract_number(said, language=language_of(sample))
        return given is not None and given.equals(number)
    if _squeezed(said) == _squeezed(target) or states(said, target):
        return True
    plain = unmark(unlatex(target))
    return normalise(plain) == normalise(said) or _squeezed(plain) == _squeezed(said)


def _squeezed(text: str) -> str:
    return _IGNORED.sub("", text.lower()).rstrip(".")
