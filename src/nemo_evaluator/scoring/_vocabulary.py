"""The words by which a clause denies, doubts, corrects or explains, in the languages that answers come in."""

import re
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from nemo_evaluator.core.lazy import lazy_pattern
from nemo_evaluator.scoring._patterns import pattern, words


class ClauseMark:
    """What a word does to the values of its clause: bits, as plain integers (an IntFlag costs more than the scan)."""

    NOT: Final = (
        1  # denies what follows it in the clause; what stands before it when nothing follows
    )
    REJECT: Final = 2  # "rather than": what stands before it is meant, what follows is not
    WRONG: Final = 4  # "B is wrong", "we rule out B": denies all of the clause
    CONTRARY: Final = (
        8  # "one might think", "some sources say", "whether": not the speaker's own word
    )
    SOFT: Final = 16  # "perhaps", "if": said, but two such sayings are no commitment
    CORRECT: Final = 32  # "wait", "actually": what was said before is superseded by what follows
    BECAUSE: Final = 64  # from here to the end of the sentence reasons are given
    BUT: Final = 128  # begins a clause that takes the place of the one before
    OR: Final = 256  # begins a clause that adds to the one before
    REFUSAL: Final = 512  # the answer is declined
    PLAIN: Final = 1024  # looks like another mark and is none
    SO: Final = 2048  # begins a clause that concludes


_NEGATED_VERB: Final = (
    r"(?:is|was|are|were|do|does|did|ca|could|would|wo|should|must|might|has|had|have)n['’]t"
    r"|can['’]t|won['’]t"
)


def _phrases() -> dict[str, int]:
    """The mark of each phrase, from ``data/marks.txt``: one mark and its phrases per line.

    A change there is a change of SCORING_VERSION.
    """
    lines = (Path(__file__).parent / "data" / "marks.txt").read_text(encoding="utf-8").splitlines()
    marks: dict[str, int] = {}
    for line in lines:
        mark, _, phrases = line.partition(" ")
        for phrase in phrases.split("|"):
            marks[phrase] = getattr(ClauseMark, mark)
    return marks


_TABLE: Final = _phrases()


def _alternation(words: list[str]) -> str:
    """One expression for many words: literal ones as a trie, so that the engine tries few branches at each place."""
    branches = [phrase for phrase in words if _is_pattern(phrase)]
    trie: dict[str, Any] = {}
    for phrase in words:
        if _is_pattern(phrase):
            continue
        node = trie
        for sign in phrase:
            node = node.setdefault(sign, {})
        node[""] = {}
    if trie:
        branches.append(_branches(trie))
    return "|".join(branches)


def _is_pattern(phrase: str) -> bool:
    """Whether a phrase is a regular expression: "hmm+", "on second thoughts?"."""
    return any(sign in phrase for sign in "?+(")


def _branches(node: dict[str, Any]) -> str:
    """Build the expression for a node of the trie; a key "" means that a phrase may end there."""
    branches = [re.escape(sign) + _branches(child) for sign, child in node.items() if sign]
    if not branches:
        return ""
    # The longest word first: where one may end, the longer ones are tried before.
    if "" in node:
        branches.append("")
    if len(branches) == 1:
        return branches[0]
    return f"(?:{'|'.join(branches)})"


def _phrases_with(mark: int) -> list[str]:
    return [phrase for phrase, its_mark in _TABLE.items() if its_mark == mark]


# A run of signs is looked at from its beginning only, once: a long one costs no more than its length.
_EDGES: Final = (
    r"(?<![.!?…])[.!?…]++(?=[\s\"'”’)*_\]$]|\Z)|[。！？；;\n]+"
    r"|[,，](?!\d)|、|\s[-–—]+\s(?![\d$€£])|—(?!\d)|[-=]>|→"
)
_WORD: Final = r"\w[\w'’]*"
_APART: Final = {code: " " for code in range(128) if not chr(code).isalnum()}
_UNSPACED: Final = lazy_pattern("[\u3000-\uabff\uac00-\ud7af\uff00-\uffef]")


def _longest(phrase: str) -> str:
    """Return the longest word that every text with the phrase contains; for a pattern, the first word."""
    phrase_words: list[str] = re.findall("[a-z]+", phrase)
    if "?" in phrase:
        return phrase_words[0]
    return max(phrase_words, key=len)


