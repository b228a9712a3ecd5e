"""MMLU: four-way questions from 57 subjects, elementary to professional."""

from nemo_evaluator.benchmarks._choice import lettered
from nemo_evaluator.benchmarks._declared import builtin
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.environments.custom import ScorerInput, scorer
from nemo_evaluator.scoring import Score, multichoice_regex


def prepare(row: JsonDict) -> JsonDict:
    """Letter the options; the subject is the category."""
    return {"question": row["question"], **lettered(row["choices"], int(row["answer"])), "category": row["subject"]}


@builtin("mmlu", prepare_row=prepare)
@scorer
def mmlu(sample: ScorerInput) -> Score:
    """Is the letter that the response picks the right one?"""
    return multichoice_regex(sample, labels="ABCD")
