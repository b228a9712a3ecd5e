"""Text against text: equality, containment and overlap after normalisation."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final

from nemo_evaluator.core.lazy import lazy_pattern
from nemo_evaluator.scoring._claims import PLAINLY, Claim, ClaimKind, claims, foreign_claims
from nemo_evaluator.scoring._clauses import NamedValues, clauses
from nemo_evaluator.scoring._commitments import Commitments
from nemo_evaluator.scoring._mention import Mentions
from nemo_evaluator.scoring._patterns import pattern
from nemo_evaluator.scoring._settle import committed_text, hedge, is_doubted, settle
from nemo_evaluator.scoring._settle import declines as declines
from nemo_evaluator.scoring._settle import tasks as tasks
from nemo_evaluator.scoring._text import normalise, prepare, readable, unlatex, unmark
from nemo_evaluator.scoring._vocabulary import SCAN, ClauseMark
from nemo_evaluator.scoring._vocabulary import cut_off as cut_off
from nemo_evaluator.scoring.number import extract_number, language_of, parse_number
from nemo_evaluator.scoring.types import Score, ScorerInput, found, versioned

_PLAIN: Final = lazy_pattern(rf"{PLAINLY}\*{{0,2}}(?P<answer>[^\W_][\w '’&-]*)\*{{0,2}}\.?\s*")
# "It was Neil Armstrong": the words before the answer. A denial ("It was not ...") is no such sentence.
_SENTENCE: Final = pattern("text.sentence")
# A heading and the line of its text below: the heading is no part of the answer.
_HEADING: Final = lazy_pattern(r"\A\s{0,3}#{1,6}\s[^\n]*\n+(?=\S)")
_WHOLE: Final = 80
_SHOWN: Final = 200
_SHORT: Final = 12
_CUTS: Final = 24
_LONG: Final = 20
_REGION: Final = 400
_REASON: Final = pattern("text.reason")
_NUMERIC: Final = lazy_pattern(r"\s*-?[$€£¥]?\s*[\d.,]+\s*%?\s*")


def targets_of(sample: ScorerInput) -> list[str]:
    """Return all accepted answers: ``metadata["correct_answers"]``, else the target."""
    accepted = sample.metadata.get("correct_answers")
    if isinstance(accepted, Iterable) and not isinstance(accepted, str):
        answers = [str(answer) for answer in accepted]
        if answers:
            return answers
    if isinstance(sample.target, Sequence) and not isinstance(sample.target, str):
        return [str(target) for target in sample.target]
    return [str(sample.target)]


def claimed_texts(text: str) -> Iterator[str]:
    """Yield the texts that a prepared response announces as its answer, without wrappers, the last one first."""
    for part in tasks(text):
        for find_claims in (claims, foreign_claims):
            hedge_start = len(part)
            for claim in find_claims(part):
                hedge_start = min(hedge_start, hedge(part, claim))
                if claim.place < hedge_start:
                    announced_text = _announced_text(part, claim)
                    if announced_text:
                        yield announced_text


def sentence_readings(text: str) -> list[str]:
    """Return a short answer and, if it is a sentence such as "It was Neil Armstrong", also what the sentence names."""
    opening = _SENTENCE.match(text)
    if opening is None or opening.end() >= len(text):
        return [text]
    named = text[opening.end() :].strip(" \t*_\"'“”‘’`")
    return [text, named] if named else [text]


def verbatim(text: str, accepted: Iterable[str]) -> str | None:
    """Find an accepted answer that is all of what a response gives, although it contains a word such as "not".

    Args:
        text: The prepared response.
        accepted: The accepted answers.

    Returns:
        The answer as the response spells it; None if the response gives anything else, or corrects it.
    """
    marked_answers = {normalise(answer) for answer in accepted if SCAN.search(answer)}
    if not marked_answers:
        return None
    for reading in sentence_readings(raw_answer(text)):
        if normalise(reading) in marked_answers:
            return reading
    return None


def raw_answer(text: str) -> str:
    """Return the last announcement, else the last line, unread; "" if the response denies or corrects it."""
    part = next(tasks(text))
    claim = next(claims(part), None) or next(foreign_claims(part), None)
    if claim is None or claim.kind is ClaimKind.WEAK:
        answer = part.strip().rpartition("\n")[2]
    elif is_doubted(part, claim):
        answer = ""
    else:
        answer = part[claim.start : claim.end]
    return unmark(unlatex(answer)).strip().strip(" *_\"'“”‘’`{}").rstrip(".")


def _shortened(text: str) -> Iterator[str]:
    """The text, and the text up to where an explanation begins."""
    yield text
    for reason in islice(_REASON.finditer(text), _CUTS):
        if reason.start():
            yield text[: reason.start()]


def states(text: str, target: str) -> bool:
    """Return whether a short text is the target, with nothing but an explanation besides."""
    normalised_target = normalise(target)
    return any(normalise(part) == normalised_target for part in _shortened(text))


def _shown(text: str) -> str | None:
    """The beginning of an answer, as the row records it; None for an empty one."""
    stripped_text = text.strip()
    return stripped_text[:_SHOWN] or None


@versioned("4")
def exact_match(sample: ScorerInput) -> Score:
    """Is the response, or the answer it announces, the target (or one of ``correct_answers``) after normalisation?"""
    text = readable(sample.response, sample.question)
    accepted = targets_of(sample)
    targets = {normalise(target) for target in accepted}
    title = verbatim(text, accepted)
    if title is not None:
        return found(_shown(title), True)
    claimed = next(claimed_texts(text), None)
    if claimed is not None and _is_among(claimed, targets):
        return found(_shown(claimed), True)
    plain_text = unmark(_HEADING.sub("", next(tasks(text)))).strip()
    if not plain_text:
        return found(None, False)
    is_sentence = claimed is None and len(plain_text.split()) <= _LONG
    if normalise(plain_text) in targets or (is_sentence and _is_named(plain_text, targets)):
        return found(_shown(plain_text), True)
    if claimed is None and len(plain_text.split()) > _LONG:
        return found(None, False)
    return found(_shown(claimed or plain_text), False)


@versioned("4")
def fuzzy_match(sample: ScorerInput) -> Score:
    """Does the response commit to the target (or one of ``correct_answers``), as whole words?

    What the response denies, doubts or withdraws does not count, nor does a target beside another candidate. A number
    is matched only by the number that the response gives.
    """
    if len(sample.response) <= _WHOLE:
        short_score = _short_match(sample)
        if short_score is not None:
            return short_score
    text = unlatex(readable(sample.response, sample.question), boxes=True)
    for passage in (sample.metadata.get("passage"), sample.metadata.get("context")):
        if isinstance(passage, str) and passage:
            text = readable(text, passage)
    targets = targets_of(sample)
    by_number = _number_match(text, targets, language_of(sample))
    if by_number is not None:
        return by_number
    phrases = [target for target in targets if not _NUMERIC.fullmatch(target)]
    reader = Mentions(phrases, question=sample.question)
    settled = settle(reader.masked(text), reader, lambda part: _mentioned(part, reader))
    if not settled:
        return found(None, False)
    shown_answer = _shown(next(claimed_texts(text), None) or unmark(text))
    if settled != (0,):
        return found(shown_answer, False)
    return found(shown_answer, True, matched=_phrase_in(text, phrases))


def _is_among(claimed: str, targets: set[str]) -> bool:
    """Whether an announced text, or what it names, is a target, with nothing but an explanation besides."""
    return any(_is_named(part, targets) for part in _shortened(claimed))


def _is_named(text: str, targets: set[str]) -> bool:
    """Whether a sentence such as "It was Neil Armstrong" names a target."""
    return any(normalise(reading) in targets for reading in sentence_readings(text))


def _number_match(text: str, targets: Sequence[str], language: str | None) -> Score | None:
    """A right verdict if some target is the number that the text commits to."""
    for target in targets:
        if not _NUMERIC.fullmatch(target):
            continue
        number = extract_number(text, language=language)
        target_number = parse_number(target)
        if number is not None and target_number is not None and number.equals(target_number):
            return found(number.text, True, matched=target)
    return None


def _phrase_in(text: str, phrases: Sequence[str]) -> str:
    """The first phrase that the text contains; the first of all when it is spelled otherwise."""
    if len(phrases) > 1:
        normalised_text = f" {normalise(unmark(text))} "
        for phrase in phrases:
            if f" {normalise(phrase)} " in normalised_text:
                return phrase
    return phrases[0]


def _short_match(sample: ScorerInput) -> Score | None:
    """Judge a few plain words, which need no grammar; None when the response needs it."""
    match = _PLAIN.fullmatch(sample.response)
    if match is None:
        return None
    answer = match["answer"]
    plain_answer = normalise(answer)
    plain_targets: list[str] = []
    for target in targets_of(sample):
        plain_target = normalise(target)
        if plain_target == plain_answer:
            return found(answer, True, matched=target)
        plain_targets.append(plain_target)
    for plain_target in plain_targets:
        may_be_stated = plain_target in plain_answer or _NUMERIC.fullmatch(plain_target)
        if may_be_stated:
            return None
    has_marked_word = SCAN.search(answer) is not None
    return None if has_marked_word else found(answer, False)


def _announced_text(part: str, claim: Claim) -> str:
    """The text of an announcement, without wrappers; "" if it is empty or too long for its kind."""
    word_count = part.count(" ", claim.start, claim.end)
    if claim.kind is ClaimKind.WEAK and word_count > _SHORT:
        return ""
    plain_text = unmark(unlatex(committed_text(part, claim) or ""))
    return plain_text.strip().strip("$").strip()


def _lone_phrase(lines: list[str], reader: Mentions) -> NamedValues[int] | None:
    """The phrase that is all of the last line, else of the first one."""
    last_phrase = reader.weak(lines[-1])
    if last_phrase is None and len(lines) > 1:
        return reader.weak(lines[0])
    return last_phrase


def _mentioned(text: str, reader: Mentions) -> tuple[int, ...] | None:
    """The phrases of a response that announces nothing: all of a short one, the first and last line of a long one."""
    if not text or declines(text[-_REGION:]):
        return None
    lines = text.split("\n")
    lone_phrase = _lone_phrase(lines, reader)
    if lone_phrase is not None:
        return lone_phrase.values
    if cut_off(text):
        return None
    reader.strict = _has_rival_names(text, reader)
    if len(text) > _REGION:
        return _mentioned_at_edges(text, reader)
    # A few words, or an answer that opens with the phrase, need no announcement.
    is_brief = len(lines) == 1 and text.count(" ") < _SHORT // 2
    ledger: Commitments[int] = Commitments(reader)
    ledger.add_text(text, 0, len(text), cued=is_brief or reader.opens(text))
    return ledger.values or None


def _mentioned_at_edges(text: str, reader: Mentions) -> tuple[int, ...] | None:
    """The phrases of the last line of a long response, else of its first line; a line as long as a region is prose."""
    _, _, last_line = text[-_REGION:].rpartition("\n")
    first_line, _, _ = text[:_REGION].partition("\n")
    ledger: Commitments[int] = Commitments(reader)
    for line in (last_line, first_line):
        if len(line) >= _REGION:
            continue
        ledger.add_text(line, 0, len(line), cued=False)
        if ledger.values:
            return ledger.values
    return None


def _has_rival_names(text: str, reader: Mentions) -> bool:
    """Whether a clause that is not a denial has a name that the question lacks."""
    denied = ClauseMark.NOT | ClauseMark.REJECT
    for clause in clauses(text, 0, len(text)):
        if not clause.has(denied) and reader.rival_names(clause.text, len(text)):
            return True
    return False


def token_f1(prediction: str, target: str) -> float:
    """Return the word overlap of two texts: the harmonic mean of precision and recall."""
    return word_f1(normalise(prediction), normalise(target))


def word_f1(answer: str, target: str) -> float:
    """Return the word overlap of two normalised texts; an empty one equals only another empty one."""
    answer_words = answer.split()
    target_words = target.split()
    if not answer_words or not target_words:
        return float(answer_words == target_words)
    shared_words = Counter(answer_words) & Counter(target_words)
    shared_count = shared_words.total()
    word_count = len(answer_words) + len(target_words)
    # 2 P R / (P + R), with the precision P = shared / answer and the recall R = shared / target.
    return 2 * shared_count / word_count


@versioned("4")
def f1(sample: ScorerInput) -> Score:
    """The best word overlap with any accepted answer, between 0 and 1."""
    text = readable(sample.response, sample.question)
    title = verbatim(text, targets_of(sample))
    answer = title or next(claimed_texts(text), None) or unmark(unlatex(text)).strip()
    if not answer:
        return found(None, False, f1=0.0)
    parts = list(_shortened(answer))
    parts += sentence_readings(answer)[1:]
    overlaps: list[float] = []
    for target in targets_of(sample):
        overlaps += [token_f1(part, target) for part in parts]
    best = max(overlaps)
    return found(_shown(answer), best, f1=best)


@versioned("1")
def needs_judge(sample: ScorerInput) -> Score:
    """Leave the verdict to a judge: the row fails with cause ``judge`` when none is configured."""
    return {
        "correct": False,
        "needs_judge": True,
        "extracted": prepare(sample.response).strip()[:500],
    }
