"""Where a response says what its answer is: boxes, tags and phrases, the last one first."""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import IntEnum
from typing import Final, NamedTuple


class Kind(IntEnum):
    """How the answer stands to the words that announce it."""

    BOXED = 0  # \boxed{42}, <answer>42</answer>: the answer and nothing else
    AFTER = 1  # The answer is 42 ..., Answer: 42
    BEFORE = 2  # ... 42 is the answer
    WEAK = 3  # Answer 42: counts only when nothing else stands on the line


class Claim(NamedTuple):
    """A stretch of text in which the response announces its answer."""

    text: str
    kind: Kind


_AFTER: Final = re.compile(
    r"""ans(?:wers?)?(?:\(s\))?
    (?:[ ]+(?:choice|option|letter|value|number|here|then|line))?
    (?:[ ]+(?:to|for|of)[ ](?:the|this|your|that|our|part|question|problem)\b[^\n:.=]{0,80}?)?
    [*_`~"'”’)\]}]*
    (?:[ \t]*(?:\((?:final|in\s[\w ]{1,20})\))?[ \t]*[*_]*
       (?::|=|→|⇒|-{1,2}>|—|–)[*_]*
     |,?[ \t]+(?:(?:therefore|thus|then|hence|clearly|simply)[ ,]+)?
       (?:is|was|are|equals|(?:would|should|must|will|has[ ]to|ought[ ]to|can[ ]only|may|might|could)[ ]be
        |comes[ ](?:out[ ])?to|turns[ ]out[ ]to[ ]be|of(?=[ ]\S{1,12}[.\s]))\b)
    [ \t]*:?""",
    re.IGNORECASE | re.VERBOSE,
)
_HEADING: Final = re.compile(r"ans(?:wers?)?[*_`~ \t:)\]]*\n\s*", re.IGNORECASE)
_BARE: Final = re.compile(r"ans(?:wers?)?[*_`~]*[ \t]+", re.IGNORECASE)
_LEAD: Final = re.compile(
    r"(?:[\s*_`~>#:]+|(?:therefore|thus|hence|simply|clearly|indeed|actually|also|still|exactly|just|likely|probably"
    r"|definitely|certainly|equal to|equals|given by|approximately|approx\.|about|around|roughly|that|as follows"
    r"|so|then|therefore|hence|=|≈|is)\b[,:]?)*",
    re.IGNORECASE,
)
_NEGATED: Final = re.compile(r"(?:not|never|neither|n't)\b", re.IGNORECASE)
_BEFORE: Final = re.compile(
    r"(?:^|[.!?:]\s|\n)([^\n.!?:]*(?:\.\d[^\n.!?:]*)*?)\s+(?:is|was|must\s+be|should\s+be|would\s+be|are)\s+"
    r"(?:thus\s+|therefore\s+|hence\s+|indeed\s+|clearly\s+)?(?:the|our|my|your)\s+"
    r"(?:(?:final|correct|right|best|only|most\s+\w+|desired|required)\s+)*[*_]*$",
    re.IGNORECASE,
)
_NEEDLES: Final = ("answer", "boxed{", "####")
# The word for "answer" elsewhere; looked for only when no English claim could be read.
_FOREIGN: Final = re.compile(
    r"antwort(?:en)?|lösung|loesung|r[eé]ponse|respuesta|resposta|risposta|antwoord|odpowied[zź]\w*|odgovor|odpověď"
    r"|cevap\w*|yanıt\w*|jawab(?:an)?|jibu|majibu|svar(?:et)?|vastaus|răspuns\w*|đáp án|câu trả lời|sagot"
    r"|ответ|відповідь|отговор|одговор|απάντηση|תשובה|الإجابة|الاجابة|الجواب|إجابة|جواب|پاسخ|جواب"
    r"|答案|答え|回答|解答|答|정답|답변|답|คำตอบ|సమాధానం|జవాబు|উত্তর|उत्तर|जवाब|பதில்|விடை|ઉત્તર|ಉತ್ತರ|ഉത്തരം|පිළිතුර|መልስ"
    r"|nzaghachi|azịza|amsa|idahun|ìdáhùn|valiny|yankho|mhinduro|jawaab",
    re.IGNORECASE,
)
_FOREIGN_GAP: Final = re.compile(r"[^\d\n]{0,40}?[:：=]\s*|[\s*_`]*(?:ist|lautet|beträgt|est|es|é|è|er|är|is|adalah|ni|"
                                 r"是|为|為|は|คือ|হল|হলো|है|равен|это|to|je)?[\s*_`:]+|")  # fmt: skip