class Scan:
    """Finds phrases (and ``edges``) in a text.

    Where spaces separate the words, only a word that begins some phrase is tried: a tenth of the cost of a search.
    """

    def __init__(self, phrases: list[str], edges: str = "") -> None:
        self._phrases = phrases
        self._edges = edges
        self._tokens = lazy_pattern(f"{_WORD}|{edges}" if edges else _WORD)

    @cached_property
    def _first(self) -> set[str]:
        """The words with which the phrases begin."""
        words = set()
        for phrase in self._phrases:
            first_word = re.match(_WORD, phrase)
            if first_word:
                words.add(first_word[0].rstrip("+"))
        return words

    @cached_property
    def _needed(self) -> set[str]:
        """One word of each phrase, without which a text cannot have it."""
        return {_longest(phrase) for phrase in self._phrases if phrase.isascii()}

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        """Made on first use: it is large, and a run may have nothing to score."""
        spaced = _alternation([phrase for phrase in self._phrases if phrase[0] < "\u3000"])
        joined = _alternation([phrase for phrase in self._phrases if phrase[0] >= "\u3000"])
        branches = [rf"(?<![\w'’])(?:{spaced})(?!\w)"]
        if joined:
            branches.append(joined)
        if self._edges:
            branches += [rf"(?<![\w'’])(?:{_NEGATED_VERB})(?!\w)", self._edges]
        return re.compile("|".join(branches), re.IGNORECASE)

    def finditer(
        self, text: str, start: int = 0, end: int | None = None
    ) -> Iterator[re.Match[str]]:
        """The phrases and edges between two places of a text, from left to right."""
        if end is None:
            end = len(text)
        if not text.isascii() and _UNSPACED.search(text, start, end):
            yield from self._pattern.finditer(text, start, end)
            return
        if self._lacks(text, start, end):
            return
        past = start
        first_words = self._first
        match_at = self._pattern.match
        has_edges = bool(self._edges)
        for token in self._tokens.finditer(text, start, end):
            if token.start() < past:
                continue
            lowered_word = token[0].lower()
            # Inline, since this runs for every word: only "hm...", "...n't" and edges are not in ``first_words``.
            if lowered_word not in first_words:
                if lowered_word.isalpha():
                    if lowered_word[:2] != "hm":
                        continue
                elif not has_edges or lowered_word[-2:] not in ("'t", "’t"):
                    is_edge = not (lowered_word[0].isalnum() or lowered_word[0] == "_")
                    if has_edges and is_edge:
                        yield token
                    continue
            match = match_at(text, token.start(), end)
            if match is not None:
                past = match.end()
                yield match

    def _lacks(self, text: str, start: int, end: int) -> bool:
        """Whether a plain text can have none of the phrases, because it has none of the words that they need."""
        part = text[start:end]
        if self._edges or not part.isascii():
            return False
        lower = part.lower()
        if "hm" in lower:
            return False
        return self._needed.isdisjoint(lower.translate(_APART).split())

    def search(self, text: str, start: int = 0, end: int | None = None) -> re.Match[str] | None:
        """The first phrase or edge between two places of a text."""
        return next(self.finditer(text, start, end), None)


SCAN: Final = Scan(list(_TABLE), _EDGES)
CORRECTION: Final = Scan(
    [
        *_phrases_with(ClauseMark.CORRECT),
        *(
            phrase
            for phrase in _phrases_with(ClauseMark.WRONG)
            if phrase not in ("tempting", "plausible")
        ),
    ]
)
REFUSAL: Final = Scan(_phrases_with(ClauseMark.REFUSAL))
_PATTERNED: Final = [
    (lazy_pattern(phrase, re.I), mark) for phrase, mark in _TABLE.items() if _is_pattern(phrase)
]
_IF_PAUSED: Final = frozenset(("no", "non", "nein", "moment", "halt", "нет"))


def mark_of(word: str, following: str) -> int | None:
    """The mark of a word.

    Args:
        word: A match of SCAN.
        following: The two letters behind it: "no, ..." corrects, "no ..." denies.

    Returns:
        One bit of ClauseMark, or None for an edge.
    """
    lower = word.lower()
    if lower in _IF_PAUSED:
        paused = following[:1] in tuple(",:.!…—–") or following in (" -", " –", " —")
        if paused:
            return ClauseMark.CORRECT
        denies = lower == "no" or (lower == "non" and following[:1] == " ")
        return ClauseMark.NOT if denies else ClauseMark.PLAIN
    mark = _TABLE.get(lower)
    if mark is not None:
        return mark
    if not word[0].isalpha():
        return None
    if lower.endswith("t") and lower[-2] in "'’":
        return ClauseMark.NOT
    for form, mark in _PATTERNED:
        if form.fullmatch(lower):
            return mark
    return None


def is_opinion(word: str) -> bool:
    """Whether a CONTRARY word is about the clause that follows it: "one might think, ..."."""
    return word.lower().endswith(
        (
            "think",
            "meinen",
            "croire",
            "penser",
            "pensar",
            "believe",
            "say",
            "denkt",
            "guess",
            "подумать",
            "认为",
        )
    )


# Words on which no sentence ends: a text that does was cut off.
_UNFINISHED: Final = frozenset(words("vocabulary.unfinished"))
_OPERATORS: Final = frozenset("-+=×÷/(")
_OFFER: Final = pattern("vocabulary.offer")
_TASK: Final = pattern("vocabulary.task")


def cut_off(text: str) -> bool:
    """Return whether a text ends in the middle of a sentence."""
    last_words = text[-40:].rstrip(" \t\n\r,:").split()
    if not last_words:
        return False
    last_word = last_words[-1].lstrip("(*_\"'“‘[$")
    if last_word == "a" or last_word.lower() in _UNFINISHED:
        return True
    return len(last_words) > 1 and last_words[-1] in _OPERATORS


def is_offer(sentence: str) -> bool:
    """Return whether a sentence is a closing politeness that does not concern the answer."""
    return _OFFER.match(sentence) is not None


def is_task(sentence: str) -> bool:
    """Return whether a sentence asks or sets a task, instead of answering."""
    return _TASK.match(sentence) is not None or sentence.rstrip(" *_\"'”)").endswith(("?", "？"))


# A line that begins another, invented task after the answer.
NEXT_TASK: Final = pattern("vocabulary.next_task")
