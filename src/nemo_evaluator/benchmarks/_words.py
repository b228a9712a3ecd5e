"""Answers that are one of a few words: yes or no, true or false, valid or invalid.

Each word that answers is replaced by one letter first, so that "no" is not read as a denial, and the grammar of the
other scorers weighs what the response commits to. ``READINGS`` lists the forms that are more than the word itself.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from nemo_evaluator.scoring import Score, ScorerInput, found, normalise, readable, versioned
from nemo_evaluator.scoring._clauses import NamedValues
from nemo_evaluator.scoring._commitments import Commitments
from nemo_evaluator.scoring._settle import settle
from nemo_evaluator.scoring._text import unlatex
from nemo_evaluator.scoring._vocabulary import cut_off

_FIRST: Final = 0xE000
_REGION: Final = 4000
_MARKUP: Final = " \t\n*_#>`\"'“”‘’$({[✅❌☑✓✔✗✘-"
_BOLD: Final = re.compile(r"\*\*([^*\n]+)\*\*")
_JOINED: Final = re.compile(
    r"[\s*_`\"'”’)]*(?:/|&|,?\s*\b(?:or|and|nor)\b)[\s*_`\"'“‘(]*(?:\w+\s){0,2}[\ue000\ue001]",
    re.IGNORECASE,
)
# What may follow a "no" that answers. Before any other word, "no" belongs to that word: "no treaty".
_NO_DETERMINER: Final = (
    r"(?!\s+(?!(?:because|since|as|but|and|or|it|the|there|they|he|she|this|that|these|those|according|due|given"
    r"|although|though|while|in|for|if|so|when|where|we|i|you|its|his|her|based|would|is|was|does|not)\b)\w)"
)
_RESULT: Final = re.compile(
    r"(?:=|→|[-=]>|\b(?:is|evaluates to|gives|becomes|equals|follows|hence"
    r"|so))[\s:*_`$(]*([\ue000\ue001])[\s*_`$).!]*\Z",
    re.IGNORECASE,
)


_OPINION: Final = re.compile(
    r"\b(?:many|some|others|people|one|you|we)\b(?: people)?(?: (?:would|might|may|could))?(?: be)?(?: tempted to)?"
    r" (?:say|think|answer|claim|guess)s? (?:yes|no|true|false|valid|invalid)\b",
    re.IGNORECASE,
)
_COLON: Final = re.compile(r"([\ue000\ue001]):")


class WordReading(NamedTuple):
    """A form of words that stands for an answer.

    Attributes:
        form: The expression.
        word: The answer.
        examples: Responses, each with the word that it settles on (None: neither).
    """

    form: re.Pattern[str]
    word: str
    examples: Mapping[str, str | None]


def _reading(form: str, word: str, examples: Mapping[str, str | None]) -> WordReading:
    return WordReading(re.compile(form, re.IGNORECASE), word, examples)


# The forms are tried in this order; the first one that matches at a place counts.
READINGS: Final = (
    _reading(
        r"\b(?:there (?:is|['’]s)|without(?: a)?|there['’]s)?\s*(?:no|any|a)?\s*(?:doubt"
        r"|question)(?: whatsoever)?,? that"
        r" (?:this|that|it|the (?:claim|statement)) (?:is|was) (?:indeed )?(?:the case|so|true|correct|right)\b",
        "yes",
        {"There is no doubt that this is the case.": "yes"},
    ),
    _reading(
        r"(?:^|(?<=[.!?:*]\s)|(?<=[*:]))\s*(?:absolutely|definitely|certainly|clearly|of course"
        r") not(?=\W*(?:$|[.!,;:]))",
        "no",
        {"Absolutely not.": "no", "It is absolutely not clear.": None},
    ),
    _reading(
        r"\b(?:not|never|isn['’]t|is not|cannot be|can['’]t be)\s+(?:\w+ly\s+|a\s+)?[(*]*valid\b",
        "invalid",
        {"The argument is not valid.": "invalid"},
    ),
    _reading(
        r"\b(?:not|isn['’]t)\s+\(?\**true\b\)?",
        "false",
        {"That is not true.": "false", "not True is False": "false"},
    ),
    _reading(
        r"\b(?:not|isn['’]t)\s+\(?\**false\b\)?", "true", {"not (False) = True": "true"}
    ),
    _reading(
        r"(?<!there is )(?<!there was )(?<!there are )(?<!has )(?<!have )(?<!had )\bno\b(?![-'’]\w)" + _NO_DETERMINER,
        "no",
        {"Answer: no because it was late.": "no", "There was no treaty.": None},
    ),
    _reading(r"\byes\b", "yes", {"The answer is yes because there was no treaty.": "yes"}),
    _reading(r"\binvalid\b", "invalid", {"It is invalid.": "invalid"}),
    _reading(r"\bvalid\b", "valid", {"Answer: valid": "valid"}),
    _reading(r"\bfalse\b", "false", {"= False": "false"}),
    _reading(r"\btrue\b", "true", {"So it is **True**.": "true"}),
)  # fmt: skip


@versioned("3")
def one_of(sample: ScorerInput, words: Sequence[str]) -> Score:
    """Score whether the response settles on the target word.

    Args:
        sample: The answer.
        words: The two words to choose from. A response that names both and chooses none settles on neither.
    """
    picked = pick_word(sample.response, words, sample.question)
    return found(picked, picked == normalise(str(sample.target)))


def pick_word(response: str, words: Sequence[str], question: str = "") -> str | None:
    """Find the word that a response settles on.

    The last announced answer counts first, then the word that the response opens with, its last line, its last bold
    text and the whole text. Only an announced answer counts if the response is cut off.

    Args:
        response: The response.
        words: The two words to choose from.
        question: The question; where the response repeats it, that is not an answer.

    Returns:
        The normalised word, or None if the response settles on none.
    """
    reader = _Words([normalise(word) for word in words])
    text = reader.masked(unlatex(readable(response, question), boxes=True))
    settled = settle(text, reader, lambda part: _unannounced(part, reader))
    if settled and len(settled) == 1:
        return settled[0]
    return None


class _Words:
    """Masks the words that answer, and finds them in clauses (see Reader)."""

    def __init__(self, words: Sequence[str]) -> None:
        self._words = {chr(_FIRST + number): word for number, word in enumerate(words)}

    def masked(self, text: str) -> str:
        """Replace each word that answers by its letter; what others might say is left out."""
        text = _OPINION.sub(" ", text)
        letters = {word: letter for letter, word in self._words.items()}
        for reading in READINGS:
            letter = letters.get(reading.word)
            if letter is not None:
                text = reading.form.sub(letter, text)
        # "No: although ..." is a sentence and its reason.
        return _COLON.sub(r"\1.", text)

    def signs(self, text: str) -> list[str]:
        """The letters of a text that stand for words, in their order."""
        return [sign for sign in text if sign in self._words]

    def read(self, clause: str, *, cued: bool) -> NamedValues[str] | None:
        """Find the word of a clause; both if it names both and states no result."""
        signs = self.signs(clause)
        if not signs:
            return None
        start = clause.index(signs[0])
        opens = not clause[:start].strip(_MARKUP)
        if opens and _JOINED.match(clause, start + 1) is None:
            is_bare = not clause[start + 1 :].strip(_MARKUP + ".,!:;)]}")
            return NamedValues((self._words[signs[0]],), start, start + 1, bare=is_bare)
        result = _RESULT.search(clause)
        if result is not None:
            return NamedValues((self._words[result[1]],), result.start(1), result.end(1))
        values = tuple(dict.fromkeys(self._words[sign] for sign in signs))
        return NamedValues(values, start, clause.rindex(signs[-1]) + 1)

    def weak(self, line: str) -> NamedValues[str] | None:
        """The word of a line that consists of it alone."""
        named_values = self.read(line, cued=True)
        if named_values is not None and named_values.bare:
            return named_values
        return None


def _unannounced(text: str, reader: _Words) -> tuple[str, ...] | None:
    """The word of a response that announces nothing; None if no part of it settles on one."""
    if not text or cut_off(text):
        return None
    for ledger in _ledgers(text[-_REGION:], reader):
        if ledger.values or ledger.retracted:
            return ledger.values
    return None


def _ledgers(text: str, reader: _Words) -> Iterator[Commitments[str]]:
    """Yield what the parts of a response commit to, the most telling part first."""
    if reader.signs(text.lstrip(_MARKUP)[:1]):
        opening: Commitments[str] = Commitments(reader)
        opening.add_text(text, 0, len(text), cued=True)
        yield opening
    parts = [text.rstrip().rpartition("\n")[2]]
    bold = _BOLD.findall(text)
    if bold:
        parts.append(bold[-1])
    if len(set(reader.signs(text))) == 1:
        parts.append(text)
    for part in parts:
        ledger: Commitments[str] = Commitments(reader, free=True)
        ledger.add_text(part, 0, len(part), cued=False)
        yield ledger