def claims(text: str) -> Iterator[Claim]:
    """What the response announces as its answer, from the last announcement to the first."""
    lower = text.lower()
    if len(lower) != len(text):
        lower = "".join(low if len(low := char.lower()) == 1 else char for char in text)
    places = [lower.rfind(needle) for needle in _NEEDLES]
    while (place := max(places)) >= 0:
        which = places.index(place)
        claim = _BOXES[which](text, lower, place)
        if claim is not None:
            yield claim
        places[which] = lower.rfind(_NEEDLES[which], 0, place)


def foreign_claims(text: str) -> Iterator[Claim]:
    """The same for announcements in other languages."""
    for match in reversed(list(_FOREIGN.finditer(text))):
        gap = _FOREIGN_GAP.match(text, match.end())
        yield Claim(_line(text, gap.end() if gap else match.end()), Kind.AFTER)


def _announced(text: str, lower: str, place: int) -> Claim | None:
    if lower.startswith("</", place - 2):
        start = lower.rfind("<answer>", 0, place)
        return Claim(text[start + 8 : place - 2], Kind.BOXED) if start >= 0 else None
    if lower.startswith("<answer>", place - 1):
        return Claim(_line(text, place + 7), Kind.AFTER) if "</answer>" not in lower[place:] else None
    # The text before tells more than what follows in "42 is the answer." and "42 is the answer: I checked it."
    window = text[max(0, place - 160) : place]
    before = _BEFORE.search(window) if window.rstrip().endswith(_BEFORE_ENDS) else None
    if before is not None and before[1].strip() and not _WORD_END.search(before[1]):
        return Claim(before[1], Kind.BEFORE)
    after = _AFTER.match(text, place) or _HEADING.match(text, place)
    if after is not None:
        start = _skip_lead(text, after.end())
        return None if _NEGATED.match(text, start) else Claim(_line(text, start), Kind.AFTER)
    bare = _BARE.match(text, place)
    return Claim(_line(text, bare.end()), Kind.WEAK) if bare else None


_BEFORE_ENDS: Final = (
    "the",
    "our",
    "my",
    "your",
    "final",
    "correct",
    "right",
    "best",
    "only",
    "*",
    "desired",
    "required",
)
_WORD_END: Final = re.compile(r"\b(?:what|which|this|that|it|here|there|below|above|following)\W*$", re.IGNORECASE)


def _skip_lead(text: str, start: int) -> int:
    lead = _LEAD.match(text, start)
    return lead.end() if lead else start


def _line(text: str, start: int) -> str:
    end = text.find("\n", start)
    return text[start:end] if end >= 0 else text[start:]


def _boxed(text: str, lower: str, place: int) -> Claim | None:
    depth, start = 1, place + len("boxed{")
    for index in range(start, len(text)):
        char = text[index]
        if char == "{":
            depth += 1
        elif char == "}":
            depth -= 1
            if depth == 0:
                return Claim(text[start:index], Kind.BOXED)
    return None


def _hashed(text: str, lower: str, place: int) -> Claim | None:
    # "#### 42" ends a worked solution; "#### Heading" is only a heading, so a number must follow.
    line = _line(text, place + 4)
    return Claim(line, Kind.WEAK) if not line.startswith("#") else None


_BOXES: Final = (_announced, _boxed, _hashed)
