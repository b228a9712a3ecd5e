"""Is an English word a verb? A list of common ones and the endings they take; a rarer verb is not known."""

from typing import Final

from nemo_evaluator.benchmarks._prose import word_list

_FORMS: Final = word_list("verb_forms")
_BASES: Final = word_list("verbs")


def is_verb(word: str) -> bool:
    """Whether a word is a form of a verb we know."""
    plain = word.casefold().partition("'")[0].partition("’")[0]
    return plain in _FORMS or any(base in _BASES for base in _bases(plain))


def _bases(word: str) -> set[str]:
    """What a word may be a form of."""
    found = {word}
    for ending in ("s", "es", "d", "ed", "ing"):
        if word.endswith(ending):
            stem = word[: -len(ending)]
            found |= {stem, f"{stem}e"}
            if len(stem) > 2 and stem[-1] == stem[-2]:
                found.add(stem[:-1])
            if stem.endswith("i"):
                found.add(f"{stem[:-1]}y")
    if word.endswith(("ies", "ied")):
        found.add(f"{word[:-3]}y")
    return found
