"""Formulas in responses: each is masked by one letter, so that its commas and words are not taken for prose."""

import re
from typing import Final

from nemo_evaluator.core.lazy import lazy_pattern
from nemo_evaluator.scoring._claims import closing
from nemo_evaluator.scoring._clauses import NamedValues
from nemo_evaluator.scoring._commitments import Commitments
from nemo_evaluator.scoring._patterns import pattern
from nemo_evaluator.scoring._settle import declines, settle
from nemo_evaluator.scoring._text import readable
from nemo_evaluator.scoring._vocabulary import cut_off, is_offer, is_task

_FIRST: Final = 0xE000
_MOST: Final = 6000
_OPEN_BOXES: Final = 8
_SPAN: Final = lazy_pattern(
    r"\$\$([^$]+)\$\$|\$([^$\n]+)\$|\\\(((?:[^\\]|\\[^)])+)\\\)|\\\[((?:[^\\]|\\[^\]])+)\\\]"
)
_BOX: Final = lazy_pattern(r"\\(?:boxed|fbox)\s*\{")
_KNOWN: Final = lazy_pattern("[\ue000-\uf8ff]")
_LEAD: Final = lazy_pattern(r"[\s*_`~#:>\"'“]*")
_PLAIN_END: Final = pattern("formula.plain_end")
_PROSE: Final = lazy_pattern(r"(?<![\\A-Za-z{])[A-Za-z]{3,}")
_JOINT: Final = pattern("formula.joint")
_WORDED: Final = pattern("formula.worded")
_RELATION: Final = lazy_pattern(r"[<>≤≥≠]|\\(?:le|ge|lt|gt|leq|geq|ne|neq)\b|\\in\b")
_BOUND: Final = pattern("formula.bound")
_ASSERTS: Final = pattern("formula.asserts")
_GROUPED: Final = lazy_pattern(r",\\!\s?(?=\d{3})")
# A comma inside a number: 1,000 or 10,\!080.
_GROUP: Final = lazy_pattern(r",(?:\\!|\s?\\,)?\d{3}(?!\d)")
_MINUS: Final = lazy_pattern(r"(?<![A-Za-z]{2}) - (?![A-Za-z]{2})")
_ALTERNATIVES: Final = lazy_pattern(
    r"\s+(?:or|and|oder|ou)\s+(?:maybe\s+)?|(?<=\d)\s*[–—]\s*(?=\d)"
)
_PLACEHOLDERS: Final = ("LETTER", "ANSWER")  # of a prompt that was repeated
_SHORT_LINE: Final = 4
_LAST_LINES: Final = 6
# The sign of a quotation in markdown would be taken for a bound.
_QUOTED: Final = lazy_pattern(r"^\s{0,3}>\s+", re.MULTILINE)
_SENTENCE_END: Final = lazy_pattern(r"(?<=[.!?])\s+")
_REGION: Final = 1000


def is_list(text: str) -> bool:
    """Several values: a comma between them (not inside a number or brackets), a set, a tuple, an interval, "or", ±."""
    formula = text.strip().strip("$").strip()
    if _WORDED.search(formula) or formula.startswith(("\\{", "\\left\\{")):
        return True
    content = formula.replace("\\left", "").replace("\\right", "").strip()
    if content[:1] in ("(", "[") and content[-1:] in (")", "]"):
        content = content[1:-1]
    return len(split_list(content)) > 1


def is_relation(text: str) -> bool:
    """Return whether a formula is an inequality or membership, not a value."""
    return _RELATION.search(text) is not None


def split_list(text: str) -> list[str]:
    """Split a text at the commas that are neither inside brackets nor inside a number."""
    parts: list[str] = []
    depth = 0
    start = 0
    for position, sign in enumerate(text):
        if sign in "([{":
            depth += 1
        elif sign in ")]}":
            depth -= 1
        elif sign == "," and depth <= 0 and not _groups_digits(text, position):
            parts.append(text[start:position])
            start = position + 1
    parts.append(text[start:])
    return [part for part in parts if part.strip()]


def _groups_digits(text: str, position: int) -> bool:
    """Whether a comma is inside a number: 1,000."""
    follows_digit = position > 0 and text[position - 1].isdigit()
    return follows_digit and _GROUP.match(text, position) is not None


