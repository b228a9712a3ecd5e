"""MMLU: four-way questions from 57 subjects, elementary to professional."""

from nemo_evaluator.benchmarks._declared import builtin
from nemo_evaluator.benchmarks._rows import lettered
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.scoring import multichoice_regex


def prepare(row: JsonDict) -> JsonDict:
    """Letter the options; the subject is the category."""
    return {
        "question": row["question"],
        **lettered(row["choices"], int(row["answer"])),
        "category": row["subject"],
    }


builtin("mmlu", prepare_row=prepare)(lambda sample: multichoice_regex(sample, labels="ABCD"))
