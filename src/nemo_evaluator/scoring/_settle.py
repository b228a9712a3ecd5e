"""What a response comes to: weighs its announcements, the last one first, each with the text around it.

How an announcement is weighed depends on its kind: one row of ``WEIGHERS``, with example answers.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from nemo_evaluator.core.lazy import lazy_pattern
from nemo_evaluator.scoring._claims import Claim, ClaimKind, claims, foreign_claims
from nemo_evaluator.scoring._clauses import BLANK, VOID, Reader, V, clauses, supposed
from nemo_evaluator.scoring._commitments import Commitments
from nemo_evaluator.scoring._patterns import pattern
from nemo_evaluator.scoring._vocabulary import (
    CORRECTION,
    NEXT_TASK,
    REFUSAL,
    SCAN,
    ClauseMark,
    mark_of,
)

_WINDOW: Final = 200
_TAIL: Final = 4000
_REPORT: Final = 30
_LINE: Final = 60
_NEAR: Final = 240
_IT_IS: Final = lazy_pattern(
    r"(?:it|that|this)(?:['’]s|\s+(?:is|was|should\s+be|must\s+be))\s+"
    r"|(?:i|we)\s+(?:should|would|must|will)\s+(?:choose|pick|say|answer|go\s+with)\s+|\s+instead(?=\W*\Z)",
    re.IGNORECASE,
)
# A box that "or" or a comma joins to the box before it.
_JOINED_BOX: Final = lazy_pattern(
    r"\}\$?\s*(?:or|and|oder|und|ou|et|,|或|和)+\s*[$\\(\[]*\Z", re.IGNORECASE
)
_WOULD: Final = lazy_pattern(r"\bwould\b", re.IGNORECASE)
_WERE_IT_SO: Final = pattern("commitments.unreal")
# Where the clause of an announcement ends in which a condition may stand.
_SENTENCE_END: Final = lazy_pattern(r"[.!?;](?=\s|\Z)|,?\s(?:so|but|however|therefore)\b|\n")
_UNSURE: Final = lazy_pattern(r"\b(?:may|might|could) be", re.IGNORECASE)


def settle(
    text: str, reader: Reader[V], otherwise: Callable[[str], tuple[V, ...] | None]
) -> tuple[V, ...] | None:
    """Find the values that a response comes to.

    An announcement has priority over what ``otherwise`` finds. An invented next task is read only if the text before it
    names no value.

    Args:
        text: The prepared response.
        reader: Finds the values of a clause.
        otherwise: Finds the values of a text without an announcement.

    Returns:
        One value; several or none if the response names values and does not decide; None without any claim.
    """
    for part in tasks(text):
        for find_claims in (claims, foreign_claims):
            settled = _last_claim(part, find_claims(part), reader)
            if settled is not None:
                return settled
        settled = otherwise(part.strip())
        if settled is not None:
            return settled
    return None


def plain_ending(text: str, whole: re.Pattern[str]) -> re.Match[str] | None:
    """Match the last sentence as a plain announcement, which then is the answer, whatever precedes it.

    Args:
        text: The response.
        whole: Matches a plain announcement; its group ``cue`` is the announcing phrase.
    """
    end = len(text.rstrip())
    last_line = text.rfind("\n", 0, end)
    last_sentence = text.rfind(". ", 0, end)
    start = max(last_line, last_sentence) + 1
    if end - start >= _LINE:
        return None
    match = whole.fullmatch(text, start, end)
    if match is None or not match["cue"]:
        return None
    has_next_task = next(tasks(text)) is not text
    return None if has_next_task else match


def declines(text: str) -> bool:
    """Return whether a text refuses to answer, or is unable to."""
    return REFUSAL.search(text) is not None


def tasks(text: str) -> Iterator[str]:
    """Yield the text up to an invented next task, if there is one, then all of the text."""
    if "\n" in text:
        for match in NEXT_TASK.finditer(text):
            before = text[: match.start()]
            if before.strip(" \n*#-"):
                yield before
                break
    yield text


def _last_claim(
    text: str, found_claims: Iterator[Claim], reader: Reader[V]
) -> tuple[V, ...] | None:
    """Return the values of the last announcement that has any; () if it was withdrawn."""
    for claim in found_claims:
        prefix = _prefix(text, claim)
        ledger = _weighed(text, claim, reader, prefix=prefix)
        if not ledger.values:
            if ledger.retracted:
                return ()
            continue
        joined = bool(prefix & ClauseMark.OR)
        if joined or ledger.soft:
            return _with_previous(text, claim, found_claims, ledger=ledger, joined=joined)
        return ledger.values
    return None


def _with_previous(
    text: str, claim: Claim, earlier: Iterator[Claim], ledger: Commitments[V], joined: bool
) -> tuple[V, ...]:
    """Add the values of the announcement before, if both are soft or "or" joins them.

    "If so, the answer is B; otherwise, the answer is C" settles nothing.
    """
    for previous_claim in earlier:
        if claim.place - previous_claim.end > _NEAR:
            break
        previous_ledger = _weighed(
            text[: claim.place], previous_claim, ledger.reader, prefix=_prefix(text, previous_claim)
        )
        if not previous_ledger.values:
            continue
        if joined or previous_ledger.soft:
            return tuple(dict.fromkeys((*previous_ledger.values, *ledger.values)))
        return ledger.values
    return ledger.values


def _prefix(text: str, claim: Claim) -> int:
    """Return the marks that precede an announcement in its clause."""
    start = max(0, claim.place - _WINDOW)
    # The sentence before says nothing about this one.
    for edge in ("\n", ": ", ". "):
        last_edge = text.rfind(edge, start, claim.place)
        if last_edge >= 0:
            start = last_edge + 1
    unsure = _UNSURE.search(text, claim.place, claim.start) is not None
    softness = ClauseMark.SOFT if unsure else 0
    if _would_be(text, claim):
        softness |= ClauseMark.CONTRARY
    if not text[start : claim.place].strip(BLANK):
        return softness
    parts = clauses(text, start, claim.place)
    supposing = 0
    for clause in parts:
        if clause.first:
            supposing = 0
        supposing |= supposed(clause)
    if _reports(text, max(start, claim.place - _REPORT), claim.place):
        softness |= ClauseMark.CONTRARY
    last_clause = parts[-1]
    marks = (last_clause.opener & ClauseMark.OR) | supposing | softness
    for mark in last_clause.marks:
        marks |= mark.kind
    if claim.kind is ClaimKind.BOXED and _JOINED_BOX.search(text, start, claim.place):
        marks |= ClauseMark.OR
    return marks & ~(ClauseMark.PLAIN | ClauseMark.SO)


def _reports(text: str, start: int, end: int) -> bool:
    """Whether the words before an announcement report what others say, even inside a reason."""
    for match in SCAN.finditer(text, start, end):
        mark = mark_of(match[0], text[match.end() : match.end() + 2])
        if mark == ClauseMark.CONTRARY and "," not in text[match.end() : end]:
            return True
    return False


def _would_be(text: str, claim: Claim) -> bool:
    """Whether an announcement is contrary to fact: "The answer would be 18 if it rained"."""
    if _WOULD.search(text, claim.place, claim.start) is None:
        return False
    sentence_end = _SENTENCE_END.search(text, claim.start, claim.end)
    end = claim.end if sentence_end is None else sentence_end.start()
    return _WERE_IT_SO.search(text, claim.place, end) is not None


def _weighed(text: str, claim: Claim, reader: Reader[V], prefix: int) -> Commitments[V]:
    """Return the ledger of an announcement and of the text behind it."""
    ledger: Commitments[V] = Commitments(reader)
    weigher = _WEIGHERS[claim.kind]
    is_settled = weigher(ledger, text, claim, prefix)
    tail = min(len(text), claim.after + _TAIL)
    if is_settled or claim.after >= tail:
        return ledger
    if not ledger.values or CORRECTION.search(text, claim.after, tail):
        ledger.add_text(text, claim.after, tail, cued=False)
    return ledger


def _weigh_weak(ledger: Commitments[V], text: str, claim: Claim, prefix: int) -> bool:
    """ "Answer 42": counts only if the line consists of the value, and nothing denies it."""
    named_values = ledger.reader.weak(text[claim.start : claim.end])
    if named_values is None or prefix & VOID:
        return False
    for clause in clauses(text, claim.start, claim.end):
        if clause.has(VOID):
            return False
    ledger.values = named_values.values
    return False


def _weigh_boxed(ledger: Commitments[V], text: str, claim: Claim, prefix: int) -> bool:
    """A box or a tag: all of it is the answer, unless the sentence denies it."""
    named_values = ledger.reader.read(text[claim.start : claim.end], cued=True)
    if named_values is not None and not prefix & VOID:
        ledger.values = named_values.values
        ledger.soft = bool(prefix & ClauseMark.SOFT)
    return False


def _weigh_before(ledger: Commitments[V], text: str, claim: Claim, prefix: int) -> bool:
    """ "B is the answer": the clauses before the announcement, without its prefix."""
    ledger.add_text(text, claim.start, claim.end, cued=True)
    return False


def _weigh_after(ledger: Commitments[V], text: str, claim: Claim, prefix: int) -> bool:
    """ "The answer is B": the clauses of the line behind the announcement."""
    if claim.after >= len(text) and not prefix:
        # Most answers end on a plain announcement: nothing to weigh.
        values = _plain_values(ledger.reader, text, claim)
        if values:
            ledger.values = values
            return True
    ledger.add_text(text, claim.start, claim.end, cued=True, prefix=prefix)
    return False


def _plain_values(reader: Reader[V], text: str, claim: Claim) -> tuple[V, ...]:
    """The values behind an announcement, if no mark and no punctuation but the full stop follows."""
    found_mark = SCAN.search(text, claim.start, claim.end)
    end = found_mark.start() if found_mark else claim.end
    named_values = reader.read(text[claim.start : end], cued=True)
    if named_values is None:
        return ()
    if found_mark is None or (found_mark.end() >= claim.end and found_mark[0] in (".", "。")):
        return named_values.values
    return ()


class WeighRule(NamedTuple):
    """How an announcement of one kind is weighed.

    Attributes:
        weigh: Puts the values into the ledger. Returns whether the text behind need not be read.
        examples: Answers, each with the letter it picks (None: no letter or several).
    """

    weigh: Callable[[Commitments[Any], str, Claim, int], bool]
    examples: Mapping[str, str | None]


WEIGHERS: Final = {
    ClaimKind.BOXED: WeighRule(
        _weigh_boxed,
        {
            "So $\\boxed{B}$.": "B",
            "<answer>B</answer>": "B",
            "It is not $\\boxed{B}$.": None,
            "$\\boxed{B}$ or $\\boxed{C}$": None,
        },
    ),
    ClaimKind.AFTER: WeighRule(
        _weigh_after,
        {
            "The answer is B.": "B",
            "If it rains, the answer is B; otherwise, the answer is C.": None,
            "The answer is B. Wait, that is wrong: the answer is C.": "C",
            "The answer is B. No, that is wrong.": None,
            "The answer would be B if it rained.": None,
        },
    ),
    ClaimKind.BEFORE: WeighRule(
        _weigh_before, {"B is the answer.": "B", "B is not the answer.": None}
    ),
    ClaimKind.WEAK: WeighRule(
        _weigh_weak, {"Answer B": "B", "#### B": "B", "Answer B is not it": None}
    ),
}
_WEIGHERS: Final = {kind: rule.weigh for kind, rule in WEIGHERS.items()}


def hedge(text: str, claim: Claim) -> int:
    """Return where the line begins on which "or" joins an announcement to another one: then neither counts.

    Returns:
        The beginning of that line, or the length of the text if nothing is joined.
    """
    line = text.rfind("\n", 0, claim.place) + 1
    has_earlier_claim = next(claims(text[line : claim.place]), None) is not None
    if has_earlier_claim and _prefix(text, claim) & ClauseMark.OR:
        return line
    return len(text)


def is_doubted(text: str, claim: Claim) -> bool:
    """Return whether an announcement is denied by the words before it, or corrected by the text behind it."""
    if _prefix(text, claim) & VOID:
        return True
    return CORRECTION.search(text, claim.after) is not None


def committed_text(text: str, claim: Claim) -> str | None:
    """Return the text of an announcement, without what the line corrects.

    Returns:
        The text; that of the correction if the line has one; None if the announcement is denied.
    """
    if _prefix(text, claim) & VOID:
        return None
    announced = text[claim.start : claim.end]
    if claim.kind is not ClaimKind.AFTER:
        return announced
    parts = clauses(announced, 0, len(announced))
    denied = any(mark.start < 2 and mark.kind & VOID for mark in parts[0].marks)
    corrected = ""
    for number, clause in enumerate(parts):
        replaces = ClauseMark.CORRECT
        if denied and number > 0:
            # "The answer is not B but C"
            replaces |= ClauseMark.BUT
        if clause.opener & replaces:
            corrected = announced[announced.index(clause.text) :]
    if denied or (corrected and parts[0].text != announced):
        return _IT_IS.sub("", corrected.strip(" ,:")) or None
    return announced