class Formulas:
    """Masks formulas and finds them in clauses (see Reader).

    Attributes:
        spans: The masked formulas; the letter of the first is U+E000, of the next U+E001.
    """

    def __init__(self, *, last: bool = False, spans: list[str] | None = None) -> None:
        self.spans: list[str] = [] if spans is None else spans
        # Whether an unannounced clause gives its last formula.
        self._last = last

    def masked(self, text: str) -> str:
        """The text with every formula as one letter; boxes keep their form around it."""
        pieces = []
        position = 0
        open_boxes = 0
        for box in _BOX.finditer(text):
            if box.start() < position or len(self.spans) > _MOST or open_boxes > _OPEN_BOXES:
                continue
            end = closing(text, box.end())
            if end is None:
                open_boxes += 1
                continue
            text_before = text[position : box.start()]
            # A box inside a formula leaves its dollar signs without partners.
            is_in_formula = text_before.count("$") % 2 == 1 or text_before.endswith("$$")
            pieces.append(self._hide_spans(text_before.rstrip("$")))
            pieces.append(f"\\boxed{{{self._hide(text[box.end() : end])}}}")
            position = end + 1
            while is_in_formula and text.startswith("$", position):
                position += 1
        pieces.append(self._hide_spans(text[position:]))
        return "".join(pieces)

    def _hide_spans(self, text: str) -> str:
        if "$" not in text and "\\" not in text:
            return text
        return _SPAN.sub(lambda match: self._hide(match[match.lastindex or 0]), text)

    def _hide(self, formula: str) -> str:
        formula = formula.strip()
        if not formula or len(self.spans) > _MOST:
            return " "
        self.spans.append(formula)
        return chr(_FIRST + len(self.spans) - 1)

    def read(self, clause: str, *, cued: bool) -> NamedValues[str] | None:
        """Find the formulas of a masked clause; a clause without any may be a plain expression."""
        formulas = list(_KNOWN.finditer(clause))
        if not formulas:
            if cued or not (self._last or _PROSE.search(clause)):
                return self._plain(clause)
            return None
        if len(formulas) == 1 and _BOUND.search(clause, 0, formulas[0].start()):
            return None
        chosen = self._chosen(clause, formulas, cued)
        if chosen is None:
            return None
        letters, end = _joined_formulas(clause, chosen)
        values = [self.spans[ord(letter) - _FIRST] for letter in letters]
        opens_clause = _opens(clause, formulas[-1] if self._last and not cued else formulas[0])
        return NamedValues(
            tuple(dict.fromkeys(values)),
            chosen.start(),
            end,
            bare=opens_clause and _ends(clause, end),
        )

    def _chosen(
        self, clause: str, formulas: list[re.Match[str]], cued: bool
    ) -> re.Match[str] | None:
        """Choose the formula that a clause asserts; None if it asserts none."""
        if self._last and not cued:
            return _first_joined(clause, formulas)
        first_formula = formulas[0]
        opens_clause = _opens(clause, first_formula)
        if not cued:
            return first_formula if _is_asserted(clause, first_formula, opens_clause) else None
        if opens_clause or _JOINT.search(clause, first_formula.end()):
            return first_formula
        return formulas[-1]

    def weak(self, line: str) -> NamedValues[str] | None:
        """The formula of a line of at most three words."""
        named_values = self.read(line, cued=True)
        if named_values is not None and len(line.split()) < _SHORT_LINE:
            return named_values
        return None

    def _plain(self, clause: str) -> NamedValues[str] | None:
        """An expression without dollar signs: what the clause begins with, up to prose."""
        lead = _LEAD.match(clause)
        start = lead.end() if lead else 0
        prose = _PLAIN_END.search(clause, start)
        end = prose.start() if prose else len(clause)
        unmarked = clause[start:end].replace("**", "").replace("`", "")
        value = unmarked.strip().strip("$").rstrip(" .!")
        if not value or value in _PLACEHOLDERS or _BOUND.search(clause, 0, start):
            return None
        parts = _ALTERNATIVES.split(value)
        values = tuple(dict.fromkeys(part for part in parts if part))
        return NamedValues(values, start, end, bare=not _PROSE.search(value))


def _ends(clause: str, end: int) -> bool:
    """Whether nothing but signs follows."""
    return not clause[end:].strip(" *_`.,!)")


