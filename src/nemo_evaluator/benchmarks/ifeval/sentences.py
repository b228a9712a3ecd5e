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
# The letters a, b and i, the pairs of them, and no word at all: what may follow a single letter in a new sentence.
_LETTER_WORDS: Final = frozenset(("", "a", "b", "i", "ab", "bi", "abi"))
# Signs after a number that continue its sentence; "" is the end of the text.
_CONTINUING_SIGNS: Final = frozenset(("", *";:,.!?"))
_CAPITAL_SPLIT: Final = re.compile(r"[][\s(){}<>?!;@#$%&*\"“”‘’«»„`…]+|--+|\.\.+|[:,](?!\d)")
_CAPITAL_TAIL: Final = re.compile(r"(?<=[^'])(?:'(?:LL|RE|VE|S|M|D)|N'T)$", re.IGNORECASE)
_CAPITAL_PAIRS: Final = frozenset(
    ("CANNOT", "GIMME", "GONNA", "GOTTA", "LEMME", "WANNA", "D'YE", "MORE'N", "'TIS")
)


def count_sentences(text: str) -> int:
    """Count the sentences that Punkt finds.

    A line break or a list item without a full stop does not end a sentence.
    """
    text = text.rstrip()
    if not text:
        return 0
    breaks = 0
    for stretch in re.finditer(r"\S+", text):
        for position in _possible_ends(text, stretch):
            # No further sentence starts at the end of the text.
            is_at_end = _after_closing(text, position) >= len(text)
            if not is_at_end and _is_break(text, stretch, position):
                breaks += 1
    return breaks + 1


def _possible_ends(text: str, stretch: re.Match[str]) -> Iterator[int]:
    """Yield the positions of the signs that may end a sentence in a stretch of text without spaces.

    Of several signs in one stretch, the last one counts, and one at its beginning.
    """
    # The sign at the end of a stretch counts only before a space, which is the character after the stretch.
    ends = _END.finditer(text, stretch.start(), stretch.end() + 1)
    positions = [end.start() for end in ends]
    for position in positions:
        is_first_character = position == stretch.start()
        is_last_end = position == positions[-1]
        if is_first_character or is_last_end:
            yield position


def _after_closing(text: str, position: int) -> int:
    """Return the position after a sign and the quotes and brackets that close its sentence."""
    after_sign = position + 1
    closing = _CLOSING.match(text, after_sign)
    if closing is None:
        return after_sign
    return closing.end()


def _is_break(text: str, stretch: re.Match[str], position: int) -> bool:
    """Whether a sentence ends with a sign.

    Args:
        text: The text.
        stretch: The stretch of text without spaces that contains the sign.
        position: The position of the sign.
    """
    after_sign = position + 1
    following = text[after_sign : after_sign + 1]
    if following.isspace():
        next_stretch = _NEXT.match(text, stretch.end())
        if next_stretch is None:
            return False
        following = next_stretch[1]
    stretch_through_sign = text[stretch.start() : after_sign]
    has_unambiguous_end = "?" in stretch_through_sign or "!" in stretch_through_sign
    if has_unambiguous_end or _INNER_END.search(following):
        return True
    tokens = _TOKEN_STARTS.split(stretch_through_sign)
    return _is_break_after(tokens[-1], following)


def _is_break_after(token: str, following: str) -> bool:
    """Whether a sentence ends with the full stop of a token.

    Args:
        token: The token, which ends with the full stop.
        following: The text that follows, up to the next space.
    """
    next_word_match = _WORD.match(following)
    next_word = next_word_match[0].lower() if next_word_match else ""
    next_sign = following[:1]
    is_capital = next_sign.isupper()
    is_ellipsis = token.endswith("..")
    if is_ellipsis:
        may_start = next_word in _STARTERS or next_word not in STOP_WORDS
        return is_capital and may_start
    word = token[:-1].lower()
    if _is_abbreviation(word):
        return is_capital and next_word in _STARTERS
    is_letter = len(word) == 1 and word.isalpha()
    if is_letter:
        may_start = next_word in _KNOWN or next_word in _LETTER_WORDS
        return is_capital and may_start and word not in _INITIALS
    is_number = _NUMBER.fullmatch(token) is not None
    number_continues = next_sign.islower() or next_sign in _CONTINUING_SIGNS
    return not (is_number and number_continues)


def _is_abbreviation(word: str) -> bool:
    """Whether a word, or its part behind the last hyphen, is an abbreviation."""
    _, _, last_part = word.rpartition("-")
    return word in _ABBREVIATIONS or last_part in _ABBREVIATIONS


def count_capital_words(text: str) -> int:
    """Count the words in capital letters; "IT'S" and "CANNOT" are two each, as in the Penn Treebank."""
    tokens = _CAPITAL_SPLIT.split(text)
    return sum(_capital_words_in(token) for token in tokens)


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
    ending = contraction[0]
    return int(stem.isupper()) + int(ending.isupper())
