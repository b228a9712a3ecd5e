"""Count sentences and words as the official IFEval checker does.

Sentences are split as by Punkt (Kiss and Strunk, 2006) and words as in the Penn Treebank. The code is our own; it has
short lists of words where the original has a trained table.
"""

import re
from collections.abc import Iterator
from typing import Final

from nemo_evaluator.benchmarks._prose import STOP_WORDS, word_list

# Abbreviations of newspaper English; "etc.", "e.g." and "i.e." are not among those of the trained model.
_ABBREVIATIONS: Final = word_list("abbreviations")
_STARTERS: Final = word_list("sentence_starters")
_SIGNS: Final = r")\";}\]*:@'({\[‘’“”«»"
_END: Final = re.compile(rf"[.?!](?=[{_SIGNS}!?]|\s)")
# The next stretch contains an unambiguous end.
_INNER_END: Final = re.compile(rf"[?!][{_SIGNS}!?]|\w\.[{_SIGNS}]")
_NUMBER: Final = re.compile(r"-?[.,]?\d[\d,.-]*\.?")
_TOKEN_STARTS: Final = re.compile(r"[)\";}\]*:@({\[‘’“”«»]|-{2,}|(?=')")
_CLOSING: Final = re.compile(r"\s*[\"')\]}‘’“”«»]+(?=\s|--|$)")
_NEXT: Final = re.compile(r"\s*(\S+)")
_WORD: Final = re.compile(r"[\w’-]+")
# Letters that are initials when a full stop follows; after another letter the next word decides.
_INITIALS: Final = frozenset("cdefghklmnprstvw")
_KNOWN: Final = STOP_WORDS | _STARTERS | word_list("verbs")
_CAPITAL_SPLIT: Final = re.compile(r"[][\s(){}<>?!;@#$%&*\"“”‘’«»„`…]+|--+|\.\.+|[:,](?!\d)")
_CAPITAL_TAIL: Final = re.compile(r"(?<=[^'])(?:'(?:LL|RE|VE|S|M|D)|N'T)$", re.IGNORECASE)
_CAPITAL_PAIRS: Final = frozenset(
    ("CANNOT", "GIMME", "GONNA", "GOTTA", "LEMME", "WANNA", "D'YE", "MORE'N", "'TIS")
)


def count_sentences(text: str) -> int:
    """Count the sentences that Punkt finds.

    A line break or a list item without a full stop does not end a sentence.
    """
    count = 1 if text.strip() else 0
    text = text.rstrip()
    for stretch in re.finditer(r"\S+", text):
        for position in _possible_ends(text, stretch):
            # No further sentence starts at the end of the text.
            if _is_break(text, stretch, position) and _after_closing(text, position) < len(text):
                count += 1
    return count


def _possible_ends(text: str, stretch: re.Match[str]) -> Iterator[int]:
    """Yield the positions of the signs that may end a sentence in a stretch of text without spaces.

    Of several signs in one stretch, the last one counts, and one at its beginning.
    """
    positions = [end.start() for end in _END.finditer(text, stretch.start(), stretch.end() + 1)]
    for position in positions:
        if position in (stretch.start(), positions[-1]):
            yield position


def _after_closing(text: str, position: int) -> int:
    """Return the position after a sign and the quotes and brackets that close its sentence."""
    closing = _CLOSING.match(text, position + 1)
    return position + 1 if closing is None else closing.end()


def _is_break(text: str, stretch: re.Match[str], position: int) -> bool:
    """Whether a sentence ends with a sign.

    Args:
        text: The text.
        stretch: The stretch of text without spaces that contains the sign.
        position: The position of the sign.
    """
    following = text[position + 1 : position + 2]
    if following.isspace():
        next_stretch = _NEXT.match(text, stretch.end())
        if next_stretch is None:
            return False
        following = next_stretch[1]
    stretch_through_end = text[stretch.start() : position + 1]
    if "?" in stretch_through_end or "!" in stretch_through_end or _INNER_END.search(following):
        return True
    token = _TOKEN_STARTS.split(stretch_through_end)[-1]
    return _is_break_after(token, following)


def _is_break_after(token: str, following: str) -> bool:
    """Whether a sentence ends with the full stop of a token.

    Args:
        token: The token, which ends with the full stop.
        following: The text that follows, up to the next space.
    """
    next_word_match = _WORD.match(following)
    next_word = next_word_match[0].lower() if next_word_match else ""
    is_capital = following[:1].isupper()
    if token.endswith(".."):
        return is_capital and (next_word in _STARTERS or next_word not in STOP_WORDS)
    token_text = token[:-1].lower()
    if token_text in _ABBREVIATIONS or token_text.rpartition("-")[2] in _ABBREVIATIONS:
        return is_capital and next_word in _STARTERS
    if len(token_text) == 1 and token_text.isalpha():
        starts_sentence = next_word in _KNOWN or next_word in "abi"
        return token_text not in _INITIALS and is_capital and starts_sentence
    number_continues = following[:1].islower() or following[:1] in ";:,.!?"
    return not (number_continues and _NUMBER.fullmatch(token))


def count_capital_words(text: str) -> int:
    """Count the words in capital letters; "IT'S" and "CANNOT" are two each, as in the Penn Treebank."""
    return sum(_capital_words_in(token) for token in _CAPITAL_SPLIT.split(text))


def _capital_words_in(token: str) -> int:
    """Count the words in capital letters of a token: 0, 1 or, for a contraction, 2."""
    if "'" in token:
        token = token.rstrip(".")
    if token in _CAPITAL_PAIRS:
        return 2
    contraction = _CAPITAL_TAIL.search(token)
    if contraction is None:
        return int(token.isupper())
    stem = token[: contraction.start()]
    return stem.isupper() + contraction[0].isupper()