def _opens(clause: str, formula: re.Match[str]) -> bool:
    """Whether nothing but signs precedes a formula."""
    return not clause[: formula.start()].strip(" *_`~#:>\"'“=")


def _is_asserted(clause: str, formula: re.Match[str], opens: bool) -> bool:
    """Whether an unannounced clause is nothing but a formula, or says that "it is" the formula."""
    if opens and _ends(clause, formula.end()):
        return True
    return _ASSERTS.search(clause, 0, formula.start()) is not None


def _first_joined(clause: str, formulas: list[re.Match[str]]) -> re.Match[str]:
    """The first of the formulas to which the last one is joined: "possible values: a and b"."""
    first_formula = formulas[-1]
    for formula in reversed(formulas[:-1]):
        joint = _JOINT.match(clause, formula.end(), first_formula.start())
        if joint is None or joint.end() != first_formula.start():
            break
        first_formula = formula
    return first_formula


def _joined_formulas(clause: str, first: re.Match[str]) -> tuple[list[str], int]:
    """The letters of a formula and of those joined to it, and where they end."""
    letters = [first[0]]
    end = first.end()
    while (joint := _JOINT.match(clause, end)) is not None:
        following = _KNOWN.match(clause, joint.end())
        if following is None:
            break
        letters.append(following[0])
        end = following.end()
    return letters, end


def extract_expression(response: str, *, listed: bool = False, question: str = "") -> str | None:
    """Find the expression that a response commits to.

    Args:
        response: The response.
        listed: Whether the target is a list, so that several expressions are an answer.
        question: The question, which does not count where the response repeats it.

    Returns:
        The expression, or several joined by commas; None if the response commits to none.
    """
    # A dollar sign of money would be taken for the end of a formula, and adds nothing to its value.
    reader = Formulas()
    text = _QUOTED.sub("", readable(response, question).replace("\\$", ""))
    # A thin space groups digits; a dash between terms is a minus, not the end of a clause.
    text = reader.masked(_MINUS.sub("-", _GROUPED.sub(",", text)))
    settled = settle(text, reader, lambda part: _unannounced(part, reader, listed=listed))
    if not settled or (len(settled) > 1 and not listed):
        return None
    return ", ".join(settled)


def _unannounced(text: str, reader: Formulas, *, listed: bool) -> tuple[str, ...] | None:
    """A short last line, else the formulas of the last sentence."""
    lines = [line for line in text.split("\n") if line.strip()]
    if not lines or declines(text[-_REGION:]) or cut_off(text):
        return None
    last_line = lines[-1]
    if not _KNOWN.search(last_line) and _is_expression(last_line):
        return _plain_expression(last_line)
    for line in reversed(lines[-_LAST_LINES:]):
        sentence = _last_sentence(line)
        if is_offer(sentence):
            continue
        if is_task(sentence):
            return None
        if _KNOWN.search(line):
            return _last_formulas(line, reader, listed=listed)
    return None


def _is_expression(line: str) -> bool:
    """Whether a line may be an expression without dollar signs: it is short, or has no prose."""
    return len(line.split()) <= _SHORT_LINE or not _PROSE.search(line)


def _plain_expression(line: str) -> tuple[str, ...] | None:
    """The expression of a line without dollar signs; None if the line is a task or only announces an answer."""
    expression = line.replace("**", "").strip("`# \t").rstrip(".")
    if not expression or is_task(line) or "answer" in line.lower():
        return None
    return (expression,)


def _last_sentence(line: str) -> str:
    """The last sentence of a line; "" if there is none."""
    for sentence in reversed(_SENTENCE_END.split(line)):
        if sentence.strip():
            return sentence
    return ""


def _last_formulas(line: str, reader: Formulas, *, listed: bool) -> tuple[str, ...] | None:
    """The formulas to which a line without an announcement commits; of an equation, the right side.

    Several equations in one formula ("x = 1, x = -2") are a list, if one is wanted.
    """
    last_formula_reader = Formulas(last=True, spans=reader.spans)
    ledger: Commitments[str] = Commitments(last_formula_reader, free=True)
    ledger.add_text(line, 0, len(line), cued=False)
    results: list[str] = []
    for value in ledger.values:
        is_kept = listed and len(split_list(value)) > 1
        right_side = value.rpartition("=")[2].strip()
        results.append(value if is_kept else right_side or value)
    return tuple(results) or None
