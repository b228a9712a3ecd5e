"""Answers that are spans of text: the span that a response commits to, and its exact match and F1.

The metrics are those of DROP's ``drop_eval.py``, SQuAD 2.0's ``evaluate-v2.0.py`` and TriviaQA's
``triviaqa_evaluation.py``; they see only the span that the response commits to, not the text around it.
"""

import re
import string
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from nemo_evaluator.scoring import extract_number, readable
from nemo_evaluator.scoring.text import (
    claimed_texts,
    cut_off,
    declines,
    sentence_readings,
    tasks,
    verbatim,
    word_f1,
)

# A bare reply of up to this many words is an answer; a longer one must announce which words are its answer.
_BARE: Final = 30
_SHORT: Final = 5
_LONGEST: Final = 2000
_MOST_SPANS: Final = 16
_BULLET: Final = re.compile(r"\s{0,8}(?:[-*•]|\d{1,2}[.)])\s+(\S.*)")
# Where an explanation begins. "St. Louis" and "J. R. Tolkien" continue after their full stops.
_REST: Final = re.compile(
    r"(?<!\b\w)(?<!\b[A-Z]\w)(?<!\b[A-Z]\w\w)[.!?]\s+(?!or\b|maybe\b|perhaps\b|alternatively\b|and\b)"
    r"|\s\((?!s\))|\s[-–—]{1,2}\s|,?\s(?:because|since(?!\s\d)|due to|as (?:stated|mentioned|the)|which (?:is|was))\b"
    r"|(?:,|\sand|\sbut)\s+not\b|,?\s(?:rather than|instead of|as opposed to)\b",
    re.IGNORECASE,
)
_MARKS: Final = re.compile(
    r"\*\*|__|`+|^#{1,6}\s|(?<!\w)[*_](?=\w)|(?<=\w)[*_](?!\w)", re.MULTILINE
)
_UNSURE: Final = re.compile(
    r"\b(?:not|never|neither|nor|cannot|maybe|perhaps|possibly|either)\b|n['’]t\b"
    r"|\bor\b(?! (?:more|older|over|above|less|fewer|younger|under|so|later)\b)"
    r"|^(?:some|many|most|several) (?:sources|people|say|think|believe)\b",
    re.IGNORECASE,
)
_RIVAL: Final = re.compile(r"[(\[]\s*(?:or|possibly|maybe|perhaps|alternatively)\b", re.IGNORECASE)
# "20 - 5 =", "31 points minus 17 points gives", "The difference is 7 + 4 =": the result follows.
_EQUATION: Final = re.compile(
    r"[*_`$\s]*(?:[A-Za-z][A-Za-z' ]{1,40}\s(?:is|was|are|were)\s)?[$€£]?\d[\d.,]*(?:\s[a-z]+)?"
    r"(?:\s*(?:[-+−–×x*/÷]|\b(?:minus|plus|times|divided by)\b)\s*[$€£]?\d[\d.,]*(?:\s[a-z]+)?)+"
    r"\s*(?:=|\b(?:equals|is|gives|makes|leaves)\b)\s*",
    re.IGNORECASE,
)
# A correction: the text after it replaces the answer before it.
_CORRECTED: Final = re.compile(
    r"(?:\.{3}|…|[.,;—–-])\s*(?:wait|hmm|hold on|oh|sorry|actually|correction|scratch that|on second thought|no)\b"
    r"[,.:]?(?:\s(?:no|actually|looking again|i mean)\b[,.:]?)*"
    r"|,?\sbut\s(?:it|that|the \w+ answer|actually)\b\s?(?:'s|is|was)?",
    re.IGNORECASE,
)
_INSTEAD: Final = re.compile(
    r"^\s*(?:(?:i|it|that|this|the answer|we)\s)?(?:(?:should|would|must|'s|is|was|mean|be|choose|pick|say|make it)\s)*"
    r"|\sinstead\b.*$",
    re.IGNORECASE,
)
_SEPARATOR: Final = re.compile(
    r"\s*(?:\n|;|,(?!\d)|(?<=\d),\s|\band\b|&|\s/\s|•)\s*", re.IGNORECASE
)
_NUMBER_SIGNS: Final = re.compile(r"[$€£¥](?=[\d.])|(?<=\d)\s?%|(?<=\d),(?=\d{3}(?!\d))")
_SCALES: Final = re.compile(
    r"(?<=\d)\s?(?:hundred|thousand|[mb]illion|trillion|dozen|[kmb])s?\b", re.IGNORECASE
)
_ARTICLES: Final = re.compile(r"\b(?:a|an|the)\b")
_WITHOUT_PUNCTUATION: Final = str.maketrans("", "", string.punctuation)
# Besides punctuation, the curly quotes and the accents that stand for them.
_PUNCTUATION_AS_SPACES: Final = str.maketrans(
    dict.fromkeys(string.punctuation + "\u2018\u2019\u00b4\u0060", " ")
)


