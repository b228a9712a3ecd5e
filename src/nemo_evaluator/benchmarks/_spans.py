"""Answers that are spans of text: the words a response commits to, and exact match and F1 as the papers define them.
The metrics are those of DROP's ``drop_eval.py``, SQuAD 2.0's ``evaluate-v2.0.py`` and TriviaQA's
``triviaqa_evaluation.py``; they see only the span that was committed to, never the text around it."""

import re
import string
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from nemo_evaluator.scoring import extract_number, readable
from nemo_evaluator.scoring.text import claimed_texts, cut_off, declines, tasks, word_f1

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
# What follows replaces the answer before it.
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
_PUNCTUATION: Final = frozenset(string.punctuation)
_QUOTES: Final = "".join(chr(code) for code in (0x2018, 0x2019, 0xB4, 0x60))


def committed(response: str, question: str = "") -> str | None:
    """The span that a response gives as its answer: what it announces, else a short last line; None when it commits
    to nothing. An explanation behind the span is left out and a correction counts; a denial or a choice of two is no
    answer."""
    whole = readable(response, question)
    text = next(tasks(whole))
    said = next(claimed_texts(whole), None)
    if said is None:
        last = text.rstrip().rpartition("\n")[2]
        if len(last) <= _LONGEST and len(last.split()) <= _BARE:
            said = _MARKS.sub("", last)
        else:
            said = None
        # "World War I" and "four times" end like a sentence that was cut off.
        if declines(last) or (len(last.split()) > _SHORT and cut_off(last)):
            return None
    if not said or len(said) > _LONGEST:
        return None
    said = " ".join(said.split())
    listed = _bullets(text)
    if listed and _MARKS.sub("", listed[0]).strip(" .") == said.strip(" ."):
        return "\n".join(_MARKS.sub("", item).strip(" .") for item in listed)
    *_, corrected = _CORRECTED.split(said)
    if corrected != said:
        said = _INSTEAD.sub("", corrected)
    if said.count("?") > 1 or _RIVAL.search(said):
        return None
    rest = _REST.search(said)
    if rest is not None and rest.start():
        said = said[: rest.start()]
    said = said.strip().strip("\"'“”‘’`").rstrip(".").strip()
    if not said or _UNSURE.search(said):
        return None
    return said


def _bullets(text: str) -> list[str]:
    """The items of a list that ends the text, two at least."""
    items: list[str] = []
    for line in reversed(text[-_LONGEST:].rstrip().splitlines()[-_MOST_SPANS:]):
        bullet = _BULLET.match(line)
        if bullet is None:
            break
        items.append(bullet[1])
    if len(items) > 1:
        return items[::-1]
    return []


def span_list(text: str) -> list[str]:
    """The spans of an answer that lists several, in whatever way they are separated."""
    return [part for part in (part.strip(" .\"'") for part in _SEPARATOR.split(text)) if part]


# SQuAD and TriviaQA: one span, words counted.


def squad_normal(text: str) -> str:
    """Lower case, punctuation and articles gone, spaces single."""
    bare = "".join(sign for sign in text.lower() if sign not in _PUNCTUATION)
    return " ".join(_ARTICLES.sub(" ", bare).split())


def trivia_normal(text: str) -> str:
    """As in SQuAD, but signs become spaces."""
    signs = _PUNCTUATION | set(_QUOTES)
    bare = "".join(sign if sign not in signs else " " for sign in text.lower().replace("_", " "))
    return " ".join(_ARTICLES.sub(" ", bare).split())


def best_match(
    said: str, accepted: Iterable[str], normal: Callable[[str], str]
) -> tuple[bool, float]:
    """Exact match and F1 with the accepted answer that fits best."""
    answer = normal(said)
    normal_accepted = [normal(text) for text in accepted]
    overlap = max((word_f1(answer, text) for text in normal_accepted), default=0.0)
    return answer in normal_accepted, overlap


# DROP: sets of spans, aligned one to one, numbers as numbers.


