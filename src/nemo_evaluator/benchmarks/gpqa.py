"""GPQA Diamond: graduate questions in biology, physics and chemistry that searching does not answer."""

import random

from nemo_evaluator.benchmarks._declared import builtin
from nemo_evaluator.benchmarks._rows import lettered
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.scoring import multichoice_regex

_WRONG = ("Incorrect Answer 1", "Incorrect Answer 2", "Incorrect Answer 3")


def prepare(row: JsonDict, idx: int, rng: random.Random) -> JsonDict:
    """Shuffle the four answers; the order of a question is the same in every run."""
    right = row["Correct Answer"].strip()
    choices = [right, *(row[column].strip() for column in _WRONG)]
    rng.shuffle(choices)
    columns = lettered(choices, choices.index(right))
    return {"question": row["Question"].strip(), **columns, "category": row["High-level domain"]}


builtin("gpqa", prepare_row=prepare)(lambda sample: multichoice_regex(sample, labels="ABCD"))
