"""Sentences and words as the official IFEval checker counts them: sentences by Punkt (Kiss and Strunk, 2006), words in
the way of the Penn Treebank; our own code, with short lists of words where the original has a trained table."""

import re
from typing import Final

from nemo_evaluator.benchmarks._prose import STOP_WORDS, word_list

# Abbreviations of newspaper English; "etc.", "e.g." and "i.e." are not among those of the trained model.
_ABBREVIATIONS: Final = word_list("abbreviations")
_STARTERS: Final = word_list("sentence_starters")
_SIGNS: Final = r")\";}\]*:@'({\[‘’“”«»"
_END: Final = re.compile(rf"[.?!](?=[{_SIGNS}!?]|\s)")
# The stretch behind a possible end may hold a certain one.
_INNER_END: Final = re.compile(rf"[?!][{_SIGNS}!?]|\w\.[{_SIGNS}]")
_NUMBER: Final = re.compile(r"-?[.,]?\d[\d,.-]*\.?")
_TOKEN_STARTS: Final = re.compile(r"[)\";}\]*:@({\[‘’“”«»]|-{2,}|(?=')")
_CLOSING: Final = re.compile(r"\s*[\"')\]}‘’“”«»]+(?=\s|--|$)")
_NEXT: Final = re.compile(r"\s*(\S+)")
_WORD: Final = re.compile(r"[\w’-]+")
# Letters that stand for a name when a full stop follows; behind another letter the next word decides.
_INITIALS: Final = frozenset("cdefghklmnprstvw")
_KNOWN: Final = STOP_WORDS | _STARTERS | word_list("verbs")
_CAPITAL_SPLIT: Final = re.compile(r"[][\s(){}<>?!;@#$%&*\"“”‘’«»„`…]+|--+|\.\.+|[:,](?!\d)")
_CAPITAL_TAIL: Final = re.compile(r"(?<=[^'])(?:'(?:LL|RE|VE|S|M|D)|N'T)$", re.IGNORECASE)
_CAPITAL_PAIRS: Final = frozenset(
    ("CANNOT", "GIMME", "GONNA", "GOTTA", "LEMME", "WANNA", "D'YE", "MORE'N", "'TIS")
)


def count_sentences(text: str) -> int:
    """How many sentences Punkt finds. A line break or a list item without a full stop ends none."""
    count = 1 if text.strip() else 0
    text = text.rstrip()
    for stretch in re.finditer(r"\S+", text):
        # Of several possible ends in one stretch the last one counts, and one that it begins with.
        ends = list(_END.finditer(text, stretch.start(), stretch.end() + 1))
        for end in ends:
            if end is not ends[-1] and end.start() != stretch.start():
                continue
            if _is_break(text, stretch.start(), end.start(), end=stretch.end()):
                closing = _CLOSING.match(text, end.end())
                sentence_end = closing.end() if closing else end.end()
                # The end of the text starts no further sentence.
                count += sentence_end < len(text)
    return count


def _is_break(text: str, begin: int, at: int, end: int) -> bool:
    """Does the sentence end with the sign at ``at``, in the stretch from ``begin`` to ``end``?"""
    word = text[begin : at + 1]
    following = text[at + 1 : at + 2]
    if following.isspace():
        after = _NEXT.match(text, end)
        if after is None:
            return False
        following = after[1]
    if "?" in word or "!" in word or _INNER_END.search(following):
        return True
    token = _TOKEN_STARTS.split(word)[-1]
    first = _WORD.match(following)
    name = first[0].lower() if first else ""
    is_capital = following[:1].isupper()
    if token.endswith(".."):
        return is_capital and (name in _STARTERS or name not in STOP_WORDS)
    plain = token[:-1].lower()
    if plain in _ABBREVIATIONS or plain.rpartition("-")[2] in _ABBREVIATIONS:
        return is_capital and name in _STARTERS
    if len(plain) == 1 and plain.isalpha():
        return plain not in _INITIALS and is_capital and (name in _KNOWN or name in "abi")
    return not (_NUMBER.fullmatch(token) and (following[:1].islower() or following[:1] in ";:,.!?"))


def count_capital_words(text: str) -> int:
    """How many words in capital letters there are; "IT'S" and "CANNOT" are two, as in the Penn Treebank."""
    count = 0
    for token in _CAPITAL_SPLIT.split(text):
        if "'" in token:
            token = token.rstrip(".")
        if token in _CAPITAL_PAIRS:
            count += 2
        elif token:
            tail = _CAPITAL_TAIL.search(token)
            if tail:
                count += token[: tail.start()].isupper() + tail[0].isupper()
            else:
                count += token.isupper()
    return count
