"""BoolQ: yes-or-no questions about a passage."""

from nemo_evaluator.benchmarks._declared import builtin
from nemo_evaluator.benchmarks._words import one_of
from nemo_evaluator.core.types import JsonDict


def prepare(row: JsonDict) -> JsonDict:
    """The truth value in words."""
    return {
        "passage": row["passage"],
        "question": row["question"],
        "target": "yes" if row["answer"] else "no",
    }


builtin("boolq", prepare_row=prepare)(lambda sample: one_of(sample, ("yes", "no")))
