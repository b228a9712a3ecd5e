"""What a response comes to: its announcements, the last first, each weighed with what stands before and after it."""

import re
from collections.abc import Callable, Iterator
from typing import Final

from nemo_evaluator.core.lazy import lazy_pattern
from nemo_evaluator.scoring._claims import Claim, ClaimKind, claims, foreign_claims
from nemo_evaluator.scoring._clauses import BLANK, VOID, Commitments, Reader, V, clauses, supposed
from nemo_evaluator.scoring._vocabulary import CORRECTION, NEXT_TASK, REFUSAL, SCAN, ClauseMark

_WINDOW: Final = 200
_TAIL: Final = 4000
_LINE: Final = 60
_NEAR: Final = 240
_IT_IS: Final = lazy_pattern(
    r"(?:it|that|this)(?:['’]s|\s+(?:is|was|should\s+be|must\s+be))\s+", re.IGNORECASE
)
_BESIDE: Final = lazy_pattern(
    r"\}\$?\s*(?:or|and|oder|und|ou|et|,|或|和)+\s*[$\\(\[]*\Z", re.IGNORECASE
)
_UNSURE: Final = lazy_pattern(r"\b(?:may|might|could) be", re.IGNORECASE)


def settle(
    text: str, reader: Reader[V], otherwise: Callable[[str], tuple[V, ...] | None]
) -> tuple[V, ...] | None:
    """What a response comes to: one value; none or several when it was said but not settled; None without any claim. An
    announcement counts first, then what ``otherwise`` finds. An invented next task is read only if the text before it
    says nothing."""
    for part in tasks(text):
        for source in (claims, foreign_claims):
            settled = _last_claim(part, source(part), reader)
            if settled is not None:
                return settled
        settled = otherwise(part.strip())
        if settled is not None:
            return settled
    return None


def plain_ending(text: str, whole: re.Pattern[str]) -> re.Match[str] | None:
    """The last sentence when it is a plain announcement: whatever stands before it, that is the answer."""
    end = len(text.rstrip())
    start = max(text.rfind("\n", 0, end), text.rfind(". ", 0, end)) + 1
    if end - start < _LINE:
        match = whole.fullmatch(text, start, end)
    else:
        match = None
    if match is not None and match["cue"] and next(tasks(text)) is text:
        return match
    return None


def declines(text: str) -> bool:
    """Whether a text refuses or is unable to answer."""
    return REFUSAL.search(text) is not None


def tasks(text: str) -> Iterator[str]:
    """The text up to an invented next task, then all of it."""
    for match in NEXT_TASK.finditer(text) if "\n" in text else ():
        if text[: match.start()].strip(" \n*#-"):
            yield text[: match.start()]
            break
    yield text


def _last_claim(text: str, found: Iterator[Claim], reader: Reader[V]) -> tuple[V, ...] | None:
    for claim in found:
        prefix = _prefix(text, claim)
        ledger = _weighed(text, claim, reader, prefix=prefix)
        if not ledger.values:
            if ledger.retracted:
                return ()
            continue
        if prefix & ClauseMark.OR or ledger.soft:
            return _with_previous(
                text, claim, found, ledger=ledger, joined=bool(prefix & ClauseMark.OR)
            )
        return ledger.values
    return None


def _with_previous(
    text: str, claim: Claim, found: Iterator[Claim], ledger: Commitments[V], joined: bool
) -> tuple[V, ...]:
    """ "If so, the answer is B; otherwise, the answer is C": two soft claims side by side settle nothing."""
    for other in found:
        if claim.place - other.end > _NEAR:
            break
        before = _weighed(text[: claim.place], other, ledger.reader, prefix=_prefix(text, other))
        if before.values:
            if joined or before.soft:
                return tuple(dict.fromkeys((*before.values, *ledger.values)))
            return ledger.values
    return ledger.values


