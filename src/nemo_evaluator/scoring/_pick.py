"""How a pick is found in a response: announced, chosen in words, at the start of a line, or by the option's text."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from nemo_evaluator.scoring._claims import Claim, Kind, claims, foreign_claims
from nemo_evaluator.scoring._text import normalise, prepare, unlatex, unmark

_LOOKALIKES: Final = str.maketrans("АВСЕНΑΒΕΗＡＢＣＤＥＦＧＨＩＪａｂｃｄｅ１２３４５", "ABCEHABEHABCDEFGHIJabcde12345")
# "Answer: A dog", "Answer: I think ...": words, not letters.
_AFTER_I: Final = re.compile(
    r"['’]|\s+(?:think|believe|would|am|do|don|can|cannot|will|have|need|was|know|guess|was|apolog|chose)", re.I
)
_CONNECTIVE: Final = re.compile(
    r"\s+(?:because|since|as|is|was|and|or|for|due|with|based|given|which|where|but|so|here|would|should|seems|makes"
    r"|best|\(|[-–—:=|/,.])", re.IGNORECASE,
)  # fmt: skip
_SLACK: Final = 8
_CLOSERS: Final = "*_`~\"'”’)]}>$.,:;!|\\ \t"


_STRANGE: Final = re.compile(r"[\s*_`~\"'“‘$({\[<]*([A-Z])[*_`~\"'”’)\]}>$.,:;!\s]*")
_SINGLE: Final = re.compile(r"(?<![\w'’])\w(?![\w'’])")


class _Patterns:
    """The expressions for one set of labels."""

    def __init__(self, labels: str) -> None:
        both = re.escape("".join(dict.fromkeys(labels.upper() + labels.lower())))
        upper = re.escape(labels.upper())
        opening = (
            r"[\s*_`~\"'“‘$({\[<>:|#-]*(?:(?:the\s+)?(?:correct\s+)?(?:option|choice|letter|answer)\b[\s*_`:\"'(\[]*)?"
        )
        self.opening = re.compile(rf"{opening}([{both}])(?![\w'’])", re.IGNORECASE)
        self.article = re.compile(rf"{opening}([AI])(?=['’]?\w|\s)", re.IGNORECASE)
        self.hedge = re.compile(
            rf"[)\]*.\s]*(?:/|,|\bor\b|\band\b|&)\s*(?:option\s+)?[(*]*([{upper}])(?=[)*.,\s]*(?:$|\n|[)\].,]))"
        )
        self.said = re.compile(
            rf"(?:(?:correct|right|best|final)\s+(?:option|choice|letter|one|statement|completion|ending)\s*(?:\w+\s+)?(?:is|:|would\s+be)"
            rf"|\b(?:choose|select|pick|go(?:ing)?\s+with|opt\s+for|ans\s*[:.=])\s*)"
            rf"[\s:*_`\"'(\[]*(?:(?:option|choice|letter|answer)\s*)?[\s:*_`\"'(\[]*([{upper}])(?![\w'’])"
            rf"|(?<![\w'’])[(\[*]{{0,4}}([{upper}])[)\]*.]{{0,4}}\s+(?:is|must\s+be|would\s+be|seems)\s+(?:the\s+)?"
            rf"(?:\w+ly\s+)?(?:correct|right|best|true|most\s+\w+|only)\b",
            re.IGNORECASE,
        )
        self.line = re.compile(
            rf"^[ \t*_`~>#\"'-]{{0,12}}(?:option\s+|choice\s+)?"
            rf"(?:[(\[]\s*([{both}])\s*[)\]]|([{upper}])(?:\s*[).:*]|\s*$|\s+[-–—]\s))",
            re.MULTILINE | re.IGNORECASE,
        )
        self.late = re.compile(
            rf"(?:\bis|['’]s|\bbe|\boption|\bchoice|\bletter|[-=]>|→)\s*:?\s*[(\[*]*([{upper}])[)\]*]*(?![\w'’]|\s+[a-z])"
        )
        self.alone = re.compile(rf"(?<![A-Za-z'’])([{upper}])(?![A-Za-z])")
        self.parens = re.compile(rf"[(\[]([{upper}])[)\]]")


@lru_cache(maxsize=64)
def _patterns(labels: str) -> _Patterns:
    return _Patterns(labels)


def pick(text: str, labels: str, options: Mapping[str, str] | None = None) -> str | None:
    """The label a response picks; several joined by a comma when it will not decide; None when it picks none."""
    text = _plain(prepare(text))
    patterns = _patterns(labels)
    for claim in claims(text):
        label = _claimed(claim, patterns, options)
        if label is not None:
            return label
    for claim in foreign_claims(text):
        label = _claimed(claim, patterns, options) or _standing(claim.text, patterns)
        if label is not None:
            return label
    return _unannounced(text.strip(), patterns, options)


def _plain(text: str) -> str:
    return text if text.isascii() else prepare(text).translate(_LOOKALIKES)


def _claimed(claim: Claim, patterns: _Patterns, options: Mapping[str, str] | None) -> str | None:
    text = unlatex(claim.text)
    if claim.kind is Kind.BEFORE:
        tokens = _SINGLE.findall(text)
        label = tokens[-1].upper() if tokens and patterns.opening.fullmatch(tokens[-1]) else None
        return label or _by_text(text, options)
    match = patterns.opening.match(text)
    if match is None:
        if claim.kind is Kind.WEAK:
            return None
        # A letter that was not offered is an answer too, and a wrong one.
        strange = _STRANGE.fullmatch(text)
        return _by_text(text, options) or _late(text, patterns) or (strange[1] if strange else None)
    rest = text[match.end() :]
    bare = not rest.strip(_CLOSERS)
    if claim.kind is Kind.WEAK:
        return match[1] if bare and not match[1].islower() else None
    return match[1].upper() if bare else _verbatim(text, options) or _with_rest(text, match, patterns, options)


def _with_rest(text: str, match: re.Match[str], patterns: _Patterns, options: Mapping[str, str] | None) -> str | None:
    """A letter with words behind it: the option's text, an explanation, a second letter, or no letter at all."""
    label, rest = match[1].upper(), text[match.end() :]
    hedged = patterns.hedge.match(rest)
    if hedged:
        return f"{label},{hedged[1].upper()}"
    if rest[0] in _CLOSERS[:-2] or not label.isalpha():
        return label
    if match[1].islower():
        return _by_text(text, options) or (label if _CONNECTIVE.match(rest) and label != "A" else None)
    if label == "I" and _AFTER_I.match(rest):
        return _by_text(text, options) or _late(text, patterns)
    if label == "A" and not _CONNECTIVE.match(rest):
        return _by_text(text, options) or label
    return label