def drop_match(
    said: str, accepted: Sequence[Sequence[str]], question: str = ""
) -> tuple[bool, float]:
    """Exact match and F1 of an answer, read as one span and as a list, with the accepted answer that fits best."""
    plain = _NUMBER_SIGNS.sub("", said)
    number = _without_unit(plain, question)
    readings = _forms([plain.replace("\n", " ")], plain)
    if number:
        readings.append([number])
    wanted: list[Sequence[str]] = []
    for spans in accepted:
        if len(spans) == 1:
            wanted.extend(_forms(spans, spans[0]))
        else:
            wanted.append(spans)
    scale = _SCALES.search(said)
    # 1080 thousand is not 1080, unless thousands were asked for.
    if scale is not None and scale[0].strip().lower().rstrip("s") not in question.lower():
        wanted = [spans for spans in wanted if not _is_number(spans[0])]
    pairs: list[tuple[bool, float]] = []
    for mine in readings:
        for theirs in wanted:
            if theirs[0].strip():
                pairs.append(drop_scores(mine, theirs))
    return max(pairs, default=(False, 0.0))


def drop_scores(said: Sequence[str], wanted: Sequence[str]) -> tuple[bool, float]:
    """Exact match and F1 of the spans given with the spans wanted, in any order."""
    mine = [_drop_normal(span) for span in said]
    theirs = [_drop_normal(span) for span in wanted]
    exact = set(mine) == set(theirs) and len(mine) == len(theirs)
    bags = [set(span.split()) for span in mine]
    wanted_bags = [set(span.split()) for span in theirs]
    total = _best_alignment([[_bag_f1(bag, gold) for bag in bags] for gold in wanted_bags])
    return exact, round(total / max(len(bags), len(wanted_bags)), 2)


def _forms(spans: Sequence[str], text: str) -> list[Sequence[str]]:
    """An answer unchanged and, where its text lists several spans, as those."""
    parts = span_list(text)
    if 1 < len(parts) <= _MOST_SPANS:
        return [spans, parts]
    return [spans]


def _without_unit(said: str, question: str) -> str | None:
    """The number of "three yards" or "3 yards" where the question asks for yards, and of a number in words."""
    words = said.split()
    head = re.match(r"-?\d+(?:\.\d+)?(?!\S)", said)
    spelt = None if head or len(words) > _BARE else extract_number(said)
    if spelt is not None and said.startswith(spelt.text):
        tail = said[len(spelt.text) :]
        number = spelt.canonical
    elif head and len(words) > 1:
        tail = said[head.end() :]
        number = head[0]
    else:
        return None
    asked = {word.strip(string.punctuation).rstrip("s") for word in question.lower().split()}
    if all(word.strip(string.punctuation).rstrip("s") in asked for word in tail.lower().split()):
        return number
    return None


def _drop_normal(span: str) -> str:
    tokens = (
        " ".join(_ARTICLES.sub(" ", _as_number(token.lower().replace("ı", "i"))).split())
        for token in re.split(" |-", span)
    )
    return " ".join(token for token in tokens if token)


def _as_number(token: str) -> str:
    if _is_number(token):
        bare = token
    else:
        bare = "".join(sign for sign in token if sign not in _PUNCTUATION)
    if _is_number(bare):
        return str(float(bare))
    return bare


def _is_number(token: str) -> bool:
    try:
        float(token)
    except ValueError:
        return False
    return True


def _bag_f1(said: set[str], wanted: set[str]) -> float:
    """Overlap of two sets of words; a number that is wanted must be among those given."""
    numbers = {word for word in wanted if _is_number(word)}
    if numbers and not numbers & said:
        return 0.0
    if not said or not wanted:
        return float(said == wanted)
    return 2 * len(said & wanted) / (len(said) + len(wanted))


def _best_alignment(scores: list[list[float]]) -> float:
    """The greatest sum of scores with each row and each column used once at most."""
    if len(scores) > len(scores[0]):
        scores = [list(column) for column in zip(*scores, strict=True)]
    best = {0: 0.0}
    # Rows are the shorter side: masks of used rows, one column after another.
    for column in zip(*scores, strict=True):
        grown = dict(best)
        for mask, value in best.items():
            for row, score in enumerate(column):
                if score and not mask >> row & 1:
                    key = mask | 1 << row
                    grown[key] = max(grown.get(key, 0.0), value + score)
        best = grown
    return max(best.values())
