"""Which of the offered letters a response picks."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from nemo_evaluator.scoring._claims import Claim, Kind, claims, foreign_claims
from nemo_evaluator.scoring._text import normalise, prepare, unlatex, unmark
from nemo_evaluator.scoring.types import Score, ScorerInput, found, versioned

_LOOKALIKES: Final = str.maketrans("АВСЕНΑΒΕΗＡＢＣＤＥＦＧＨＩＪａｂｃｄｅ１２３４５", "ABCEHABEHABCDEFGHIJabcde12345")
_CLASS: Final = re.compile(r"\[([A-Za-z0-9])-([A-Za-z0-9])\]|\[([A-Za-z0-9]{2,})\]")
# "Answer: A dog", "Answer: I think ...": words, not letters.
_AFTER_I: Final = re.compile(
    r"['’]|\s+(?:think|believe|would|am|do|don|can|cannot|will|have|need|was|know|guess|was|apolog|chose)", re.I
)
_CONNECTIVE: Final = re.compile(
    r"\s+(?:because|since|as|is|was|and|or|for|due|with|based|given|which|where|but|so|here|would|should|seems|makes"
    r"|best|\(|[-–—:=|/,.])", re.IGNORECASE,
)  # fmt: skip
_CLOSERS: Final = "*_`~\"'”’)]}>$.,:;!|\\ \t"


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
            rf"|(?<![\w'’])[(\[*]*([{upper}])[)\]*.]*\s+(?:is|must\s+be|would\s+be|seems)\s+(?:the\s+)?"
            rf"(?:\w+ly\s+)?(?:correct|right|best|true|most\s+\w+|only)\b",
            re.IGNORECASE,
        )
        self.line = re.compile(
            rf"^[\s*_`~>#\"'-]*(?:option\s+|choice\s+)?(?:[(\[]\s*([{both}])\s*[)\]]|([{upper}])(?:\s*[).:*]|\s*$|\s+[-–—]\s))",
            re.M | re.I,
        )
        self.late = re.compile(
            rf"(?:\bis|['’]s|\bbe|\boption|\bchoice|\bletter|[-=]>|→)\s*:?\s*[(\[*]*([{upper}])[)\]*]*(?![\w'’]|\s+[a-z])"
        )
        self.parens = re.compile(rf"[(\[]([{upper}])[)\]]")


@lru_cache(maxsize=64)
def _patterns(labels: str) -> _Patterns:
    return _Patterns(labels)


def options_of(sample: ScorerInput) -> dict[str, str]:
    """The option texts of a sample by label, if the row has them (``options``, ``choices`` or columns A, B, ...)."""
    metadata = sample.metadata
    offered = metadata.get("options") or metadata.get("choices")
    if isinstance(offered, Mapping) and "text" in offered:
        labels = offered.get("label") or _letters(len(offered["text"]))
        return {str(label): str(text) for label, text in zip(labels, offered["text"], strict=False)}
    if isinstance(offered, Mapping):
        return {str(label): str(text) for label, text in offered.items() if len(str(label)) == 1}
    if isinstance(offered, Sequence) and not isinstance(offered, str):
        return {label: str(text) for label, text in zip(_letters(len(offered)), offered, strict=False) if str(text)}
    if "A" in metadata and "B" in metadata:
        return {letter: str(metadata[letter]) for letter in "ABCDEFGHIJ" if metadata.get(letter) is not None}
    return {}


def _letters(count: int) -> str:
    return "ABCDEFGHIJKLMNOPQRSTUVWXYZ"[:count]


def pick(text: str, labels: str, options: Mapping[str, str] | None = None) -> str | None:
    """The label a response picks; several joined by a comma when it will not decide; None when it picks none."""
    text = prepare(text)
    if not text.isascii():
        text = text.translate(_LOOKALIKES)
    patterns = _patterns(labels)
    for source in (claims, foreign_claims):
        for claim in source(text):
            label = _claimed(claim, patterns, options)
            if label is not None:
                return label
    return _unannounced(text, patterns, options)


def _claimed(claim: Claim, patterns: _Patterns, options: Mapping[str, str] | None) -> str | None:
    text = unlatex(claim.text)
    if claim.kind is Kind.BEFORE:
        tokens = [m[0] for m in re.finditer(r"(?<![\w'’])\w(?![\w'’])", text)]
        label = tokens[-1].upper() if tokens and patterns.opening.fullmatch(tokens[-1].upper()) else None
        return label or by_text(text, options)
    match = patterns.opening.match(text)
    if match is None:
        return by_text(text, options) or _late(text, patterns)
    label, rest = match[1].upper(), text[match.end() :]
    bare = not rest.strip(_CLOSERS)
    if claim.kind is Kind.WEAK:
        return label if bare and (match[1] == label) else None
    if bare or rest[0] in _CLOSERS[:-2] or not label.isalpha():
        hedged = patterns.hedge.match(rest)
        return f"{label},{hedged[1].upper()}" if hedged else label
    hedged = patterns.hedge.match(rest)
    if hedged:
        return f"{label},{hedged[1].upper()}"
    if match[1] != label:
        return by_text(text, options) or (label if _CONNECTIVE.match(rest) and label != "A" else None)
    if label == "I" and _AFTER_I.match(rest):
        return by_text(text, options) or _late(text, patterns)
    if label == "A" and not _CONNECTIVE.match(rest) and options:
        return by_text(text, options) or label
    return label


def _late(text: str, patterns: _Patterns) -> str | None:
    late = patterns.late.findall(text)
    return str(late[-1]) if late else None


def by_text(text: str, options: Mapping[str, str] | None) -> str | None:
    """The label whose option text a short text states, when it is one and only one."""
    if not options:
        return None
    said = f" {normalise(unmark(text))} "
    held = [(f" {plain} ", label) for label, option in options.items() if (plain := normalise(unlatex(option)))]
    exact = [label for option, label in held if option == said]
    if len(exact) == 1:
        return exact[0]
    inside = [(option, label) for option, label in held if option in said]
    widest = [(o, label) for o, label in inside if not any(o != other and o in other for other, _ in inside)]
    return widest[0][1] if len(widest) == 1 else None


def _unannounced(text: str, patterns: _Patterns, options: Mapping[str, str] | None) -> str | None:
    bare = text.strip()
    if not bare:
        return None
    whole = patterns.opening.fullmatch(bare.rstrip(_CLOSERS))
    if whole is not None:
        return whole[1].upper()
    said = [
        m[1] or m[2] for m in patterns.said.finditer(bare) if (m[1] or m[2]).isupper() or not (m[1] or m[2]).isalpha()
    ]
    if said:
        return said[-1].upper()
    lines = bare.split("\n")
    for line in (lines[-1], lines[0]):
        alone = patterns.opening.fullmatch(line.rstrip(_CLOSERS))
        if alone is not None:
            return alone[1].upper()
    begun = {(m[1] or m[2]).upper() for m in patterns.line.finditer(bare)}
    if len(begun) == 1:
        return begun.pop()
    last = patterns.line.match(lines[-1]) if len(begun) > 1 and len(lines) > 1 and not lines[-2].strip() else None
    if last is not None:
        return (last[1] or last[2]).upper()
    stated = by_text(bare, options) or by_text(lines[-1], options)
    if stated is not None:
        return stated
    paragraph = bare.rpartition("\n\n")[2]
    named = {m[1].upper() for m in patterns.parens.finditer(paragraph)}
    return named.pop() if len(named) == 1 else None


def _judge(sample: ScorerInput, labels: str, options: dict[str, str]) -> Score:
    target = str(sample.target).strip().strip("()[].").upper()
    label = pick(sample.response, labels, options)
    return found(label, label == target)


def _labels_for(pattern: str | None, options: dict[str, str], default: str) -> str:
    ranged = _CLASS.search(pattern) if pattern else None
    if ranged is not None:
        return ranged[3] or "".join(map(chr, range(ord(ranged[1]), ord(ranged[2]) + 1)))
    if options and all(len(label) == 1 for label in options):
        return "".join(options)
    return default


@versioned("1")
def multichoice_regex(sample: ScorerInput, pattern: str | None = None, labels: str | None = None) -> Score:
    """Does the response pick the target letter?

    The letters are ``labels``, or the range in ``pattern`` (``[A-J]``), or those of the row's options, or A to D. A
    pattern without such a range is a regular expression whose last match gives the letter.
    """
    options = options_of(sample)
    if pattern is not None and labels is None and _CLASS.search(pattern) is None:
        hits = [m[m.lastindex or 0] for m in re.finditer(pattern, unmark(prepare(sample.response)))]
        letter = hits[-1].strip().upper() if hits else None
        return found(letter, letter == str(sample.target).strip().upper())
    return _judge(sample, labels or _labels_for(pattern, options, "ABCD"), options)


def extract_mcq_letter(text: str, labels: str = "ABCDEFGHIJ", options: Mapping[str, Any] | None = None) -> str | None:
    """The letter a response picks, or None."""
    return pick(text, labels, options)


@versioned("1")
def mcq_extract(sample: ScorerInput, labels: str | None = None) -> Score:
    """Like multichoice_regex, with the letters A to J unless the row's options say otherwise."""
    options = options_of(sample)
    return _judge(sample, labels or _labels_for(None, options, "ABCDEFGHIJ"), options)