def _late(text: str, patterns: _Patterns) -> str | None:
    late = patterns.late.findall(text)
    return str(late[-1]) if late else None


def _standing(text: str, patterns: _Patterns) -> str | None:
    """The first letter that stands by itself: what other languages put before it ("es la opción B") is not known."""
    alone = patterns.alone.search(text)
    return alone[1] if alone else None


def _verbatim(text: str, options: Mapping[str, str] | None) -> str | None:
    """The label whose option is the text, letter for letter: "A and B" and "B. F. Skinner" are options at times."""
    if not options:
        return None
    said = _folded(text)
    same = [key for key, option in options.items() if abs(len(option) - len(text)) < _SLACK and _folded(option) == said]
    return same[0] if len(same) == 1 else None


def _folded(text: str) -> str:
    return " ".join(_plain(unlatex(text)).casefold().strip(" .*_`\"'$").split())


def _by_text(text: str, options: Mapping[str, str] | None) -> str | None:
    """The label whose option text a short text states, when it is one and only one."""
    if not options:
        return None
    verbatim = _verbatim(text, options)
    if verbatim is not None:
        return verbatim
    said = f" {normalise(unmark(text))} "
    held = [(f" {plain} ", label) for label, option in options.items() if (plain := normalise(unlatex(_plain(option))))]
    exact = [label for option, label in held if option == said]
    if len(exact) == 1:
        return exact[0]
    inside = [(option, label) for option, label in held if option in said]
    widest = [(o, label) for o, label in inside if not any(o != other and o in other for other, _ in inside)]
    return widest[0][1] if len(widest) == 1 else None


def _unannounced(text: str, patterns: _Patterns, options: Mapping[str, str] | None) -> str | None:
    if not text:
        return None
    lines = text.split("\n")
    for line in (lines[-1], lines[0]):
        alone = patterns.opening.fullmatch(line.rstrip(_CLOSERS))
        if alone is not None:
            return alone[1].upper()
    begun = {(m[1] or m[2]).upper() for m in patterns.line.finditer(text)}
    if len(begun) == 1 and len(lines) == 1:
        return _verbatim(text, options) or begun.pop()
    said = [label for m in patterns.said.finditer(text) if not (label := m[1] or m[2]).islower()]
    if said:
        return said[-1].upper()
    if len(begun) == 1:
        return begun.pop()
    last = patterns.line.match(lines[-1]) if len(begun) > 1 and not lines[-2].strip() else None
    if last is not None:
        return (last[1] or last[2]).upper()
    stated = _by_text(text, options) or _by_text(lines[-1], options)
    return stated or _late(lines[-1], patterns) or _in_parens(text, patterns)


def _in_parens(text: str, patterns: _Patterns) -> str | None:
    named = {m[1].upper() for m in patterns.parens.finditer(text.rpartition("\n\n")[2])}
    return named.pop() if len(named) == 1 else None
