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
_PLACEHOLDERS: Final = ("LETTER", "ANSWER")  # of a prompt that was repeated
_SHORT_LINE: Final = 4
_REGION: Final = 1000


def is_list(text: str) -> bool:
    """Several values: a comma between them (not inside a number or brackets), a set, a tuple, an interval, "or", ±."""
    bare = text.strip().strip("$").strip()
    if _WORDED.search(bare) or bare.startswith(("\\{", "\\left\\{")):
        return True
    opened = bare.replace("\\left", "").replace("\\right", "").strip()
    return (
        len(
            split_list(
                opened[1:-1] if opened[:1] in ("(", "[") and opened[-1:] in (")", "]") else opened
            )
        )
        > 1
    )


def is_relation(text: str) -> bool:
    """An inequality or membership, not a value."""
    return _RELATION.search(text) is not None


def split_list(text: str) -> list[str]:
    """The parts between commas that are neither inside brackets nor inside a number."""
    parts = []
    depth = 0
    start = 0
    for at, sign in enumerate(text):
        if sign in "([{":
            depth += 1
        elif sign in ")]}":
            depth -= 1
        elif (
            sign == ","
            and depth <= 0
            and not (at and text[at - 1].isdigit() and _GROUP.match(text, at))
        ):
            parts.append(text[start:at])
            start = at + 1
    parts.append(text[start:])
    return [part for part in parts if part.strip()]


class Formulas:
    """Masks formulas and reads them in clauses (see Reader). ``last``: an unannounced clause gives its last one."""

    def __init__(self, *, last: bool = False, spans: list[str] | None = None) -> None:
        self.spans: list[str] = [] if spans is None else spans
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
            open_boxes += end is None
            if end is not None:
                before = text[position : box.start()]
                # A box inside a formula leaves its dollar signs without partners.
                inside = before.count("$") % 2 == 1 or before.endswith("$$")
                pieces += [
                    self._hide_spans(before.rstrip("$")),
                    f"\\boxed{{{self._hide(text[box.end() : end])}}}",
                ]
                position = end + 1
                while inside and text.startswith("$", position):
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
        known = list(_KNOWN.finditer(clause))
        if not known:
            if cued or not (self._last or _PROSE.search(clause)):
                return self._plain(clause)
            return None
        chosen = known[-1] if self._last and not cued else known[0]
        start, end = chosen.span()
        opens = not clause[:start].strip(" *_`~#:>\"'“=")
        if not (
            cued
            or self._last
            or (opens and not clause[end:].strip(" *_`.,!)"))
            or _ASSERTS.search(clause, 0, start)
        ):
            return None
        if cued and not opens and not _JOINT.search(clause, end):
            chosen = known[-1]
            start, end = chosen.span()
        if _BOUND.search(clause, 0, start) and len(known) == 1:
            return None
        if self._last and not cued:
            # "Possible values: a and b": the last one is one of several.
            for earlier in reversed(known[:-1]):
                joint = _JOINT.match(clause, earlier.end(), start)
                if joint is None or joint.end() != start:
                    break
                start, end, chosen = *earlier.span(), earlier
        values = [chosen[0]]
        while (joint := _JOINT.match(clause, end)) is not None and (
            following := _KNOWN.match(clause, joint.end())
        ):
            values.append(following[0])
            end = following.end()
        said = tuple(dict.fromkeys(self.spans[ord(value) - _FIRST] for value in values))
        return NamedValues(said, start, end, bare=opens and not clause[end:].strip(" *_`.,!)"))

    def weak(self, line: str) -> NamedValues[str] | None:
        said = self.read(line, cued=True)
        if said is not None and len(line.split()) <= _SHORT_LINE - 1:
            return said
        return None

    def _plain(self, clause: str) -> NamedValues[str] | None:
        lead = _LEAD.match(clause)
        if lead:
            start = lead.end()
        else:
            start = 0
        cut = _PLAIN_END.search(clause, start)
        if cut:
            end = cut.start()
        else:
            end = len(clause)
        value = (
            clause[start:end].replace("**", "").replace("`", "").strip().strip("$").rstrip(" .!")
        )
        if not value or value in _PLACEHOLDERS or _BOUND.search(clause, 0, start):
            return None
        parts = re.split(r"\s+(?:or|and|oder|ou)\s+(?:maybe\s+)?|(?<=\d)\s*[–—]\s*(?=\d)", value)
        return NamedValues(
            tuple(dict.fromkeys(part for part in parts if part)),
            start,
            end,
            bare=not _PROSE.search(value),
        )


def extract_expression(response: str, *, listed: bool = False, question: str = "") -> str | None:
    """The expression a response commits to; several, joined by commas, only where a list is wanted."""
    # A dollar sign of money would be taken for the end of a formula, and adds nothing to its value.
    reader = Formulas()
    text = readable(response, question).replace("\\$", "")
    # A thin space groups digits; a dash between terms is a minus, not the end of a clause.
    text = reader.masked(_MINUS.sub("-", _GROUPED.sub(",", text)))
    settled = settle(text, reader, lambda part: _unannounced(part, reader))
    if not settled or (len(settled) > 1 and not listed):
        return None
    return ", ".join(settled)


def _unannounced(text: str, reader: Formulas) -> tuple[str, ...] | None:
    """A short last line, else the formulas of the last sentence."""
    lines = [line for line in text.split("\n") if line.strip()]
    if not lines or declines(text[-_REGION:]) or cut_off(text):
        return None
    last = lines[-1]
    if not _KNOWN.search(last) and (len(last.split()) <= _SHORT_LINE or not _PROSE.search(last)):
        plain = last.replace("**", "").strip("`# \t").rstrip(".")
        if plain and not is_task(last) and "answer" not in last.lower():
            return (plain,)
        return None
    for line in reversed(lines[-6:]):
        sentence = next(
            (piece for piece in reversed(re.split(r"(?<=[.!?])\s+", line)) if piece.strip()), ""
        )
        if is_offer(sentence):
            continue
        if is_task(sentence):
            return None
        if _KNOWN.search(line):
            ledger: Commitments[str] = Commitments(
                Formulas(last=True, spans=reader.spans), free=True
            )
            ledger.add_text(line, 0, len(line), cued=False)
            return (
                tuple(value.rpartition("=")[2].strip() or value for value in ledger.values) or None
            )
    return None
