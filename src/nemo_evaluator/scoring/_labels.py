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
        upper_labels = labels.upper()
        self.labels = upper_labels
        # Digits are the same in both cases, so each sign is listed once.
        signs = "".join(dict.fromkeys(upper_labels + labels.lower()))
        self.tokens = {chr(_TOKEN + number): label for number, label in enumerate(upper_labels)}
        tokens = "".join(self.tokens)
        both_cases = re.escape(signs) + tokens
        upper_case = re.escape(upper_labels) + tokens

        def compiled(name: str) -> re.Pattern[str]:
            """The expression with a name, for these labels."""
            pattern_text = TEXTS[f"labels.{name}"]
            pattern_text = pattern_text.replace("<upper>", upper_case)
            pattern_text = pattern_text.replace("<both>", both_cases)
            pattern_text = pattern_text.replace("<tokens>", tokens)
            return re.compile(pattern_text)

        self.whole = re.compile(
            rf"{PLAINLY}[*(\[]{{0,3}}(?P<label>[{re.escape(upper_labels)}])[*)\].]{{0,4}}\s*"
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