def committed(response: str, question: str = "", accepted: Iterable[str] = ()) -> str | None:
    """Find the span that a response gives as its answer.

    A span that equals an accepted answer counts although it has a word such as "not": it is a title then.

    It is the announced answer, else a short last line. If that is the first item of a list that ends the response, the
    whole list counts. An explanation after the span is left out, and a correction replaces the span. A denial, a hedge
    or a choice of two is not an answer.

    Args:
        response: The response.
        question: The question; where the response repeats it, that is not an answer.
        accepted: The accepted answers.

    Returns:
        The span, or None if the response does not commit to one. The items of a list are on lines of their own.
    """
    response_text = readable(response, question)
    quoted_span = verbatim(response_text, accepted)
    if quoted_span is not None:
        return quoted_span
    answer_text = next(tasks(response_text))
    span = next(claimed_texts(response_text), None)
    if span is None:
        span = _short_last_line(answer_text)
    if not span or len(span) > _LONGEST:
        return None
    span = " ".join(span.split())
    items = [_MARKS.sub("", item).strip(" .") for item in _bullets(answer_text)]
    announces_list = bool(items) and items[0] == span.strip(" .")
    if announces_list:
        return "\n".join(items)
    return _without_remarks(span)


def _short_last_line(text: str) -> str | None:
    """Return the last line without its marks; None if it is long, declines to answer or was cut off."""
    last_line = text.rstrip().rpartition("\n")[2]
    word_count = len(last_line.split())
    # "World War I" and "four times" end like a sentence that was cut off.
    if declines(last_line) or (word_count > _SHORT and cut_off(last_line)):
        return None
    if len(last_line) > _LONGEST or word_count > _BARE:
        return None
    return _MARKS.sub("", last_line)


def _without_remarks(span: str) -> str | None:
    """Return a span after its last correction and before its explanation; None if it is unsure."""
    correction = _CORRECTED.split(span)[-1]
    if correction != span:
        span = _INSTEAD.sub("", correction)
    span = equation_result(span)
    if span.count("?") > 1 or _RIVAL.search(span):
        return None
    explanation = _REST.search(span)
    if explanation is not None and explanation.start():
        span = span[: explanation.start()]
    span = span.strip().strip("\"'“”‘’`").rstrip(".。").strip()
    if not span or _UNSURE.search(span):
        return None
    return span


def equation_result(span: str) -> str:
    """Return what an equation comes to ("20 - 5 = 15" to "15"); any other span as it is."""
    equation = _EQUATION.match(span)
    return span if equation is None else span[equation.end() :]


def _bullets(text: str) -> list[str]:
    """Return the items of the list that ends the text; empty if there are fewer than two."""
    items: list[str] = []
    last_lines = text[-_LONGEST:].rstrip().splitlines()[-_MOST_SPANS:]
    for line in reversed(last_lines):
        bullet = _BULLET.match(line)
        if bullet is None:
            break
        items.append(bullet[1])
    if len(items) > 1:
        return items[::-1]
    return []


