"""MATH-500: competition mathematics with answers in LaTeX, compared as mathematics."""

from nemo_evaluator.benchmarks._declared import builtin
from nemo_evaluator.benchmarks._rows import kept
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.scoring import math


def prepare(row: JsonDict) -> JsonDict:
    """The subject is the category."""
    return kept(row, "problem", "answer", "level", "unique_id") | {"category": row["subject"]}


builtin("math500", prepare_row=prepare)(lambda sample: math(sample))
