"""Columns of a finished benchmark stay small, and take any number of words and repeats."""

from __future__ import annotations

from nemo_evaluator.engine.columns import Labels


def test_few_words_take_a_byte_each() -> None:
    labels = Labels()
    for number in range(1000):
        labels.add(f"word {number % 256}")
    assert labels.codes.itemsize == 1


def test_many_words_keep_their_codes() -> None:
    labels = Labels()
    words = [f"word {number % 700}" for number in range(2000)]
    for word in words:
        labels.add(word)
    names = list(labels.names)
    assert [names[code] for code in labels.codes] == words
    assert labels.counts()["word 699"] == words.count("word 699")