def span_list(text: str) -> list[str]:
    """Split an answer that lists several spans at separators such as commas, "and" and line breaks."""
    parts = [part.strip(" .\"'") for part in _SEPARATOR.split(text)]
    return [part for part in parts if part]


# SQuAD and TriviaQA: one span, words counted.


def squad_normal(text: str) -> str:
    """Normalise a text as in SQuAD: lower case, no punctuation, no articles, single spaces."""
    unpunctuated = text.lower().translate(_WITHOUT_PUNCTUATION)
    return " ".join(_ARTICLES.sub(" ", unpunctuated).split())


def trivia_normal(text: str) -> str:
    """Normalise a text as in TriviaQA: as in SQuAD, but punctuation becomes spaces."""
    unpunctuated = text.lower().translate(_PUNCTUATION_AS_SPACES)
    return " ".join(_ARTICLES.sub(" ", unpunctuated).split())


def best_match(
    span: str, accepted: Iterable[str], normal: Callable[[str], str]
) -> tuple[bool, float]:
    """Compare a span with the accepted answers.

    Args:
        span: The span.
        accepted: The accepted answers.
        normal: Normalises a text before the comparison.

    Returns:
        Whether the span equals an accepted answer, and the highest F1 with any of them.
    """
    normal_accepted = [normal(text) for text in accepted]
    best = (False, 0.0)
    for reading in sentence_readings(span):
        normal_answer = normal(reading)
        best_f1 = max((word_f1(normal_answer, text) for text in normal_accepted), default=0.0)
        best = max(best, (normal_answer in normal_accepted, best_f1))
    return best


# DROP: sets of spans, aligned one to one, numbers as numbers.


def drop_match(
    answer: str, accepted: Sequence[Sequence[str]], question: str = ""
) -> tuple[bool, float]:
    """Compare an answer with the accepted answers of DROP.

    The answer is read as one span, as a list of spans and as a number without its unit; the best reading counts.

    Args:
        answer: The answer.
        accepted: The accepted answers, each a list of spans.
        question: The question; it may name the unit or the scale of the number.

    Returns:
        Exact match and F1 of the best pair of a reading and an accepted answer.
    """
    plain_answer = _NUMBER_SIGNS.sub("", answer)
    answer_forms: list[Sequence[str]] = []
    for reading in sentence_readings(plain_answer):
        answer_forms += _forms([reading.replace("\n", " ")], reading)
        bare_number = _without_unit(reading, question)
        if bare_number:
            answer_forms.append([bare_number])
    best = (False, 0.0)
    for accepted_spans in _accepted_forms(accepted, _has_unasked_scale(answer, question)):
        for answer_spans in answer_forms:
            best = max(best, drop_scores(answer_spans, accepted_spans))
    return best


def _has_unasked_scale(answer: str, question: str) -> bool:
    """Whether an answer has a scale that the question does not name: 1080 thousand is not 1080."""
    scale_match = _SCALES.search(answer)
    if scale_match is None:
        return False
    scale = scale_match[0].strip().lower().rstrip("s")
    return scale not in question.lower()


def _accepted_forms(
    accepted: Sequence[Sequence[str]], without_numbers: bool
) -> list[Sequence[str]]:
    """Return the accepted answers that are not blank; one span that lists several counts also as that list.

    Args:
        accepted: The accepted answers.
        without_numbers: Whether to leave out the answers that are numbers.
    """
    forms: list[Sequence[str]] = []
    for spans in accepted:
        if len(spans) == 1:
            forms += _forms(spans, spans[0])
        else:
            forms.append(spans)
    forms = [spans for spans in forms if spans[0].strip()]
    if without_numbers:
        return [spans for spans in forms if not _is_number(spans[0])]
    return forms


