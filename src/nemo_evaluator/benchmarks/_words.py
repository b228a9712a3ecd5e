"""Answers that are one of a few words: yes or no, true or false, valid or invalid."""

import re
from collections.abc import Iterator, Sequence

from nemo_evaluator.scoring import Score, ScorerInput, found, normalise, readable, versioned
from nemo_evaluator.scoring._vocabulary import cut_off
from nemo_evaluator.scoring.text import claimed_texts


@versioned("2")
def one_of(sample: ScorerInput, words: Sequence[str]) -> Score:
    """Is the word that the response settles on the target? Two words in one breath settle nothing."""
    word = pick_word(sample.response, words, sample.question)
    return found(word, word == normalise(str(sample.target)))


def pick_word(response: str, words: Sequence[str], question: str = "") -> str | None:
    """The word announced as the answer, else the one a response opens with, else the only one of its last line."""
    text = readable(response, question)
    wanted = [normalise(word) for word in words]
    return next((said for part in _places(text) if (said := _said(part, wanted)) is not None), None)


def _places(text: str) -> Iterator[str]:
    yield from claimed_texts(text)
    lines = [line for line in text.strip().splitlines() if line.strip()]
    if not lines or cut_off(text):
        return
    yield re.split(r"[.,;:!—–]|\s-\s", lines[0].strip(" *_#>`\"'"))[0]
    yield lines[-1]
    bold = re.findall(r"\*\*([^*]+)\*\*", text)
    if bold:
        yield bold[-1]
    yield text


def _said(part: str, words: list[str]) -> str | None:
    plain = f" {normalise(part)} "
    # "not valid" says invalid, "not true" says false: nothing is settled by the word alone.
    hits = {word for word in words if f" {word} " in plain}
    opening = next((word for word in words if plain.startswith(f" {word} ")), None)
    if opening is not None and not (hits - {opening}):
        return opening
    if len(hits) == 1 and " not " not in plain:
        return hits.pop()
    return None
