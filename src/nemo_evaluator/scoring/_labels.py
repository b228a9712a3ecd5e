"""Expressions for labels in text: at the beginning, joined, asserted, judged, listed."""

import re
from functools import lru_cache
from typing import Final

from nemo_evaluator.scoring._claims import PLAINLY
from nemo_evaluator.scoring._patterns import TEXTS

# The text of an option becomes one letter of the private use area: nothing in it is taken for the speaker's words.
_TOKEN: Final = 0xE000


class Patterns:
    """The expressions for one set of labels.

    In their texts, ``<upper>`` stands for the labels in upper case, ``<both>`` for both cases and ``<tokens>`` for the
    private characters that replace the texts of options.
    """

    def __init__(self, labels: str) -> None:
        self.tokens = {chr(_TOKEN + number): label for number, label in enumerate(labels.upper())}
        tokens = "".join(self.tokens)
        both_cases = re.escape("".join(dict.fromkeys(labels.upper() + labels.lower()))) + tokens
        upper_case = re.escape(labels.upper()) + tokens

        def compiled(name: str) -> re.Pattern[str]:
            pattern_text = (
                TEXTS[f"labels.{name}"].replace("<upper>", upper_case).replace("<both>", both_cases)
            )
            return re.compile(pattern_text.replace("<tokens>", tokens))

        self.whole = re.compile(
            rf"{PLAINLY}[*(\[]{{0,3}}(?P<label>[{re.escape(labels.upper())}])[*)\].]{{0,4}}\s*"
        )
        self.opening = compiled("opening")
        self.joined = compiled("joined")
        self.said = compiled("said")
        self.judged = compiled("judged")
        self.line = compiled("line")
        self.listed = compiled("listed")
        self.late = compiled("late")
        self.parens = compiled("parens")
        self.single = compiled("single")


@lru_cache(maxsize=64)
def patterns_of(labels: str) -> Patterns:
    """Return the expressions for a set of labels, compiled once."""
    return Patterns(labels)
