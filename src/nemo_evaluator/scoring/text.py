"""Text against text: equality, containment and overlap after normalisation."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Final

from nemo_evaluator.scoring._claims import Claim, Kind, claims, foreign_claims
from nemo_evaluator.scoring._text import normalise, prepare, unlatex, unmark
from nemo_evaluator.scoring.number import extract_number, language_of, parse_number
from nemo_evaluator.scoring.types import Score, ScorerInput, found, versioned

_SHOWN: Final = 200
_SHORT: Final = 12
_CUTS: Final = 24
_REASON: Final = re.compile(
    r"(?:,\s*|\s+|\s*[-–—(;:]\s*)(?:because|since|as|which|due to|given that|so|where|explanation)\b"
    r"|\.\s|\s\(|\s[-–—]\s|;|\n",
    re.IGNORECASE,
)
_NUMERIC: Final = re.compile(r"\s*-?[$€£¥]?\s*[\d.,]+\s*%?\s*")


def targets_of(sample: ScorerInput) -> list[str]:
    """All accepted answers: ``metadata["correct_answers"]``, else the target."""
    many = sample.metadata.get("correct_answers")
    if isinstance(many, Iterable) and not isinstance(many, str):
        listed = [str(one) for one in many]
        if listed:
            return listed
    if isinstance(sample.target, Sequence) and not isinstance(sample.target, str):
        return [str(one) for one in sample.target]
    return [str(sample.target)]


def claimed_texts(text: str) -> Iterator[str]:
    """What a prepared response announces as its answer, the last first, wrappers off."""
    for source in (claims, foreign_claims):
        for claim in source(text):
            plain = _plain(claim)
            if plain:
                yield plain


def _plain(claim: Claim) -> str | None:
    text = unmark(unlatex(claim.text)).strip().strip("$").strip()
    if claim.kind is Kind.WEAK and len(text.split()) > _SHORT:
        return None
    return text or None


def _shortened(text: str) -> Iterator[str]:
    """The text, and the text up to where an explanation begins."""
    yield text
    for cut in islice(_REASON.finditer(text), _CUTS):
        if cut.start():
            yield text[: cut.start()]


def states(text: str, target: str) -> bool:
    """True when a short text says the target and nothing but an explanation besides."""
    wanted = normalise(target)
    return any(normalise(part) == wanted for part in _shortened(text))


def _shown(text: str) -> str | None:
    text = text.strip()
    return text[:_SHOWN] if text else None


@versioned("1")
def exact_match(sample: ScorerInput) -> Score:
    """Is the response, or the answer it announces, the target (or one of ``correct_answers``) after normalisation?"""
    text = prepare(sample.response)
    targets = {normalise(target) for target in targets_of(sample)}
    claimed = next(claimed_texts(text), None)
    if claimed is not None and any(normalise(part) in targets for part in _shortened(claimed)):
        return found(_shown(claimed), True)
    plain = unmark(text).strip()
    if not plain:
        return found(None, False)
    if normalise(plain) in targets:
        return found(_shown(plain), True)
    return found(_shown(claimed or plain), False)


@versioned("1")
def fuzzy_match(sample: ScorerInput) -> Score:
    """Does the response contain the target (or one of ``correct_answers``) as whole words?

    When it announces an answer, only that is looked at. A number is matched only by the number the response gives.
    """
    text = prepare(sample.response)
    if not text.strip():
        return found(None, False)
    claimed = next(claimed_texts(text), None)
    said = claimed if claimed is not None else unmark(unlatex(text))
    haystack = f" {normalise(said)} "
    for target in targets_of(sample):
        if _NUMERIC.fullmatch(target):
            number, wanted = extract_number(text, language=language_of(sample)), parse_number(target)
            if number is not None and wanted is not None and number.equals(wanted):
                return found(number.text, True, matched=target)
        elif f" {normalise(target)} " in haystack:
            return found(_shown(said), True, matched=target)
    return found(_shown(said), False)


def token_f1(prediction: str, target: str) -> float:
    """Overlap of the words of two texts: the harmonic mean of precision and recall."""
    said, wanted = Counter(normalise(prediction).split()), Counter(normalise(target).split())
    if not said or not wanted:
        return float(said == wanted)
    common = sum((said & wanted).values())
    return 2 * common / (sum(said.values()) + sum(wanted.values())) if common else 0.0


@versioned("1")
def f1(sample: ScorerInput) -> Score:
    """The best word overlap with any accepted answer, between 0 and 1."""
    text = prepare(sample.response)
    said = next(claimed_texts(text), None) or unmark(unlatex(text)).strip()
    if not said:
        return found(None, False, f1=0.0)
    best = max(token_f1(part, target) for target in targets_of(sample) for part in _shortened(said))
    return found(_shown(said), best, f1=best)


@versioned("1")
def needs_judge(sample: ScorerInput) -> Score:
    """Leave the verdict to a judge: the row fails with cause ``judge`` when none is configured."""
    shown: Any = strip_for_judge(sample.response)
    return {"correct": False, "needs_judge": True, "extracted": shown[:500]}


def strip_for_judge(response: str) -> str:
    """The response as a judge should see it: without its reasoning."""
    return prepare(response).strip()