def _prefix(text: str, claim: Claim) -> int:
    """The marks that stand before an announcement in its clause."""
    start = max(0, claim.place - _WINDOW)
    # What stands before the end of a sentence says nothing of the next: it need not be gone through.
    start = max(start, *(text.rfind(edge, start, claim.place) + 1 for edge in ("\n", ": ", ". ")))
    if not text[start : claim.place].strip(BLANK):
        if _UNSURE.search(text, claim.place, claim.start):
            return ClauseMark.SOFT
        return 0
    supposing = 0
    last = None
    for last in clauses(text, start, claim.place):
        supposing = (0 if last.first else supposing) | supposed(last)
    if last is None:
        return supposing
    marks = (last.opener & ClauseMark.OR) | supposing
    for _, _, mark in last.marks:
        marks |= mark
    if _UNSURE.search(text, claim.place, claim.start):
        marks |= ClauseMark.SOFT
    if claim.kind is ClaimKind.BOXED and _BESIDE.search(text, start, claim.place):
        marks |= ClauseMark.OR
    return marks & ~(ClauseMark.PLAIN | ClauseMark.SO)


def _weighed(text: str, claim: Claim, reader: Reader[V], prefix: int) -> Commitments[V]:
    ledger: Commitments[V] = Commitments(reader)
    if claim.kind is ClaimKind.WEAK:
        weak = reader.weak(text[claim.start : claim.end])
        denied = prefix & VOID or (
            weak and any(one.has(VOID) for one in clauses(text, claim.start, claim.end))
        )
        ledger.values = weak.values if weak and not denied else ()
    elif claim.kind is ClaimKind.BOXED:
        inside = reader.read(text[claim.start : claim.end], cued=True)
        if inside is not None and not prefix & VOID:
            ledger.values = inside.values
            ledger.soft = bool(prefix & ClauseMark.SOFT)
    elif claim.kind is ClaimKind.BEFORE:
        ledger.hear(text, claim.start, claim.end, cued=True)
    tail = min(len(text), claim.after + _TAIL)
    if claim.kind is ClaimKind.AFTER and claim.after >= len(text) and not prefix:
        # Most answers end on a plain announcement: nothing to weigh.
        scan = SCAN.search(text, claim.start, claim.end)
        said = reader.read(text[claim.start : scan.start() if scan else claim.end], cued=True)
        if said is not None and (
            scan is None or (scan.end() >= claim.end and scan[0] in (".", "。"))
        ):
            ledger.values = said.values
            return ledger
    if claim.kind is ClaimKind.AFTER:
        # A settled claim that nothing later corrects needs no more than its own line.
        ledger.hear(text, claim.start, claim.end, cued=True, prefix=prefix)
        if ledger.values and CORRECTION.search(text, claim.after, tail) is None:
            return ledger
    if claim.after < tail and (not ledger.values or CORRECTION.search(text, claim.after, tail)):
        ledger.hear(text, claim.after, tail, cued=False)
    return ledger


def hedge(text: str, claim: Claim) -> int:
    """Where the line begins on which an announcement is joined to another by "or": neither counts. Else the end."""
    line = text.rfind("\n", 0, claim.place) + 1
    second = (
        next(claims(text[line : claim.place]), None) is not None
        and _prefix(text, claim) & ClauseMark.OR
    )
    if second:
        return line
    return len(text)


def committed_text(text: str, claim: Claim) -> str | None:
    """The words of an announcement as they are meant: what corrects it inside its line instead; None when denied."""
    if _prefix(text, claim) & VOID:
        return None
    said = text[claim.start : claim.end]
    if claim.kind is not ClaimKind.AFTER:
        return said
    first = None
    meant = ""
    denied = False
    for clause in clauses(said, 0, len(said)):
        first = first or clause
        if clause.opener & (
            ClauseMark.CORRECT if not denied else ClauseMark.CORRECT | ClauseMark.BUT
        ):
            meant = said[said.index(clause.text) :]
        denied = denied or (
            clause is first and any(at < 2 and mark & VOID for at, _, mark in clause.marks)
        )
    if denied or (first is not None and first.text != said and meant):
        return _IT_IS.sub("", meant.strip(" ,:")) or None
    return said
