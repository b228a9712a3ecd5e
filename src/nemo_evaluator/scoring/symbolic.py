"""Mathematical equivalence, decided by math-verify in a worker process under a CPU limit."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from typing import Final

from nemo_evaluator.core.errors import ScorerError
from nemo_evaluator.scoring._claims import Kind, claims, foreign_claims
from nemo_evaluator.scoring._math_pool import MathPool, shared_pool
from nemo_evaluator.scoring._text import prepare
from nemo_evaluator.scoring.number import parse_number
from nemo_evaluator.scoring.types import Score, ScorerInput, found, versioned

_SPACES: Final = re.compile(r"\s+|\\[,;:! ]|\\left|\\right|\\displaystyle")
_WRAP: Final = re.compile(r"\\(?:text(?:bf|it|rm)?|math(?:rm|bf)|mbox)\{([^{}]*)\}")
_NUMBER: Final = re.compile(r"-?\d[\d,]*(?:\.\d+)?|-?\.\d+")
_SENTENCE: Final = re.compile(r"\.(?:\s+[A-Z]|\s*$)|,?\s+(?:because|since|as|which|so|where|for)\s+\w", re.DOTALL)
_MATH_SPAN: Final = re.compile(r"\$\$?(.+?)\$\$?|\\\((.+?)\\\)|\\\[(.+?)\\\]", re.DOTALL)
_PROSE: Final = re.compile(r"(?<![\\A-Za-z{])[A-Za-z]{3,}")
_DEFAULT_SECONDS: Final = 5.0


@versioned("2", inline=False)
async def math(sample: ScorerInput, timeout: float = _DEFAULT_SECONDS, pool: MathPool | None = None) -> Score:
    """Is the announced answer mathematically equal to the target?

    Equal spelling and plain numbers are decided here, the rest by math-verify; an answer that cannot be compared
    within ``timeout`` CPU seconds was not measured: that is a failure of the scorer, never a wrong answer.
    """
    target = str(sample.target)
    said = extract_expression(sample.response)
    if said is None:
        return found(None, False)
    quick = _quick(said, target)
    if quick is not None:
        return found(said, quick)
    workers = pool or shared_pool()
    verdict = await asyncio.to_thread(workers.equal, target, said, timeout)
    if verdict is None:
        raise ScorerError(f"the answer could not be compared with the target within {timeout:g} CPU seconds")
    return found(said, verdict)


def extract_expression(response: str) -> str | None:
    """The expression a response gives as its answer: announced, else the last formula, else a short last line."""
    # A dollar sign of money would be taken for the end of a formula, and adds nothing to its value.
    text = prepare(response).replace("\\$", "")
    for source in (claims, foreign_claims):
        for claim in source(text):
            said = _expression(claim.text, whole=claim.kind is Kind.BOXED)
            if said and (claim.kind is not Kind.WEAK or len(said.split()) <= 3):
                return said
    lines = [line for line in text.strip().split("\n") if line.strip()]
    if not lines:
        return None
    spans = list(_spans(lines[-1]))
    if spans:
        return spans[-1].rpartition("=")[2].strip() or spans[-1]
    if len(lines[-1].split()) <= 4 or not _PROSE.search(lines[-1]):
        return lines[-1].replace("**", "").strip("`# \t").rstrip(".") or None
    everywhere = list(_spans(text))
    return everywhere[-1].rpartition("=")[2].strip() or everywhere[-1] if everywhere else None


def _expression(claimed: str, *, whole: bool) -> str | None:
    text = claimed.strip()
    if not whole:
        text = text.replace("**", "").replace("`", "").strip()
        spans = list(_spans(text))
        opens = text.lstrip("*_ :").startswith(("$", "\\(", "\\["))
        if spans and (opens or len(text.split()) > 3):
            return spans[0] if opens else spans[-1]
        cut = _SENTENCE.search(text)
        text = text[: cut.start()] if cut else text
    return text.strip().strip("$").strip().rstrip(".") or None


def _spans(text: str) -> Iterator[str]:
    for match in _MATH_SPAN.finditer(text):
        inside = (match[1] or match[2] or match[3]).strip()
        if inside:
            yield inside


def _quick(said: str, target: str) -> bool | None:
    """True or False when plain comparison decides; None when algebra is needed."""
    if _bare(said) == _bare(target):
        return True
    left, right = _NUMBER.fullmatch(_bare(said)), _NUMBER.fullmatch(_bare(target))
    if left and right:
        mine, theirs = parse_number(left[0]), parse_number(right[0])
        return mine is not None and theirs is not None and mine.equals(theirs)
    return None


def _bare(text: str) -> str:
    text = _WRAP.sub(r"\1", text.strip().strip("$"))
    text = _SPACES.sub("", text).replace("\\dfrac", "\\frac").replace("\\tfrac", "\\frac").replace("{,}", ",")
    return (
        text.replace("\\$", "")
        .replace("\\%", "")
        .rstrip(".%")
        .removesuffix("^\\circ")
        .removesuffix("^{\\circ}")
        .casefold()
    )
