"""Answers that are one of a few words: yes or no, true or false, valid or invalid."""

import re
from collections.abc import Iterator, Sequence

from nemo_evaluator.scoring import Score, ScorerInput, found, normalise, readable, versioned
from nemo_evaluator.scoring._vocabulary import cut_off
from nemo_evaluator.scoring.text import claimed_texts


@versioned("2")
def one_of(sample: ScorerInput, words: Sequence[str]) -> Score:
    """Score whether the response settles on the target word.

    Args:
        sample: The answer.
        words: The words to choose from. A part of the response that contains two of them settles on neither.
    """
    picked = pick_word(sample.response, words, sample.question)
    return found(picked, picked == normalise(str(sample.target)))


def pick_word(response: str, words: Sequence[str], question: str = "") -> str | None:
    """Find the word that a response settles on.

    The announced answer counts first, then the word that the response opens with, its last line, its last bold text and
    the whole text. Only an announced answer counts if the response is cut off.

    Args:
        response: The response.
        words: The words to choose from.
        question: The question; where the response repeats it, that is not an answer.

    Returns:
        The normalised word, or None if the response settles on none.
    """
    text = readable(response, question)
    normal_words = [normalise(word) for word in words]
    for part in _places(text):
        picked = _only_word(part, normal_words)
        if picked is not None:
            return picked
    return None


def _places(text: str) -> Iterator[str]:
    """Yield the parts of a response that may state the answer, the most telling one first."""
    yield from claimed_texts(text)
    lines = [line for line in text.strip().splitlines() if line.strip()]
    if not lines or cut_off(text):
        return
    first_line = lines[0].strip(" *_#>`\"'")
    opening_clause = re.split(r"[.,;:!—–]|\s-\s", first_line)[0]
    yield opening_clause
    yield lines[-1]
    bold = re.findall(r"\*\*([^*]+)\*\*", text)
    if bold:
        yield bold[-1]
    yield text


def _only_word(part: str, words: list[str]) -> str | None:
    """Return the only word in a part of a response. If the part contains "not", it must open with the word."""
    padded_text = f" {normalise(part)} "
    # "not valid" means invalid and "not true" means false: the word alone does not settle the answer.
    present_words = {word for word in words if f" {word} " in padded_text}
    if len(present_words) != 1:
        return None
    only_word = present_words.pop()
    opens_with_word = padded_text.startswith(f" {only_word} ")
    if " not " in padded_text and not opens_with_word:
        return None
    return only_word