def drop_scores(answer: Sequence[str], wanted: Sequence[str]) -> tuple[bool, float]:
    """Compute DROP's exact match and F1 of the answer's spans and the wanted spans, in any order."""
    answer_spans = [_drop_normal(span) for span in answer]
    wanted_spans = [_drop_normal(span) for span in wanted]
    same_spans = set(answer_spans) == set(wanted_spans)
    exact = same_spans and len(answer_spans) == len(wanted_spans)
    pair_scores: list[list[float]] = []
    for wanted_span in wanted_spans:
        wanted_bag = set(wanted_span.split())
        pair_scores.append([_bag_f1(set(span.split()), wanted_bag) for span in answer_spans])
    best_sum = _best_alignment(pair_scores)
    return exact, round(best_sum / max(len(answer_spans), len(wanted_spans)), 2)


def _forms(spans: Sequence[str], text: str) -> list[Sequence[str]]:
    """Return an answer unchanged and, if its text lists several spans, also as that list."""
    parts = span_list(text)
    if 1 < len(parts) <= _MOST_SPANS:
        return [spans, parts]
    return [spans]


def _without_unit(answer: str, question: str) -> str | None:
    """Return the number at the start of an answer if the question contains every word after it.

    "three yards" and "3 yards" become "3" if the question asks for yards; a number in words becomes digits.
    """
    number_and_unit = _leading_number(answer)
    if number_and_unit is None:
        return None
    number, unit_text = number_and_unit
    question_words = _bare_words(question)
    if all(word in question_words for word in _bare_words(unit_text)):
        return number
    return None


def _leading_number(answer: str) -> tuple[str, str] | None:
    """Return the number at the start of an answer and the text after it; None if the answer is the number alone."""
    word_count = len(answer.split())
    digits = re.match(r"-?\d+(?:\.\d+)?(?!\S)", answer)
    if digits is not None:
        if word_count == 1:
            return None
        return digits[0], answer[digits.end() :]
    if word_count > _BARE:
        return None
    spelled = extract_number(answer)
    if spelled is None or not answer.startswith(spelled.text):
        return None
    return spelled.canonical, answer[len(spelled.text) :]


def _bare_words(text: str) -> set[str]:
    """Return the words of a text in lower case, without punctuation and plural."""
    return {word.strip(string.punctuation).rstrip("s") for word in text.lower().split()}


def _drop_normal(span: str) -> str:
    """Normalise a span as ``drop_eval.py`` does, token by token; numbers are written as floats."""
    normal_tokens: list[str] = []
    for token in re.split(" |-", span):
        plain_token = _as_number(token.lower().replace("ı", "i"))
        normal_tokens += _ARTICLES.sub(" ", plain_token).split()
    return " ".join(normal_tokens)


def _as_number(token: str) -> str:
    """Write a number as a float; return any other token without punctuation."""
    unpunctuated = token if _is_number(token) else token.translate(_WITHOUT_PUNCTUATION)
    if _is_number(unpunctuated):
        return str(float(unpunctuated))
    return unpunctuated


def _is_number(token: str) -> bool:
    try:
        float(token)
    except ValueError:
        return False
    return True


def _bag_f1(answer: set[str], wanted: set[str]) -> float:
    """Compute the F1 of two sets of words; if numbers are wanted, one of them must be present."""
    numbers = {word for word in wanted if _is_number(word)}
    if numbers and not numbers & answer:
        return 0.0
    if not answer or not wanted:
        return float(answer == wanted)
    return 2 * len(answer & wanted) / (len(answer) + len(wanted))


def _best_alignment(scores: list[list[float]]) -> float:
    """Return the greatest sum of scores in which each row and each column is used at most once."""
    if len(scores) > len(scores[0]):
        scores = [list(column) for column in zip(*scores, strict=True)]
    best_by_mask = {0: 0.0}
    # Rows are the shorter side. For each set of used rows (a bit mask), keep the best sum over the columns so far.
    for column in zip(*scores, strict=True):
        extended = dict(best_by_mask)
        for mask, total in best_by_mask.items():
            for row, score in enumerate(column):
                row_bit = 1 << row
                if not score or mask & row_bit:
                    continue
                extended_mask = mask | row_bit
                best_so_far = extended.get(extended_mask, 0.0)
                extended[extended_mask] = max(best_so_far, total + score)
        best_by_mask = extended
    return max(best_by_mask.values())
